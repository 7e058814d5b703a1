"""The status socket: each running adapter shows its state at a socket in its state directory."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

from v010_adapter.base.connected_socket import ConnectedSocket
from v010_adapter.base.loop import Loop
from v010_adapter.host import private_directory
from v010_adapter.host.trust import Trust, strict
from v010_adapter.monitoring.listener import AnsweringListener, listening_socket, remove_dead_socket

PREFIX = "status-"
ANSWER_TIMEOUT = 2.0


class StatusSocket(AnsweringListener):
    """Sends the adapter's state to each client, as one JSON object."""

    def __init__(self, loop: Loop, directory: str, describe: Callable[[], dict[str, Any]], trust: Trust) -> None:
        """Takes the function that returns the state. `trust` judges the directory. Raises OSError, ConfigError."""
        self._describe = describe
        name = f"{PREFIX}{os.urandom(4).hex()}"
        with private_directory.open_directory(directory, trust) as fd:
            for path in _sockets(fd):
                remove_dead_socket(path)
            made = listening_socket(socket.AF_UNIX, private_directory.short_path(fd, name))
        super().__init__(loop, made, os.path.join(directory, name))

    def serve(self, client: ConnectedSocket) -> None:
        self.answer(client, json.dumps(self._describe()).encode())


def ask(directory: str, trust: Trust = strict) -> Iterator[dict[str, Any]]:
    """Yields the state of each adapter with this state directory; `{"faults": [...]}` for one that does not answer.

    Raises OSError, and ConfigError for a directory that no adapter would use: anybody might answer there.
    """
    try:
        os.stat(directory)
    except FileNotFoundError:
        return
    with private_directory.open_directory(directory, trust) as fd:
        for path in _sockets(fd):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(ANSWER_TIMEOUT)
                try:
                    client.connect(path)
                    with client.makefile("rb") as answer:
                        told = json.load(answer)
                    if not isinstance(told, dict):
                        raise ValueError("no object")
                    yield told
                except (OSError, RecursionError, ValueError) as error:
                    if not isinstance(error, ConnectionRefusedError):  # its adapter was killed
                        place = f"{directory}/{os.path.basename(path)}"
                        yield {"faults": [f"{place}: the adapter does not answer: {error}"]}


def shares_network(directory: str, own: str) -> bool:
    """Whether an adapter other than that of the socket `own` shows itself in a state directory and has its network.

    The kernel lists the unix sockets of one network. True if that is not known.
    """
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as listed:
            here = {line.rpartition("/")[2].rstrip() for line in listed}
        others = {name for name in os.listdir(directory) if name.startswith(PREFIX)} - {os.path.basename(own)}
    except OSError:
        return True
    return not here.isdisjoint(others)


def _sockets(fd: int) -> list[str]:
    return [
        private_directory.short_path(fd, name)
        for name in sorted(os.listdir(private_directory.short_path(fd)))
        if name.startswith(PREFIX)
    ]
