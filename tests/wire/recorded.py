"""What Go sends, byte for byte: tables for reading and for writing.

Recorded on a unix socket: NRI v0.12.5 (pkg/net/multiplex, pkg/api) over ttRPC v1.2.7 made each of these calls as a
client, or answered as a server what a client or a hand-made message asked. All that came out at the other end of the
trunk was kept, the headers of both layers included. Deadlines are fixed numbers: an interceptor had set `timeout_nano`.
"""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import Message

from adapter.proto import nri_pb2 as api
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Reply, Request

PLUGIN = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME = "nri.pkg.api.v1alpha1.Runtime"

POD = api.PodSandbox(id="pod0", name="nginx", namespace="default", pid=4711)
CONTAINER = api.Container(id="ctr0", pod_sandbox_id="pod0", args=["/bin/sh"])
CONFIGURE = api.ConfigureRequest(
    config="a: 1\n",
    runtime_name="containerd",
    runtime_version="2.4.2+unknown",
    registration_timeout=5000,
    request_timeout=2000,
    NRI_version="v0.12.5",
)


class Call(NamedTuple):
    """Calls made on connection `conn_id`, what they are to their server, and their bytes."""

    conn_id: int
    requests: list[Request]
    sent: str


class Answer(NamedTuple):
    """What a Go server was asked on the runtime's connection, its answers, and their bytes."""

    asked: str
    replies: list[Reply]
    sent: str


def _call(conn_id: int, method: str, message: Message, timeout: float | None, sent: str, stream_id: int = 1) -> Call:
    service = PLUGIN if conn_id == PLUGIN_SERVICE else RUNTIME
    return Call(conn_id, [Request(stream_id, service, method, message.SerializeToString(), timeout)], sent)


# fmt: off
CALLS = {
    "Configure": _call(PLUGIN_SERVICE, "Configure", CONFIGURE, 2.0,
        "000000010000006b000000610000000101000a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e"
        "1209436f6e6669677572651a310a05613a20310a120a636f6e7461696e6572641a0d322e342e322b756e6b6e6f776e"
        "20882728d00f320776302e31322e352080a8d6b907"),
    "a part of Synchronize": _call(PLUGIN_SERVICE, "Synchronize", api.SynchronizeRequest(pods=[POD],
        containers=[CONTAINER], more=True), 1.999876543,
        "0000000100000070000000660000000101000a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e"
        "120b53796e6368726f6e697a651a340a190a04706f643012056e67696e78220764656661756c7448e72412150a0463"
        "7472301204706f64303a072f62696e2f7368180120bfe3ceb907"),
    "two calls, one after the other": Call(PLUGIN_SERVICE, [Request(1, PLUGIN, "Shutdown", b"", None), Request(3,
        PLUGIN, "StateChange", api.StateChangeEvent(event=api.LAST).SerializeToString(), None)],
        "0000000100000031000000270000000101000a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e"
        "120853687574646f776e"
        "00000001000000380000002e0000000301000a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e"
        "120b53746174654368616e67651a02080f"),
    "RegisterPlugin": _call(RUNTIME_SERVICE, "RegisterPlugin", api.RegisterPluginRequest(plugin_name="v010-adapter",
        plugin_idx="10", NRI_version="v0.12.5"), None,
        "00000002000000550000004b0000000101000a1c6e72692e706b672e6170692e7631616c706861312e52756e74696d"
        "65120e5265676973746572506c7567696e1a1b0a0c763031302d61646170746572120231301a0776302e31322e35"),
    "UpdateContainers": _call(RUNTIME_SERVICE, "UpdateContainers",
        api.UpdateContainersRequest(update=[api.ContainerUpdate(container_id="ctr0")]), None,
        "00000002000000440000003a0000000101000a1c6e72692e706b672e6170692e7631616c706861312e52756e74696d"
        "651210557064617465436f6e7461696e6572731a080a060a0463747230"),
}
# fmt: on
"""Read by whoever serves and written by whoever calls."""

# fmt: off
READ_ONLY_CALLS = {
    "a deadline that has passed": _call(PLUGIN_SERVICE, "Shutdown", api.Empty(), -5e-9,
        "000000010000003c000000320000000101000a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e"
        "120853687574646f776e20fbffffffffffffffff01"),
    "metadata": _call(PLUGIN_SERVICE, "Shutdown", api.Empty(), None,
        "00000001000000490000003f0000000101000a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e"
        "120853687574646f776e2a0a0a0574726163651201612a0a0a057472616365120162"),
}
# fmt: on
"""What Go clients send and we never do."""

# fmt: off
ANSWERS = {
    "registered": Answer(CALLS["RegisterPlugin"].sent, [Reply(1, 0, "", b"")], "000000020000000a00000000000000010200"),
    "a handler's error": Answer(CALLS["RegisterPlugin"].sent, [Reply(1, 2, "invalid plugin name: no", b"")],
        "00000002000000270000001d0000000102000a1b08021217696e76616c696420706c7567696e206e616d653a206e6f"),
    "a handler's error with a code of its own and text beyond ASCII": Answer(CALLS["RegisterPlugin"].sent, [Reply(1, 8,
        "naïve \u2013 too much", b"")],
        "0000000200000023000000190000000102000a17080812136e61c3af766520e2809320746f6f206d756368"),
    "a payload": Answer(CALLS["UpdateContainers"].sent, [Reply(1, 0, "", bytes.fromhex("0a060a0463747230"))],
        "00000002000000140000000a00000001020012080a060a0463747230"),
    "an unknown service": Answer("00000002000000140000000a0000000101000a03666f6f1203626172", [Reply(1, 12,
        "service foo", b"")], "000000020000001b000000110000000102000a0f080c120b7365727669636520666f6f"),
}
# fmt: on
"""Written by whoever serves and read by whoever called."""

# fmt: off
GO_BREACHES = {
    "an even stream id": Answer("000000020000000a00000000000000020100", [Reply(2, 3,
        "StreamID must be odd for client initiated streams", b"")],
        "0000000200000041000000370000000202000a350803123153747265616d4944206d757374206265206f646420666f"
        "7220636c69656e7420696e697469617465642073747265616d73"),
    "a stream id used twice": Answer("000000020000000a00000000000000030100000000020000000a00000000000000030100",
        [Reply(3, 12, "service ", b""), Reply(3, 3, "StreamID cannot be re-used and must increment", b"")],
        "00000002000000180000000e0000000302000a0c080c12087365727669636520"
        "000000020000003d000000330000000302000a310803122d53747265616d49442063616e6e6f742062652072652d"
        "7573656420616e64206d75737420696e6372656d656e74"),
    "an envelope that cannot be decoded": Answer("000000020000000b00000001000000010100ff", [Reply(1, 3,
        "unmarshal request error: proto:\xa0cannot parse invalid wire-format data", b"")],
        "00000002000000560000004c0000000102000a4a08031246756e6d61727368616c2072657175657374206572726f72"
        "3a2070726f746f3ac2a063616e6e6f7420706172736520696e76616c696420776972652d666f726d61742064617461"),
}
# fmt: on
"""Breaches of ttRPC's rules and Go's answers to them: our texts differ, stream ids and codes do not."""

# fmt: off
FRAMES = {
    0: [10], 3: [13], 4085: [4095], 4086: [4096], 4087: [4096, 1], 4096: [4096, 10], 8181: [4096, 4095], 8182: [4096,
    4096], 8183: [4096, 4097], 100_000: [4096, 95_914], 4 << 20: [4096, 4_190_218],
}
# fmt: on
"""Lengths of the frames in which Go sent a message, by the length of its envelope."""
