"""Bytes that no runtime should send, or not like that: what they ask is refused, and the next event is served."""

from __future__ import annotations

import json
import struct

import pytest

from adapter.nri import api
from adapter.nri.events import PLUGIN, RUNTIME
from adapter.proto import ttrpc_pb2
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, mux, ttrpc
from adapter.wire.ttrpc import Type

from .harness import Daemon, Node, patched, start, stop

GARBAGE = b"\xff" * 100


@pytest.fixture
def node(shared_node: Node) -> Node:
    return shared_node


@pytest.fixture
def daemon(shared_node: Node, shared: Daemon) -> Daemon:
    """One that has survived the tests before this one."""
    shared_node.configure("good")
    return shared


def envelope(method: str, payload: bytes, service: str = PLUGIN) -> bytes:
    return ttrpc_pb2.Request(service=service, method=method, payload=payload).SerializeToString()


def refusal(daemon: Daemon, stream_id: int) -> tuple[int, str]:
    """Waits for a message with that stream id, whether or not it was ours; returns the status it carries."""
    before = [message for message in daemon.heard if message.stream_id == stream_id]
    daemon.until(
        lambda: len([message for message in daemon.heard if message.stream_id == stream_id]) > len(before),
        f"an answer on stream {stream_id}",
    )
    message = [message for message in daemon.heard if message.stream_id == stream_id][-1]
    assert message.type == Type.RESPONSE
    assert message.envelope is not None
    status = ttrpc_pb2.Response.FromString(message.envelope).status
    return status.code, status.message


# ---- frames


@pytest.mark.parametrize(("conn_id", "size"), [(0, 100), (3, 0), (0xFFFFFFFF, mux.MAX_PAYLOAD)])
def test_a_frame_for_a_connection_that_there_is_none_of_is_ignored(
    node: Node, daemon: Daemon, conn_id: int, size: int
) -> None:
    daemon.send_bytes(mux.HEADER.pack(conn_id, size) + b"\xff" * size)
    node.still_serves(daemon)


def test_an_oversized_frame_costs_the_connection_with_one_line(node: Node) -> None:
    daemon = node.launch(by_process=True)
    daemon.send_bytes(mux.HEADER.pack(PLUGIN_SERVICE, mux.MAX_PAYLOAD + 1))
    daemon.until(lambda: daemon.trunk is not None and daemon.trunk.fileno() < 0, "the end of the trunk")
    daemon.end_runtime()
    assert daemon.ended() == 0
    (line,) = [line for line in daemon.log if "ERROR" in line]
    assert line.endswith(f"ERROR connection 1: a frame of {mux.MAX_PAYLOAD + 1} bytes, at most {mux.MAX_PAYLOAD}")


def test_an_oversized_frame_is_the_end_only_when_the_chains_under_way_have_ended(node: Node) -> None:
    gate = node.gate()
    node.plugin("slow", f"{gate.script}; {node.record('slow')}")
    node.configure("slow")
    daemon = node.launch(by_process=True)
    daemon.send("StartContainer", start("ctr"))
    gate.arrival()
    daemon.send_bytes(mux.HEADER.pack(PLUGIN_SERVICE, 1 << 31))
    daemon.logged("ERROR connection 1: a frame of 2147483648 bytes")
    daemon.until(lambda: daemon.trunk is not None and daemon.trunk.fileno() < 0, "the end of the trunk")
    daemon.end_runtime()
    daemon.logged("INFO the runtime has ended")
    assert daemon.is_running()
    gate.let_on()
    assert daemon.ended() == 0
    assert node.runs("slow") == [("create", "ctr")]


def test_empty_frames_are_nothing(node: Node, daemon: Daemon) -> None:
    daemon.send_bytes(mux.HEADER.pack(PLUGIN_SERVICE, 0) * 1000 + mux.HEADER.pack(RUNTIME_SERVICE, 0) * 1000)
    node.still_serves(daemon)


@pytest.mark.parametrize("size", [1, 7, 9, 4096])
def test_a_call_that_comes_in_pieces_is_served(node: Node, daemon: Daemon, size: int) -> None:
    data = frame_of(daemon, "StartContainer", start("ctr", {"big": "x" * 200}).SerializeToString())
    for begin in range(0, len(data), size):
        daemon.send_bytes(data[begin : begin + size])
    daemon.until(lambda: daemon.replies, "the answer")
    assert node.runs("good") == [("create", "ctr")]
    node.still_serves(daemon)


def frame_of(daemon: Daemon, method: str, payload: bytes) -> bytes:
    """The bytes of a call; replies before it are forgotten."""
    daemon.replies.clear()
    daemon.connection.call(PLUGIN, method, payload, 30)
    return daemon.connection.data_to_send()


