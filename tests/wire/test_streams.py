"""Frames and messages out of a stream, however it is cut: the fuzzer's property, and the protocol's own limits."""

from __future__ import annotations

import pickle
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri import api
from nri.errors import RemoteProtocolError
from nri.events import CALLS, PLUGIN
from nri.proto import ttrpc_pb2
from nri.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Connection, Request, mux, ttrpc
from nri.wire.reader import Unit
from nri.wire.ttrpc import Type

from ..fuzz.wire import MAX_LENGTH, check
from . import message_of, pieces

u32 = st.one_of(st.integers(0, 9), st.integers(0, 0xFFFFFFFF))
lengths = st.one_of(st.integers(0, 2 * MAX_LENGTH), u32)
conn_ids = st.one_of(st.sampled_from([PLUGIN_SERVICE, RUNTIME_SERVICE]), u32)
calls = st.one_of(
    st.builds(api.StateChangeEvent, event=st.integers(-5, 20)),
    st.builds(api.ConfigureRequest, request_timeout=st.integers(-9, 9)),
    st.builds(api.SynchronizeRequest, more=st.booleans()),
)
requests = st.builds(
    lambda **fields: ttrpc_pb2.Request(**fields).SerializeToString(),
    service=st.one_of(st.just(PLUGIN), st.text(max_size=9)),
    method=st.one_of(st.sampled_from(list(CALLS)), st.text(max_size=9)),
    payload=st.one_of(st.binary(max_size=MAX_LENGTH), calls.map(lambda call: call.SerializeToString())),
    timeout_nano=st.integers(-(2**63), 2**63 - 1),
)
envelopes = st.one_of(st.binary(max_size=2 * MAX_LENGTH), requests)
# Headers that tell the truth about the length, and headers that do not.
messages = st.one_of(
    st.builds(lambda e, s, t: struct.pack(">IIBB", len(e), s, t, 0) + e, envelopes, u32, st.integers(0, 4)),
    st.builds(lambda e, n, s, t: struct.pack(">IIBB", n, s, t, 0) + e, envelopes, lengths, u32, st.integers(0, 255)),
)
frames = st.one_of(
    st.builds(lambda c, m: struct.pack(">II", c, len(m)) + m, conn_ids, st.lists(messages, max_size=3).map(b"".join)),
    st.builds(lambda c, n, m: struct.pack(">II", c, n) + m, conn_ids, lengths, st.binary(max_size=MAX_LENGTH)),
    st.binary(max_size=MAX_LENGTH),
)


@settings(max_examples=300)
@given(st.lists(frames, max_size=6).map(b"".join), st.binary(max_size=7))
@example(
    struct.pack(">IIIIBB", PLUGIN_SERVICE, MAX_LENGTH + 12, MAX_LENGTH + 1, 1, 1, 0) + bytes(MAX_LENGTH + 2), b"\2"
)
def test_the_invariants_of_the_fuzzer_hold_for_any_trunk(stream: bytes, cuts: bytes) -> None:
    check(bytes([len(cuts)]) + cuts + stream)


# ---- the protocol's own limits

LONGEST = 4 << 20
"""Of an envelope; a frame has a header of ten bytes more."""
PAYLOAD = bytes(range(251)) * (LONGEST // 251 + 1)
"""Its period divides no buffer's size: each byte tells where it belongs."""


def frame(conn_id: int, payload: bytes) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


NEXT = message_of(9, Type.REQUEST, b"next")


def read(stream: bytes, size: int) -> list[Unit]:
    reader = ttrpc.reader()
    return [message for piece in pieces(stream, size) for message in reader.receive_data(piece)]


@pytest.mark.parametrize("piece", [4095, 65536, 8 << 20])
def test_the_longest_frames_and_messages_are_read_however_they_are_cut_and_are_not_kept(piece: int) -> None:
    wanted = [(number, PAYLOAD[:size]) for number, size in enumerate((4096, 0, LONGEST + 10, 3))]
    reader = mux.reader()
    stream = b"".join(frame(*each) for each in wanted)
    found = [frame for part in pieces(stream, piece) for frame in reader.receive_data(part)]
    assert [(conn_id, payload) for (conn_id, _), payload in found] == wanted
    assert len(pickle.dumps(reader)) < 1000
    assert read(message_of(1, Type.RESPONSE, PAYLOAD[:LONGEST]) + NEXT, piece) == [
        ((LONGEST, 1, 2, 0), PAYLOAD[:LONGEST]),
        ((4, 9, 1, 0), b"next"),
    ]


@pytest.mark.parametrize("length", [LONGEST + 11, 0xFFFFFFFF])
def test_a_frame_beyond_the_maximum_ends_the_trunk_at_its_header_and_frames_before_it_are_read(length: int) -> None:
    good = Request(1, "", "", b"", None)
    for conn_id in (0, 1, 0xFFFFFFFF):
        ours = Connection(serve=PLUGIN_SERVICE, call=RUNTIME_SERVICE)
        header = struct.pack(">II", conn_id, length)
        found = ours.receive_data(frame(PLUGIN_SERVICE, message_of(1, Type.REQUEST, b"")) + header[:7])
        assert list(found) == [good]
        with pytest.raises(RemoteProtocolError, match=f"connection {conn_id}: a frame of {length} bytes"):
            list(ours.receive_data(header[7:]))
