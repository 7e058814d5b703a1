"""Go's own bytes, read and written."""

from __future__ import annotations

import pytest

from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Connection, Request, mux, ttrpc

from . import frames_in, pieces, statuses
from .recorded import ANSWERS, BREACHES, CALLS, FRAMES, READ_ONLY_CALLS, Answer, Call

EVERY_CALL = CALLS | READ_ONLY_CALLS


def end(conn_id: int, *, serves: bool) -> Connection:
    """An end of the trunk that serves, or calls on, this connection."""
    other = PLUGIN_SERVICE + RUNTIME_SERVICE - conn_id
    return Connection(serve=conn_id, call=other) if serves else Connection(serve=other, call=conn_id)


@pytest.mark.parametrize("call", EVERY_CALL.values(), ids=EVERY_CALL)
def test_what_a_go_client_sends_is_read_as_it_was_meant(call: Call) -> None:
    for size in (1, 7, 1 << 20):
        server = end(call.conn_id, serves=True)
        sent = pieces(bytes.fromhex(call.sent), size)
        assert [event for piece in sent for event in server.receive_data(piece)] == call.requests


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_is_written_as_a_go_client_writes_it(call: Call) -> None:
    client = end(call.conn_id, serves=False)
    for stream_id, service, method, payload, timeout in call.requests:
        assert client.call(service, method, payload, timeout or 0) == stream_id
    assert client.data_to_send().hex() == call.sent


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_read_and_written_as_go_means_and_writes_it(answer: Answer) -> None:
    client, server = (end(RUNTIME_SERVICE, serves=serves) for serves in (False, True))
    client.call("service", "Method", b"")
    assert list(client.receive_data(bytes.fromhex(answer.sent))) == answer.replies
    assert len(list(server.receive_data(bytes.fromhex(answer.asked)))) == 1
    for stream_id, code, message, payload in answer.replies:
        if code:
            server.fail(stream_id, code, message)
        else:
            server.respond(stream_id, payload)
    assert server.data_to_send().hex() == answer.sent


@pytest.mark.parametrize("breach", BREACHES.values(), ids=BREACHES)
def test_a_breach_of_the_rules_gets_the_status_that_go_gives_it(breach: Answer) -> None:
    server = end(RUNTIME_SERVICE, serves=True)
    for request in server.receive_data(bytes.fromhex(breach.asked)):
        assert isinstance(request, Request)
        server.fail(request.stream_id, ttrpc.Code.UNIMPLEMENTED, f"service {request.service}")
    wanted = [reply[:2] for reply in breach.replies]
    for sent in (server.data_to_send(), bytes.fromhex(breach.sent)):
        assert [status[:2] for status in statuses(sent, RUNTIME_SERVICE)] == wanted


@pytest.mark.parametrize(("length", "frames"), FRAMES.items())
def test_a_message_is_framed_as_go_frames_it(length: int, frames: list[int]) -> None:
    sent = mux.frames(7, ttrpc.message(1, ttrpc.Type.REQUEST, bytes(length)))
    assert [(conn_id, len(payload)) for conn_id, payload in frames_in(sent)] == [(7, size) for size in frames]
