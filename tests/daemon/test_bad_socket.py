"""Bytes that no runtime should send, or not like that: what they ask is refused, and the next event is served.

tests/wire and tests/nri have every case without a process; here the daemon meets one of each kind.
"""

from __future__ import annotations

import json

import pytest

from adapter.nri.events import PLUGIN, RUNTIME
from adapter.proto import ttrpc_pb2
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, mux, ttrpc
from adapter.wire.ttrpc import Type

from .harness import Daemon, Node, patched, start, stop

GARBAGE = b"\xff" * 100
NOT_UTF_8 = b"\x0a\x04\x0a\x02\xff\xfe\x12\x04\x0a\x02\xff\xfe"
HOSTILE = "$(touch /tmp/x) `id` ../../etc \0 \n\r\x1b[31m \u2028 \U0001f600 \x7f %s %d {0} <&>"


@pytest.fixture
def daemon(node: Node) -> Daemon:
    node.configure("good")
    return node.launch()


def envelope(method: str, payload: bytes) -> bytes:
    return ttrpc_pb2.Request(service=PLUGIN, method=method, payload=payload).SerializeToString()


def refusal(daemon: Daemon, stream_id: int) -> tuple[int, str]:
    """Waits for a message with that stream id, whether or not it was ours; returns the status it carries."""

    def heard() -> list[ttrpc.Message]:
        return [message for message in daemon.heard if message.stream_id == stream_id]

    before = len(heard())
    daemon.until(lambda: len(heard()) > before, f"an answer on stream {stream_id}")
    message = heard()[-1]
    assert message.type == Type.RESPONSE
    assert message.envelope is not None
    status = ttrpc_pb2.Response.FromString(message.envelope).status
    return status.code, status.message


def closed(daemon: Daemon) -> None:
    daemon.until(lambda: daemon.trunk is not None and daemon.trunk.fileno() < 0, "the end of the trunk")
    daemon.end_runtime()


def test_an_oversized_frame_costs_the_connection_with_one_line(node: Node) -> None:
    daemon = node.launch(by_process=True)
    daemon.send_bytes(mux.HEADER.pack(PLUGIN_SERVICE, mux.MAX_PAYLOAD + 1))
    closed(daemon)
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
    closed(daemon)
    daemon.logged("INFO the runtime has ended")
    assert daemon.is_running()
    gate.let_on()
    assert daemon.ended() == 0
    assert node.runs("slow") == [("create", "ctr")]


def test_a_runtime_that_goes_in_the_middle_of_a_frame_is_gone_and_that_is_all(node: Node) -> None:
    daemon = node.launch(by_process=True)
    daemon.send_bytes(mux.HEADER.pack(1, 100) + b"x" * 99)
    daemon.end_runtime()
    assert daemon.ended() == 0
    assert daemon.log[-1].endswith("INFO the runtime has ended")


def test_garbage_from_the_first_byte_costs_the_connection_with_one_line(node: Node) -> None:
    daemon = node.spawn(by_process=True)
    daemon.send_bytes(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    daemon.logged("ERROR")
    daemon.end_runtime()
    assert daemon.ended() == 0
    expected = f"ERROR connection {0x47455420}: a frame of {0x2F204854} bytes, at most {mux.MAX_PAYLOAD}"
    assert daemon.log[0].endswith(expected)


def test_an_oversized_message_is_refused_and_skipped_and_the_largest_is_served(node: Node, daemon: Daemon) -> None:
    length, stream_id = ttrpc.MAX_LENGTH + 1, daemon.next_stream_id()
    message = ttrpc.HEADER.pack(length, stream_id, Type.REQUEST, 0) + b"\xff" * length
    for begin in range(0, len(message), 1 << 20):
        chunk = message[begin : begin + (1 << 20)]
        daemon.send_bytes(mux.HEADER.pack(PLUGIN_SERVICE, len(chunk)) + chunk)
    code, text = refusal(daemon, stream_id)
    assert (code, str(ttrpc.MAX_LENGTH) in text) == (Code.RESOURCE_EXHAUSTED, True)
    node.plugin("whole", f"cat >'{node.path}/request'; echo '{{}}'")
    node.configure("whole")
    size = ttrpc.MAX_LENGTH - len(start("ctr", {"big": ""}).SerializeToString()) - 200
    assert daemon.call("StartContainer", start("ctr", {"big": "x" * size})).code == Code.OK
    assert json.loads((node.path / "request").read_bytes())["spec"]["annotations"] == {"big": "x" * size}


def test_what_cannot_be_decoded_or_is_not_known_is_refused(node: Node, daemon: Daemon) -> None:
    for content in (GARBAGE, b"\x0a\xff", b"\x0a\x02\xff\xfe", b"\x08"):
        reply = daemon.reply(daemon.send_envelope(content))
        assert (reply.code, reply.message[:21]) == (Code.INVALID_ARGUMENT, "undecodable request: "), content
    for method in ("StartContainer", "RunPodSandbox", "StateChange", "Synchronize", "Configure"):
        for payload in (GARBAGE, NOT_UTF_8):
            reply = daemon.reply(daemon.send_envelope(envelope(method, payload)))
            assert (reply.code, reply.message[:12]) == (Code.INTERNAL, "undecodable "), method
    for service, method in ((PLUGIN, "Explode"), (PLUGIN, ""), ("", ""), (RUNTIME, "RegisterPlugin")):
        assert daemon.reply(daemon.send(method, b"", service=service)).code == Code.UNIMPLEMENTED, (service, method)
    node.still_serves(daemon)


def test_an_undecodable_answer_to_the_registration_is_a_refusal(node: Node) -> None:
    daemon = node.spawn()
    request = daemon.request()
    daemon.send_bytes(mux.frames(RUNTIME_SERVICE, ttrpc.message(request.stream_id, Type.RESPONSE, GARBAGE)))
    assert daemon.ended() == 1
    (line,) = daemon.log
    assert "ERROR the runtime refused plugin 00-v010-adapter: undecodable answer: " in line


def test_events_before_configure_and_synchronize_and_about_nothing_are_answered(node: Node) -> None:
    config = node.path / "adapter.yaml"
    config.write_text(node.settings())
    daemon = node.spawn(patched(f"settings.DEFAULT_PATH = {str(config)!r}"))
    registration = daemon.request()
    methods = ("CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemovePodSandbox")
    assert [daemon.call(method).code for method in methods] == [Code.OK] * 5
    daemon.answer(registration)
    daemon.configure()
    assert daemon.call("Synchronize").code == Code.OK
    assert [daemon.call(method).code for method in ("RunPodSandbox", *methods)] == [Code.OK] * 6
    node.still_serves(daemon)


def test_what_pods_may_choose_reaches_the_plugin_as_it_is(node: Node, daemon: Daemon) -> None:
    assert daemon.call("StopContainer", stop("stranger")).code == Code.OK
    assert node.runs("good") == []
    assert daemon.call("StartContainer", start("ctr", {HOSTILE: HOSTILE})).code == Code.OK
    (request,) = node.requests("good")
    assert request["spec"]["annotations"] == {HOSTILE: HOSTILE}
    ids = [HOSTILE, "x" * 100_000, "/", "..", "%n"]
    for id_ in ids:
        assert daemon.call("StartContainer", start(id_)).code == Code.OK
        assert daemon.call("StopContainer", stop(id_)).code == Code.OK
    assert [id_ for state, id_ in node.runs("good") if state == "delete"] == ids
    node.still_serves(daemon)
