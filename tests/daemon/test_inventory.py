"""What an adapter that waits knows of the runtime's pods and containers, by Synchronize and the events since."""

from __future__ import annotations

from typing import Any

from adapter.daemon.inventory import Inventory
from adapter.nri import api

from .harness import POD, container, create, start, stop

# Each event, whether it tells something new, and what is there after it.
EVENTS: list[tuple[Any, bool, str]] = [
    (api.RunPodSandboxRequest(pod=POD), False, "pod-1 c1"),
    (api.RunPodSandboxRequest(pod=api.PodSandbox(id="pod-2")), True, "pod-1 pod-2 c1"),
    (start("c1"), False, "pod-1 pod-2 c1"),
    *((request, is_news, "pod-1 pod-2 c1 c2") for request in (create("c2"), start("c2")) for is_news in (True, False)),
    (api.UpdateContainerRequest(pod=POD, container=container("c3")), False, "pod-1 pod-2 c1 c2"),
    (stop("c1"), False, "pod-1 pod-2 c2"),
    (api.StopPodSandboxRequest(pod=POD), False, "pod-2 c2"),
]


def test_events_change_what_is_there_and_each_is_news_once() -> None:
    known = Inventory([POD], [api.Container(id="c1", state=api.CONTAINER_RUNNING)])
    for request, is_news, there in EVENTS:
        event = type(request).__name__.removesuffix("Request")
        assert known.is_news(event, request) is is_news, request
        known.follow(event, request)
        assert " ".join([*known.pods, *known.containers]) == there, request
