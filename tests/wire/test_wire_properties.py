"""What holds for all bytes: how the stream is cut does not matter, and no bytes do more harm than to end the trunk.

The fuzzer holds the same for bytes that it finds.
"""

from __future__ import annotations

import struct

from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapter.proto import ttrpc_pb2
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE

from ..fuzz.wire import MAX_LENGTH, check

u32 = st.one_of(st.integers(0, 9), st.integers(0, 0xFFFFFFFF))
lengths = st.one_of(st.integers(0, 2 * MAX_LENGTH), u32)
conn_ids = st.one_of(st.sampled_from([PLUGIN_SERVICE, RUNTIME_SERVICE]), u32)
requests = st.builds(
    lambda **fields: ttrpc_pb2.Request(**fields).SerializeToString(),
    service=st.text(max_size=9),
    method=st.text(max_size=9),
    payload=st.binary(max_size=MAX_LENGTH),
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
