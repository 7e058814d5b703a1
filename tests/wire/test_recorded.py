"""Go's own bytes, read and written."""

from __future__ import annotations

import pytest

from adapter.proto import ttrpc_pb2
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Connection, Request, mux, ttrpc

from . import frames_in, pieces
from .recorded import ANSWERS, BREACHES, CALLS, FRAMES, READ_ONLY_CALLS, Answer, Call


def end(conn_id: int, *, serves: bool) -> Connection:
    """An end of the trunk that serves, or calls on, this connection."""
    other = PLUGIN_SERVICE + RUNTIME_SERVICE - conn_id
    return Connection(serve=conn_id, call=other) if serves else Connection(serve=other, call=conn_id)


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("call", [pytest.param(call, id=what) for what, call in (CALLS | READ_ONLY_CALLS).items()])
def test_what_a_go_client_sends_is_read_as_it_was_meant(call: Call, size: int) -> None:
    server = end(call.conn_id, serves=True)
    events = [event for piece in pieces(bytes.fromhex(call.sent), size) for event in server.receive_data(piece)]
    assert events == call.requests


@pytest.mark.parametrize("call", [pytest.param(call, id=what) for what, call in CALLS.items()])
def test_a_call_is_written_as_a_go_client_writes_it(call: Call) -> None:
    client = end(call.conn_id, serves=False)
    for stream_id, service, method, payload, timeout in call.requests:
        assert client.call(service, method, payload, timeout or 0) == stream_id
    assert client.data_to_send().hex() == call.sent


@pytest.mark.parametrize("answer", [pytest.param(answer, id=what) for what, answer in ANSWERS.items()])
def test_what_a_go_server_answers_is_read_as_it_was_meant(answer: Answer) -> None:
    client = end(RUNTIME_SERVICE, serves=False)
    client.call("service", "Method", b"")
    assert list(client.receive_data(bytes.fromhex(answer.sent))) == answer.replies


@pytest.mark.parametrize("answer", [pytest.param(answer, id=what) for what, answer in ANSWERS.items()])
def test_an_answer_is_written_as_a_go_server_writes_it(answer: Answer) -> None:
    server = end(RUNTIME_SERVICE, serves=True)
    assert len(list(server.receive_data(bytes.fromhex(answer.asked)))) == 1
    for stream_id, code, message, payload in answer.replies:
        if code:
            server.fail(stream_id, code, message)
        else:
            server.respond(stream_id, payload)
    assert server.data_to_send().hex() == answer.sent


@pytest.mark.parametrize("breach", [pytest.param(breach, id=what) for what, breach in BREACHES.items()])
def test_a_breach_of_the_rules_gets_the_status_that_go_gives_it(breach: Answer) -> None:
    server = end(RUNTIME_SERVICE, serves=True)
    for request in server.receive_data(bytes.fromhex(breach.asked)):
        assert isinstance(request, Request)
        server.fail(request.stream_id, ttrpc.Code.UNIMPLEMENTED, f"service {request.service}")
    assert statuses(server.data_to_send()) == [(stream_id, code) for stream_id, code, _, _ in breach.replies]
    assert statuses(bytes.fromhex(breach.sent)) == [(stream_id, code) for stream_id, code, _, _ in breach.replies]


def statuses(sent: bytes) -> list[tuple[int, int]]:
    """Stream id and code of answers of one frame each."""
    answers = [answer for _, payload in frames_in(sent) for answer in ttrpc.MessageReader().receive_data(payload)]
    return [(answer.stream_id, ttrpc_pb2.Response.FromString(answer.envelope or b"").status.code) for answer in answers]


@pytest.mark.parametrize(("length", "frames"), FRAMES.items())
def test_a_message_is_framed_as_go_frames_it(length: int, frames: list[int]) -> None:
    sent = mux.frames(PLUGIN_SERVICE, ttrpc.message(1, ttrpc.Type.REQUEST, bytes(length)))
    assert [len(payload) for _, payload in frames_in(sent)] == frames
