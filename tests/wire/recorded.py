"""What Go sends, byte for byte: tables for reading and for writing.

Recorded on a unix socket: NRI v0.12.5 (pkg/net/multiplex, pkg/api) over ttRPC v1.2.7 made each of these calls as a
client, or answered as a server what a client or a hand-made message asked. All that came out at the other end of the
trunk was kept, the headers of both layers included. Deadlines are fixed numbers: an interceptor had set `timeout_nano`.
"""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import Message

from nri.proto import nri_pb2 as api
from nri.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Reply, Request

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
    """Calls on a connection: what they are to their server, and their bytes. Both ends read and write them alike."""

    conn_id: int
    requests: list[Request]
    sent: str


class Answer(NamedTuple):
    """What a Go server was asked on the runtime's connection, its answer, and its bytes."""

    asked: str
    reply: Reply
    sent: str


def _call(
    conn_id: int, method: str, message: Message, timeout: float | None, sent: str, *metadata: tuple[str, str]
) -> Call:
    service = PLUGIN if conn_id == PLUGIN_SERVICE else RUNTIME
    return Call(conn_id, [Request(1, service, method, message.SerializeToString(), timeout, metadata)], sent)


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
READ_ONLY_CALLS = {  # Go clients send these, and we never do
    "a deadline that has passed": _call(PLUGIN_SERVICE, "Shutdown", api.Empty(), -5e-9,
        "000000010000003c000000320000000101000a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e"
        "120853687574646f776e20fbffffffffffffffff01"),
    "metadata": _call(PLUGIN_SERVICE, "Shutdown", api.Empty(), None,
        "00000001000000490000003f0000000101000a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e"
        "120853687574646f776e2a0a0a0574726163651201612a0a0a057472616365120162",
        ("trace", "a"), ("trace", "b")),
}
ANSWERS = {
    "registered": Answer(CALLS["RegisterPlugin"].sent, Reply(1, 0, "", b""), "000000020000000a00000000000000010200"),
    "a handler's error": Answer(CALLS["RegisterPlugin"].sent, Reply(1, 2, "invalid plugin name: no", b""),
        "00000002000000270000001d0000000102000a1b08021217696e76616c696420706c7567696e206e616d653a206e6f"),
    "an error with a code of its own and text beyond ASCII": Answer(CALLS["RegisterPlugin"].sent,
        Reply(1, 8, "naïve \u2013 too much", b""),
        "0000000200000023000000190000000102000a17080812136e61c3af766520e2809320746f6f206d756368"),
    "a payload": Answer(CALLS["UpdateContainers"].sent, Reply(1, 0, "", bytes.fromhex("0a060a0463747230")),
        "00000002000000140000000a00000001020012080a060a0463747230"),
}
# fmt: on

GO_BREACHES = {
    "an even stream id": ("000000020000000a00000000000000020100", [(2, 3)]),
    "a stream id used twice": ("000000020000000a00000000000000030100" * 2, [(3, 12), (3, 3)]),
    "an envelope that cannot be decoded": ("000000020000000b00000001000000010100ff", [(1, 3)]),
    "a response sent to a server": ("000000020000000a00000000000000010200", []),
}
"""Breaches of ttRPC's rules, and the stream ids and codes of Go's answers to them. Go does not know the service ""."""

# fmt: off
FRAMES = {
    0: [10], 3: [13], 4085: [4095], 4086: [4096], 4087: [4096, 1], 4096: [4096, 10], 8181: [4096, 4095], 8182: [4096,
    4096], 8183: [4096, 4097], 100_000: [4096, 95_914], 4 << 20: [4096, 4_190_218],
}
# fmt: on
"""Lengths of the frames in which Go sent a message, by the length of its envelope."""
