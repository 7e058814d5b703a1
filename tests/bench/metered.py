"""The daemon, or a plugin that is the stub alone, with its runtime in the same process: for `instructions` to count.

Arguments: MESSAGES PLUGIN ANSWER. MESSAGES is a file, a marshalled list. Each message is in the socket as soon as the
answer to the one before has been sent, so that all runs take the same path. The process ends with the last answer; it
prints that answer and the number of programs it has started. The clock stands still: no timer comes in between.

valgrind has no pidfd_open, and the programs' own instructions are not ours: in place of a program there is its answer
in the pipe, and a descriptor that can be read, as the pidfd of a program that has ended.
"""

from __future__ import annotations

import marshal
import os
import sys
import time
from _socket import socketpair  # the adapter does without the module socket
from collections.abc import Mapping, Sequence

PID = 1 << 22  # none that exists


class MeteredRuntime:
    """The far end of the trunk, and the programs."""

    def __init__(self, messages: Sequence[bytes], answer: bytes) -> None:
        self._messages = iter(messages)
        self._answer = answer
        self._far, near = socketpair()
        self.trunk = near.detach()
        self._started = 0

    def take_answer(self) -> None:
        """Reads an answer and sends the next message, or ends the process."""
        answer = self._far.recv(1 << 20)
        message = next(self._messages, None)
        if message is None:
            os.write(1, b"%d\n%b" % (self._started, answer))
            os._exit(0)
        self._far.send(message)

    def spawn(self, path: str, argv: tuple[str, ...], environ: Mapping[str, str], descriptors: Sequence[int]) -> int:
        """Passes for `Children.spawn`."""
        self._started += 1
        os.write(descriptors[1], self._answer)
        return PID


def main() -> None:
    """Serves the messages as the plugin `daemon` or `stub`."""
    time.monotonic = lambda: 1000.0  # before the adapter takes it
    time.time = lambda: 4e9  # all files are old, and none is read again because it may change within its time stamp
    _, messages, plugin, answer = sys.argv
    sys.argv[1:] = []
    with open(messages, "rb") as file:
        runtime = MeteredRuntime(marshal.load(file), answer.encode())  # noqa: S302 - our own
    os.environ["NRI_PLUGIN_SOCKET"] = str(runtime.trunk)
    if plugin == "stub":
        _stub(runtime)
    else:
        _daemon(runtime)


def _daemon(runtime: MeteredRuntime) -> None:
    from v010_adapter.base.connected_socket import ConnectedSocket  # noqa: PLC0415
    from v010_adapter.cli import command_line as cli  # noqa: PLC0415
    from v010_adapter.programs.children import Children, children  # noqa: PLC0415

    write = ConnectedSocket.write

    def answer(self: ConnectedSocket, data: bytes) -> None:
        write(self, data)
        runtime.take_answer()

    os.pidfd_open = lambda pid, flags=0: os.eventfd(1)
    children.spawn = runtime.spawn  # type: ignore[method-assign]
    Children.reap = lambda self, pid: 0  # type: ignore[method-assign]
    ConnectedSocket.write = answer  # type: ignore[method-assign]
    cli.main()


def _stub(runtime: MeteredRuntime) -> None:
    from nri import Context, Plugin, Stub, api  # noqa: PLC0415

    class Silent(Plugin):
        """Lets each event pass."""

        def start_container(self, request: api.StartContainerRequest, context: Context) -> None:
            pass

    def answer(data: bytes) -> None:
        os.write(runtime.trunk, data)
        runtime.take_answer()

    stub = Stub(Silent(), "metered", "00", answer)
    stub.register()
    while True:
        stub.receive_data(os.read(runtime.trunk, 1 << 20))
