"""What holds whatever a runtime sends: each call is answered once, and only what is announced is raised."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapter.errors import CallError, RegistrationError, RemoteProtocolError
from adapter.nri import Plugin, Stub, api
from adapter.nri.events import PLUGIN
from adapter.proto import ttrpc_pb2
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, mux, ttrpc

from .runtime import HANDLERS, plugin

METHODS = ["Configure", "Synchronize", "Shutdown", "StateChange", *HANDLERS]
errors = st.one_of(
    st.builds(CallError, st.integers(-(2**31), 2**31 - 1), st.text(st.characters())),
    st.builds(ValueError, st.text(st.characters())),
)
payloads = st.one_of(
    st.just(b""),
    st.binary(max_size=40),
    st.builds(lambda event: api.StateChangeEvent(event=event).SerializeToString(), st.integers(-5, 20)),
    st.builds(
        lambda **timeouts: api.ConfigureRequest(**timeouts).SerializeToString(), request_timeout=st.integers(-9, 9)
    ),
    st.builds(lambda **each: api.SynchronizeRequest(**each).SerializeToString(), more=st.booleans()),
)
requests = st.builds(
    lambda **fields: (PLUGIN_SERVICE, ttrpc.Type.REQUEST, ttrpc_pb2.Request(**fields).SerializeToString()),
    service=st.sampled_from([PLUGIN, PLUGIN, PLUGIN, "other"]),
    method=st.one_of(st.sampled_from(METHODS), st.text(max_size=9)),
    payload=payloads,
    timeout_nano=st.integers(-(2**63), 2**63 - 1),
)
replies = st.builds(
    lambda code, payload: (
        RUNTIME_SERVICE,
        ttrpc.Type.RESPONSE,
        ttrpc_pb2.Response(status=ttrpc_pb2.Status(code=code), payload=payload).SerializeToString(),
    ),
    st.sampled_from([0, 0, 0, 2, -1]),
    st.binary(max_size=20),
)
START = [
    (PLUGIN_SERVICE, ttrpc.Type.REQUEST, ttrpc_pb2.Request(service=PLUGIN, method="StartContainer").SerializeToString())
]
tails = st.binary(max_size=17)  # one byte short of the shortest message in a frame
noise = st.tuples(
    st.sampled_from([PLUGIN_SERVICE, RUNTIME_SERVICE]), st.sampled_from(ttrpc.Type), st.binary(max_size=40)
)


def anything(error: Exception | None) -> Plugin:
    """A plugin whose handlers all return None, or all raise this."""

    def handler(*_: Any) -> None:
        if error is not None:
            raise error

    return plugin(**dict.fromkeys(["configure", "synchronize", "shutdown", *HANDLERS.values()], handler))


@settings(max_examples=300)
@given(st.lists(st.one_of(requests, replies, noise), max_size=8), st.one_of(st.none(), errors), tails)
@example(START, ValueError("\udcff"), b"")
def test_whatever_a_runtime_sends_each_call_is_answered_once_and_nothing_unforeseen_is_raised(
    messages: list[tuple[int, ttrpc.Type, bytes]], error: Exception | None, tail: bytes
) -> None:
    written: list[bytes] = []
    ours = Stub(anything(error), "sample", "10", written.append)
    ours.register()
    ours.update_containers([api.ContainerUpdate(container_id="c")])
    written.clear()
    theirs = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
    stream = b""
    calls: list[int] = []
    for conn_id, type_, envelope in messages:
        stream_id = 2 * len(calls) + 1
        if conn_id == PLUGIN_SERVICE and type_ == ttrpc.Type.REQUEST:
            calls.append(theirs.call("", "", b""))
        stream += mux.frames(conn_id, ttrpc.message(stream_id, type_, envelope))
    try:
        ours.receive_data(stream)
    except RegistrationError:
        return
    with contextlib.suppress(RemoteProtocolError):
        ours.receive_data(tail)
    answered = [reply for data in written for reply in theirs.receive_data(data)]
    assert [reply.stream_id for reply in answered] == calls
    unimplemented = [reply for reply in answered if isinstance(reply, Reply) and reply.code == Code.UNIMPLEMENTED]
    assert all(reply.message.startswith("no method ") for reply in unimplemented)
