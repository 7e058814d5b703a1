"""A pod, its containers and the events about them."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.message import Message

from adapter.nri import api

POD = api.PodSandbox(
    id="pod-1",
    name="web",
    uid="u",
    namespace="default",
    labels={"app": "web"},
    pid=4242,
    linux=api.LinuxPodSandbox(cgroups_path="/pods/pod-1"),
)


def launched(name: str = "v010-adapter", idx: str = "00", fd: str = "3") -> dict[str, str]:
    """The whole environment of a plugin that a runtime launched."""
    return {"NRI_PLUGIN_NAME": name, "NRI_PLUGIN_IDX": idx, "NRI_PLUGIN_SOCKET": fd}


def container(id_: str, annotations: Mapping[str, str] | None = None, pod: api.PodSandbox = POD) -> api.Container:
    """A container of the pod."""
    linux = api.LinuxContainer(cgroups_path=f"/pods/{id_}")
    return api.Container(id=id_, pod_sandbox_id=pod.id, name=id_, pid=77, annotations=annotations, linux=linux)


def start(id_: str, annotations: Mapping[str, str] | None = None, pod: api.PodSandbox = POD) -> Message:
    return api.StartContainerRequest(pod=pod, container=container(id_, annotations, pod))


def stop(id_: str, pod: api.PodSandbox = POD) -> Message:
    return api.StopContainerRequest(pod=pod, container=container(id_, None, pod))
