"""A protocol that is later than ours: with more fields in every message, more bits, an event and a method more."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from adapter.nri import api
from adapter.wire import Code
from tests.runtime.fixtures import CREATE, Plugins, forking, plugins  # noqa: F401 - two are fixtures

from .harness import Node
from .messages import POD, container, start, stop

NEW_EVENT = 15


IN_ALL = ("later", 500, Field.TYPE_STRING, Field.LABEL_OPTIONAL)
NEW_FIELDS = {  # name, number, type and label, by message
    "ConfigureRequest": [("capabilities", 7, Field.TYPE_INT64, Field.LABEL_OPTIONAL)],
    "RunPodSandboxRequest": [("ips", 2, Field.TYPE_STRING, Field.LABEL_REPEATED)],
}


@cache
def later() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto()
    api.DESCRIPTOR.CopyToProto(file)
    for message in file.message_type:
        for name, number, type_, label in (IN_ALL, *NEW_FIELDS.get(message.name, ())):
            message.field.add(name=name, number=number, type=type_, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def of_later(message: Message, **fields: Any) -> Any:
    """A message of ours as the later protocol has it, with all that is new in it."""
    made: Any = message_factory.GetMessageClass(later().FindMessageTypeByName(message.DESCRIPTOR.full_name))(**fields)
    made.MergeFromString(message.SerializeToString())
    fill(made)
    return made


def fill(message: Any) -> None:
    """Sets what is new in a message, and in those inside it."""
    if "later" in message.DESCRIPTOR.fields_by_name:
        message.later = "x"
    for field, value in message.ListFields():
        if field.message_type and not field.message_type.GetOptions().map_entry:
            for part in value if field.is_repeated else [value]:
                fill(part)


def test_a_later_runtime_is_served_as_todays(node: Node) -> None:
    node.configure("good")
    of = container("ctr", {"a": "b"})
    calls: list[tuple[str, Message, dict[str, Any]]] = [
        ("Synchronize", api.SynchronizeRequest(pods=[POD]), {}),
        ("RunPodSandbox", api.RunPodSandboxRequest(pod=POD), {"ips": ["10.0.0.1", "fd00::1"]}),
        ("CreateContainer", api.CreateContainerRequest(pod=POD, container=of), {}),
        ("StartContainer", start("ctr"), {}),
        ("StateChange", api.StateChangeEvent(event=NEW_EVENT, pod=POD, container=of), {}),  # type: ignore[arg-type]
        ("StateChange", api.StateChangeEvent(event=api.START_CONTAINER, pod=POD, container=container("old")), {}),
        ("StopContainer", stop("ctr"), {}),
    ]
    answers, requests = [], []
    for is_later in (False, True):
        daemon = node.spawn()
        register = daemon.request()
        daemon.connection.respond(register.stream_id, of_later(api.Empty()).SerializeToString() if is_later else b"")
        configure = api.ConfigureRequest(config=node.settings(), NRI_version="v0.12.5", request_timeout=60_000)
        told = [("Configure", configure, {"capabilities": -1}), *calls]
        replies = [
            daemon.call(method, of_later(message, **fields) if is_later else message)
            for method, message, fields in told
        ]
        assert [reply.code for reply in replies] == [Code.OK] * len(told), replies
        answers.append([reply.payload for reply in replies])
        requests.append(node.requests("good"))
        (node.path / "good.requests").unlink()
        assert daemon.call("ActivatePodSandbox", of_later(stop("ctr"))).code == Code.UNIMPLEMENTED
        node.still_serves(daemon)
        node.configure("good")
        (node.path / "good.requests").unlink()
        daemon.kill()
        daemon.ended()
    assert answers[0] == answers[1]
    assert requests[0] == requests[1]
    assert [(request["state"], request["id"]) for request in requests[1]] == [
        *(("create", id_) for id_ in ("pod-1", "ctr", "old")),
        ("delete", "ctr"),
    ]
    assert api.ConfigureResponse.FromString(answers[1][0]).events >> NEW_EVENT - 1 == 0


def test_a_later_plugin_is_served_as_todays(plugins: Plugins) -> None:  # noqa: F811
    adjust = api.ContainerAdjustment(annotations={"a": "b"}, mounts=[api.Mount(destination="/x")])
    answers = {
        "Configure": of_later(api.ConfigureResponse(events=1 << api.CREATE_CONTAINER - 1)).SerializeToString(),
        "Synchronize": of_later(api.SynchronizeResponse()).SerializeToString(),
        "CreateContainer": of_later(api.CreateContainerResponse(adjust=adjust)).SerializeToString(),
    }
    runtime, _ = plugins.launch("00-later", f"raw.run(lambda plugin, request: {answers!r}[request.method])")
    outcome = runtime.event("CreateContainer", CREATE)
    assert outcome.adjust is not None
    assert (outcome.error, MessageToDict(outcome.adjust)) == ("", MessageToDict(adjust))