def test_a_message_in_a_thousand_frames_and_frames_of_two_messages_are_served(node: Node, daemon: Daemon) -> None:
    data = frame_of(daemon, "StartContainer", start("one", {"big": "x" * 2000}).SerializeToString())
    (_, length), message = mux.HEADER.unpack(data[:8]), data[8:]
    assert len(message) == length
    daemon.send_bytes(b"".join(mux.HEADER.pack(PLUGIN_SERVICE, 1) + message[i : i + 1] for i in range(length)))
    daemon.until(lambda: daemon.replies, "the answer")
    two = b"".join(frame_of(daemon, "StartContainer", start(id_).SerializeToString())[8:] for id_ in ("two", "three"))
    daemon.send_bytes(mux.HEADER.pack(PLUGIN_SERVICE, len(two)) + two)
    daemon.until(lambda: len(daemon.replies) == 2, "both answers")
    first, *others = (id_ for _, id_ in node.runs("good"))
    assert (first, sorted(others)) == ("one", ["three", "two"])
    node.still_serves(daemon)


@pytest.mark.parametrize("data", [b"\0", mux.HEADER.pack(1, 100), mux.HEADER.pack(1, 100) + b"x" * 99])
def test_a_runtime_that_goes_in_the_middle_of_a_frame_is_gone_and_that_is_all(node: Node, data: bytes) -> None:
    daemon = node.launch(by_process=True)
    daemon.send_bytes(data)
    daemon.end_runtime()
    assert daemon.ended() == 0
    assert daemon.log[-1].endswith("INFO the runtime has ended")


