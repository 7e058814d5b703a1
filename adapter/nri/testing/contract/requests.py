"""The requests of the situations: the life of a pod, and containers with too little or too much of everything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from google.protobuf.message import Message

from nri import api, events
from nri.testing.flavour import Flavour
from nri.testing.recorded import life, recorded, without_processes

Call = tuple[str, Message]
"""An event and its request."""

UNKNOWN_FIELD = b"\xc2\x3e\x03new"
"""The field 1000 with the text `new`. No message of NRI has it."""
HIGHEST = 2**63 - 1
"""The highest number that the runtime gets from Kubernetes for any resource."""
TEXTS = {
    "": "",
    "empty": "",
    "unicode": "\U0001d518\u0308\u202e\u2028\ufffd\x7f",
    "long": "x" * 65536,
    "lines": "a\r\n\tb",
}
LARGE_ENV = [f"LARGE_{number}={'x' * 80}" for number in range(40_000)]
"""3.7 MiB. A message is 4 MiB at most."""
PODS, CONTAINERS, PER_PART = 2_000, 10_000, 1_000


def pod_life(flavour: Flavour) -> list[Call]:
    """Returns the life of a recorded pod, with the events of a pod's update if the runtime has them."""
    calls = list(life().items())
    if flavour.valid_events & events.mask(["UpdatePodSandbox"]):
        at = [method for method, _ in calls].index("StopContainer")
        calls[at:at] = [(method, recorded(method)) for method in ("UpdatePodSandbox", "PostUpdatePodSandbox")]
    return [(method, without_processes(request)) for method, request in calls]


def subjects(request: Any) -> Iterator[Any]:
    """Yields the pod and the container of a request, as far as it has them."""
    for name in ("pod", "container"):
        if name in request.DESCRIPTOR.fields_by_name and request.HasField(name):
            yield getattr(request, name)


def validated(calls: Iterable[Call], plugin: str) -> Iterator[Call]:
    """Yields the events, and behind each CreateContainer its validation, which names the plugin `NN-NAME`."""
    for method, request in calls:
        yield method, request
        if isinstance(request, api.CreateContainerRequest):
            instances = [api.PluginInstance(index=plugin[:2], name=plugin[3:])]
            validation = api.ValidateContainerAdjustmentRequest(
                pod=request.pod, container=request.container, plugins=instances
            )
            yield "ValidateContainerAdjustment", validation


def of_container(calls: Iterable[Call], *, methods: Sequence[str] = ()) -> list[Call]:
    """Returns the events of a container: these, or all."""
    found = [(method, request) for method, request in calls if "container" in request.DESCRIPTOR.fields_by_name]
    return [(method, request) for method, request in found if method in (methods or events.CALLS)]


def named(calls: Iterable[Call], id_: str) -> list[Call]:
    """Returns the events with another container."""
    result: list[tuple[str, Any]] = [(method, deepcopy(request)) for method, request in calls]
    for _, request in result:
        request.container.id = id_
    return result


def newer(calls: Iterable[Call]) -> Iterator[Call]:
    """Yields the events with a field that NRI does not have, in the request and in its pod and container."""
    for method, request in calls:
        copied: Any = deepcopy(request)
        for message in subjects(copied):
            message.MergeFromString(UNKNOWN_FIELD)
        copied.MergeFromString(UNKNOWN_FIELD)
        yield method, copied


def sparse(calls: Iterable[Call]) -> Iterator[Call]:
    """Yields the events of a container with as little as a runtime sends: Docker's pods have no more."""
    for method, request in of_container(calls):
        pod, container = request.pod, request.container  # type: ignore[attr-defined]
        made: Any = type(request)(pod=api.PodSandbox(id=pod.id, name=pod.name))
        made.container.CopyFrom(api.Container(id=container.id, pod_sandbox_id=pod.id, name=container.name))
        made.container.linux.SetInParent()
        yield method, made


def extreme(calls: Iterable[Call], number: int) -> Iterator[Call]:
    """Yields the events with the number in all resources, and with unusual texts."""
    for method, request in of_container(calls):
        copied: Any = deepcopy(request)
        for subject in subjects(copied):
            subject.labels.update(TEXTS)
            subject.annotations.update(TEXTS)
        container = copied.container
        container.args[:] = TEXTS.values()
        container.env[:] = [f"{key or 'A'}={value}" for key, value in TEXTS.items()]
        _fill(container.linux.resources, number)
        if method == "UpdateContainer":
            _fill(copied.linux_resources, number)
        yield method, copied


def _fill(message: Any, number: int) -> None:
    """Sets all numbers of memory, CPU and pids."""
    for part in (message.memory, message.cpu, message.pids):
        for field in part.DESCRIPTOR.fields:
            if field.message_type is None:
                if field.cpp_type == field.CPPTYPE_INT64:
                    setattr(part, field.name, number)
            elif field.message_type.fields_by_name["value"].cpp_type in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64):
                getattr(part, field.name).value = number


def large(calls: Iterable[Call]) -> Iterator[Call]:
    """Yields events of a container of almost 4 MiB."""
    methods = "CreateContainer", "ValidateContainerAdjustment", "StartContainer", "StopContainer"
    for method, request in of_container(calls, methods=methods):
        copied: Any = deepcopy(request)
        copied.container.env.extend(LARGE_ENV)
        yield method, copied


def full_node() -> list[api.SynchronizeRequest]:
    """Returns the state of a node with many pods and containers, in parts."""
    pods = [
        api.PodSandbox(id=f"pod-{number}", name=f"p{number}", namespace="default", uid=f"uid-{number}")
        for number in range(PODS)
    ]
    containers = [
        api.Container(
            id=f"container-{number}",
            pod_sandbox_id=f"pod-{number % PODS}",
            name=f"c{number}",
            state=api.CONTAINER_RUNNING,
            env=["PATH=/bin"],
            labels={"app": f"{number}"},
            linux=api.LinuxContainer(),
        )
        for number in range(CONTAINERS)
    ]
    of_pods = [api.SynchronizeRequest(pods=pods[start : start + PER_PART]) for start in range(0, PODS, PER_PART)]
    starts = range(0, CONTAINERS, PER_PART)
    return of_pods + [api.SynchronizeRequest(containers=containers[start : start + PER_PART]) for start in starts]
