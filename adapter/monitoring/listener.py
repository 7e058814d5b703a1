"""Listening sockets, and the connections that they accept.

If the process has no descriptor or memory for one more connection, a socket pauses. A connection that cannot be
accepted stays ready: without a pause, the loop would try again without end.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress

from adapter.base.loop import Loop, Timer
from adapter.base.trunk import Trunk

PAUSE = 1.0
"""Seconds until connections are accepted again."""
CLIENT_TIMEOUT = 30.0
"""Seconds that a connection may take."""


class Listener:
    """Accepts connections in the loop."""

    def __init__(self, loop: Loop, listening: socket.socket, on_connection: Callable[[socket.socket], object]) -> None:
        """Takes over a non-blocking listening socket; `on_connection` gets each connection."""
        self._loop = loop
        self._socket = listening
        self._on_connection = on_connection
        self._timer: Timer | None = None
        self._watch()

    def _watch(self) -> None:
        self._timer = None
        self._loop.watch(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):  # the client has disconnected
            return
        except OSError:
            self._loop.unwatch(self._socket.fileno())
            self._timer = self._loop.call_at(self._loop.time() + PAUSE, self._watch)
        else:
            self._on_connection(connection)

    def close(self) -> None:
        """Closes the socket."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.unwatch(self._socket.fileno())
        self._socket.close()


class Client:
    """A connection, until it has its answer or has taken too long."""

    def __init__(self, loop: Loop, connection: socket.socket, clients: dict[Client, None]) -> None:
        """Takes over a connection. `clients` has all connections that are open, the oldest first."""
        self.trunk = Trunk(loop, connection.detach())
        self.trunk.on_close = lambda _: self.close()
        self._limit = loop.call_at(loop.time() + CLIENT_TIMEOUT, self.close)
        self._clients = clients
        clients[self] = None

    def answer(self, data: bytes) -> None:
        """Sends the answer, and then closes the connection."""
        self.trunk.write(data)
        self.trunk.when_sent(self.close)

    def close(self) -> None:
        """Closes the connection."""
        if self in self._clients:
            del self._clients[self]
            self._limit.cancel()
            self.trunk.close()


def listening_socket(family: int, address: str | tuple[str, int]) -> socket.socket:
    """Returns a socket for a Listener. A socket file may be used by its owner only. Raises OSError."""
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a killed adapter's connections may linger
        os.fchmod(made.fileno(), 0o600)
        made.bind(address)
        made.listen()
    except OSError:
        made.close()
        raise
    return made


def remove_dead_socket(path: str) -> None:
    """Removes a socket file at which nobody listens any more, such as a killed adapter's."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as other:
        if stat.S_ISSOCK(os.lstat(path).st_mode) and other.connect_ex(path) == errno.ECONNREFUSED:
            os.unlink(path)
