"""The state of running adapters: each tells it on a socket in its state directory, and others ask there."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from adapter.loop import Loop
from adapter.monitoring.listener import Listener, listening, remove_dead

PREFIX = "status-"
PATIENCE = 2.0
"""Seconds in which an adapter must answer."""
LARGEST = 1 << 20
"""Bytes of an answer."""


class StatusSocket:
    """Tells everybody who connects how the adapter is, as one JSON object."""

    def __init__(self, loop: Loop, directory: str, describe: Callable[[], dict[str, Any]]) -> None:
        """Takes the state directory, and what returns the state. Raises OSError."""
        self._describe = describe
        os.makedirs(directory, mode=0o700, exist_ok=True)
        with _sockets(directory) as paths:
            for path in paths:
                remove_dead(path)
        self._path = os.path.join(directory, f"{PREFIX}{os.urandom(4).hex()}")
        with _short(directory) as short:
            made = listening(socket.AF_UNIX, f"{short}/{os.path.basename(self._path)}")
        self._listener = Listener(loop, made, self._answer)

    def _answer(self, asker: socket.socket) -> None:
        with asker, suppress(OSError):  # the asker has gone
            asker.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST)
            asker.setblocking(False)
            asker.send(json.dumps(self._describe()).encode())

    def close(self) -> None:
        """Removes the socket."""
        self._listener.close()
        with suppress(OSError):
            os.unlink(self._path)


def ask(directory: str) -> Iterator[dict[str, Any]]:
    """Yields what the adapters with a state directory tell; one that does not answer is `{"faults": [...]}`."""
    with _sockets(directory) as paths:
        for path in paths:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
                asked.settimeout(PATIENCE)
                try:
                    asked.connect(path)
                    yield json.loads(b"".join(iter(lambda: asked.recv(1 << 16), b"")))
                except (OSError, ValueError) as error:
                    if not isinstance(error, ConnectionRefusedError):  # else its adapter was killed
                        yield {
                            "faults": [f"{directory}/{os.path.basename(path)}: the adapter does not answer: {error}"]
                        }


@contextmanager
def _short(directory: str) -> Iterator[str]:
    """Gives a short name of a directory: the path of a socket has 107 bytes at most."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


@contextmanager
def _sockets(directory: str) -> Iterator[list[str]]:
    """Gives the paths of the sockets in a state directory; none without such a directory. Raises OSError."""
    if not os.path.isdir(directory):
        yield []
        return
    with _short(directory) as short:
        yield [f"{short}/{name}" for name in sorted(os.listdir(short)) if name.startswith(PREFIX)]
