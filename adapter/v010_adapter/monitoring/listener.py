"""Listening sockets, and the connections that they accept.

If the process has no descriptor or memory for one more connection, or epoll takes no more, a socket pauses. Without a
pause, the loop would try again and again, because the connection stays ready.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import stat
from abc import ABC, abstractmethod
from contextlib import suppress

from v010_adapter.base.connected_socket import ConnectedSocket
from v010_adapter.base.loop import NO_TIMER, Loop, Timer

log = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds until connections are accepted again."""
CLIENT_TIMEOUT = 30.0
"""Seconds that a connection may take."""
MAX_CLIENTS = 16
"""Maximum number of connections. If one more comes, the oldest is closed."""


class AnsweringListener(ABC):
    """Accepts clients in the loop. A client is disconnected when it has its answer, or has taken too long."""

    def __init__(self, loop: Loop, listening: socket.socket, path: str = "") -> None:
        """Takes over a non-blocking listening socket, with its file, or closes it: raises OSError."""
        self._loop = loop
        self._socket = listening
        self.path = path
        """The socket's file; empty for a port."""
        self._clients: dict[ConnectedSocket, Timer] = {}
        """The connections, the oldest first, each with its limit of time."""
        self._timer = NO_TIMER
        try:
            self._file = os.lstat(path) if path else None
            self._loop.watch(self._socket.fileno(), self._accept)
        except OSError:
            listening.close()
            raise

    @property
    def is_there(self) -> bool:
        """Whether clients find the socket: its file may have been removed. Raises OSError."""
        with suppress(FileNotFoundError):
            return self._file is None or os.path.samestat(os.lstat(self.path), self._file)
        return False

    @abstractmethod
    def serve(self, client: ConnectedSocket) -> None:
        """Reads from a client, and calls `answer`."""

    def _pause(self) -> None:
        self._loop.unwatch(self._socket.fileno())
        self._timer = self._loop.call_at(self._loop.time() + PAUSE, self._go_on)

    def _go_on(self) -> None:
        try:
            self._loop.watch(self._socket.fileno(), self._accept)
        except OSError:
            self._pause()

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
            if len(self._clients) >= MAX_CLIENTS:
                self._hang_up(next(iter(self._clients)))
            client = ConnectedSocket(self._loop, connection.detach())
        except (BlockingIOError, ConnectionError):  # the client has disconnected
            return
        except OSError:
            self._pause()
            return
        client.on_close = lambda _: self._hang_up(client)
        self._clients[client] = self._loop.call_at(self._loop.time() + CLIENT_TIMEOUT, lambda: self._hang_up(client))
        try:
            self.serve(client)
        except Exception:  # the next client is to be served
            log.exception("a bug: a client of %s gets no answer", self.path)
            self._hang_up(client)

    def answer(self, client: ConnectedSocket, data: bytes) -> None:
        """Sends the answer, and then closes the connection."""
        client.write(data)
        client.when_sent(lambda: self._hang_up(client))

    def _hang_up(self, client: ConnectedSocket) -> None:
        if client in self._clients:
            self._clients.pop(client).cancel()
            client.close()

    def close(self) -> None:
        with suppress(OSError):  # first: once the socket is closed, another adapter may use the path
            if self._file is not None and self.is_there:
                os.unlink(self.path)
        for client in list(self._clients):
            self._hang_up(client)
        self._timer.cancel()
        self._loop.unwatch(self._socket.fileno())
        self._socket.close()


def listening_socket(family: int, address: str | tuple[str, int]) -> socket.socket:
    """Returns a socket for a listener. A socket file may be used by its owner only. Raises OSError."""
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
