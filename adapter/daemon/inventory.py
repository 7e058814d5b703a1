"""The pods and containers that a runtime has, as its events tell an adapter that does not serve them yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adapter.proto import nri_pb2 as api


class Inventory:
    """The pods and containers that have not stopped: the list of Synchronize, changed by the events since."""

    def __init__(self, pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]) -> None:
        self.pods = {pod.id: pod for pod in pods}
        self.containers = {container.id: container for container in containers}

    def is_news(self, event: str, request: Any) -> bool:
        """Whether an event tells of a pod or container what neither Synchronize nor an earlier event has told."""
        if event == "RunPodSandbox":
            return request.pod.id not in self.pods
        if event not in ("CreateContainer", "StartContainer"):
            return False
        known = self.containers.get(request.container.id)
        return known is None or (event == "StartContainer" and known.state == api.CONTAINER_CREATED)

    def follow(self, event: str, request: Any) -> None:
        """Notes an event, given by the name of its method, and NRI's request."""
        if event in ("StopPodSandbox", "RemovePodSandbox"):
            self.pods.pop(request.pod.id, None)
        elif event in ("StopContainer", "RemoveContainer"):
            self.containers.pop(request.container.id, None)
        elif event == "RunPodSandbox":
            self.pods[request.pod.id] = request.pod
        elif event in ("CreateContainer", "StartContainer"):
            container = api.Container()
            container.CopyFrom(request.container)
            container.state = api.CONTAINER_CREATED if event == "CreateContainer" else api.CONTAINER_RUNNING
            self.containers[container.id] = container