def test_garbage_from_the_first_byte_costs_the_connection_with_one_line(node: Node) -> None:
    daemon = node.spawn(by_process=True)
    daemon.send_bytes(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    daemon.logged("ERROR")
    daemon.end_runtime()
    assert daemon.ended() == 0
    assert daemon.log[0].endswith(
        f"ERROR connection {0x47455420}: a frame of {0x2F204854} bytes, at most {mux.MAX_PAYLOAD}"
    )


# ---- messages


def test_an_oversized_message_is_refused_and_skipped(node: Node, daemon: Daemon) -> None:
    length = ttrpc.MAX_LENGTH + 1
    stream_id = daemon.next_stream_id()
    message = ttrpc.HEADER.pack(length, stream_id, Type.REQUEST, 0) + b"\xff" * length
    for begin in range(0, len(message), 1 << 20):
        chunk = message[begin : begin + (1 << 20)]
        daemon.send_bytes(mux.HEADER.pack(PLUGIN_SERVICE, len(chunk)) + chunk)
    code, text = refusal(daemon, stream_id)
    assert (code, str(ttrpc.MAX_LENGTH) in text) == (Code.RESOURCE_EXHAUSTED, True)
    node.still_serves(daemon)


def test_the_largest_message_is_served(node: Node, daemon: Daemon) -> None:
    node.plugin("whole", f"cat >'{node.path}/request'; echo '{{}}'")
    node.configure("whole")
    size = ttrpc.MAX_LENGTH - len(start("ctr", {"big": ""}).SerializeToString()) - 200
    assert daemon.call("StartContainer", start("ctr", {"big": "x" * size})).code == Code.OK
    request = json.loads((node.path / "request").read_bytes())
    assert request["spec"]["annotations"] == {"big": "x" * size}
    node.still_serves(daemon)


@pytest.mark.parametrize("content", [GARBAGE, b"\x0a\xff", b"\x0a\x02\xff\xfe", b"\x08"], ids=range(4))
def test_an_envelope_that_is_none_is_refused(node: Node, daemon: Daemon, content: bytes) -> None:
    reply = daemon.reply(daemon.send_envelope(content))
    assert reply.code == Code.INVALID_ARGUMENT
    assert reply.message.startswith("undecodable request: ")
    node.still_serves(daemon)


@pytest.mark.parametrize(
    "method", ["StartContainer", "StopContainer", "RunPodSandbox", "StateChange", "Synchronize", "Configure"]
)
@pytest.mark.parametrize(
    "payload", [GARBAGE, b"\x0a\x04\x0a\x02\xff\xfe\x12\x04\x0a\x02\xff\xfe"], ids=["garbage", "not UTF-8"]
)
def test_a_payload_that_is_none_is_refused_by_name(node: Node, daemon: Daemon, method: str, payload: bytes) -> None:
    reply = daemon.reply(daemon.send_envelope(envelope(method, payload)))
    assert reply.code == Code.INTERNAL
    assert reply.message.startswith("undecodable ")
    node.still_serves(daemon)


@pytest.mark.parametrize(
    ("service", "method"),
    [(PLUGIN, "Explode"), (PLUGIN, ""), ("", ""), (RUNTIME, "RegisterPlugin"), ("x", "StartContainer")],
)
def test_an_unknown_method_or_service_is_unimplemented(node: Node, daemon: Daemon, service: str, method: str) -> None:
    reply = daemon.reply(daemon.send(method, b"", service=service))
    assert reply.code == Code.UNIMPLEMENTED
    node.still_serves(daemon)


def test_an_event_that_is_not_known_yet_is_let_pass(node: Node, daemon: Daemon) -> None:
    for number in (0, 15, 99, -1):
        assert daemon.call("StateChange", api.StateChangeEvent(event=number)).code == Code.OK  # type: ignore[arg-type]
    node.still_serves(daemon)


@pytest.mark.parametrize("stream_id", [0, 2, 0xFFFFFFFE])
def test_an_even_stream_id_is_refused(node: Node, daemon: Daemon, stream_id: int) -> None:
    daemon.send_message(stream_id, envelope("StartContainer", start("ctr").SerializeToString()))
    assert refusal(daemon, stream_id) == (Code.INVALID_ARGUMENT, f"stream id {stream_id} is even")
    node.still_serves(daemon)
    assert ("create", "ctr") not in node.runs("good")


@pytest.mark.parametrize("before", [True, False], ids=["an earlier one", "the last one"])
def test_a_stream_id_that_was_used_before_is_refused(node: Node, daemon: Daemon, before: bool) -> None:
    stream_id = 1 if before else daemon.send("CreateContainer")
    if not before:
        assert daemon.reply(stream_id).code == Code.OK
    daemon.send_message(stream_id, envelope("StartContainer", start("ctr").SerializeToString()))
    assert refusal(daemon, stream_id) == (Code.INVALID_ARGUMENT, f"stream id {stream_id} does not increase")
    node.still_serves(daemon)
    assert ("create", "ctr") not in node.runs("good")


def test_data_for_a_stream_that_is_not_open_is_refused(node: Node, daemon: Daemon) -> None:
    stream_id = daemon.send_envelope(b"x", Type.DATA)
    assert refusal(daemon, stream_id)[0] == Code.INVALID_ARGUMENT
    node.still_serves(daemon)


@pytest.mark.parametrize("type_", [0, Type.RESPONSE, 4, 255])
def test_messages_of_other_types_are_ignored_by_the_plugin_service(node: Node, daemon: Daemon, type_: int) -> None:
    message = struct.pack(">IIBB", 3, daemon.next_stream_id(), type_, 0) + b"abc"
    daemon.send_bytes(mux.HEADER.pack(PLUGIN_SERVICE, len(message)) + message)
    node.still_serves(daemon)


@pytest.mark.parametrize("stream_id", [0, 1, 2, 99])
@pytest.mark.parametrize("content", [b"", GARBAGE], ids=["empty", "garbage"])
def test_answers_that_nobody_waits_for_are_ignored(node: Node, daemon: Daemon, stream_id: int, content: bytes) -> None:
    daemon.send_bytes(mux.frames(RUNTIME_SERVICE, ttrpc.message(stream_id, Type.RESPONSE, content)))
    node.still_serves(daemon)


def test_an_undecodable_answer_to_the_registration_is_a_refusal(node: Node) -> None:
    daemon = node.spawn()
    request = daemon.request()
    daemon.send_bytes(mux.frames(RUNTIME_SERVICE, ttrpc.message(request.stream_id, Type.RESPONSE, GARBAGE)))
    assert daemon.ended() == 1
    (line,) = daemon.log
    assert "ERROR the runtime refused plugin 00-v010-adapter: undecodable answer: " in line


# ---- order and content


def test_events_before_configure_and_synchronize_are_answered(node: Node) -> None:
    config = node.path / "adapter.yaml"
    config.write_text(node.settings())
    daemon = node.spawn(patched(f"settings.DEFAULT_PATH = {str(config)!r}"))
    registration = daemon.request()
    for method in ("CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemovePodSandbox"):
        assert daemon.call(method).code == Code.OK
    daemon.answer(registration)
    daemon.configure()
    assert daemon.call("Synchronize").code == Code.OK
    node.still_serves(daemon)


@pytest.mark.parametrize(
    "method", ["RunPodSandbox", "StartContainer", "StopContainer", "StopPodSandbox", "RemoveContainer"]
)
def test_an_event_about_nothing_is_answered(node: Node, daemon: Daemon, method: str) -> None:
    assert daemon.call(method).code == Code.OK
    node.still_serves(daemon)


def test_deletes_of_what_was_never_created_run_nothing(node: Node, daemon: Daemon) -> None:
    assert daemon.call("StopContainer", stop("stranger")).code == Code.OK
    assert daemon.call("StopPodSandbox", api.StopPodSandboxRequest(pod=api.PodSandbox(id="stranger"))).code == Code.OK
    assert node.runs("good") == []
    node.still_serves(daemon)


HOSTILE = "$(touch /tmp/x) `id` ../../etc \0 \n\r\x1b[31m \u2028 \U0001f600 \x7f %s %d {0} <&>"


def test_what_pods_may_choose_reaches_the_plugin_as_it_is(node: Node, daemon: Daemon) -> None:
    assert daemon.call("StartContainer", start("ctr", {HOSTILE: HOSTILE})).code == Code.OK
    (request,) = node.requests("good")
    assert request["spec"]["annotations"] == {HOSTILE: HOSTILE}
    node.still_serves(daemon)


def test_ids_that_are_no_ids_do_no_harm(node: Node, daemon: Daemon) -> None:
    for id_ in (HOSTILE, "x" * 100_000, "/", "..", "%n"):
        assert daemon.call("StartContainer", start(id_)).code == Code.OK
        assert daemon.call("StopContainer", stop(id_)).code == Code.OK
    assert [id_ for state, id_ in node.runs("good") if state == "delete"] == [HOSTILE, "x" * 100_000, "/", "..", "%n"]
    node.still_serves(daemon)
