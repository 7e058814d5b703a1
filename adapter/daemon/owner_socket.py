"""The socket of the lock's owner in the state directory. Each adapter that waits for the lock is connected with it.

To ask for the lock is to send a byte. The end of the connection tells that the owner has released it or has ended.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from adapter.base.loop import Loop
from adapter.errors import ConfigError
from adapter.host import state_directory
from adapter.host.trust import Trust

if TYPE_CHECKING:
    import socket

    from adapter.monitoring.listener import Listener

log = logging.getLogger(__name__)

NAME = "owner"


class OwnerSocket:
    """Both ends: where this adapter is asked as the owner, and its way to another owner."""

    def __init__(self, loop: Loop, directory: str, trust: Trust, on_asked: Callable[[], object]) -> None:
        """Takes the loop, the state directory and what judges it. `on_asked` is called when an adapter asks."""
        self._loop = loop
        self._directory = directory
        self._trust = trust
        self._on_asked = on_asked
        self._listener: Listener | None = None
        self._waiting: list[socket.socket] = []
        """The connections with the adapters that wait."""

    def open(self) -> None:
        """Lets other adapters wait for the lock. If that fails, they look at the lock now and then."""
        import socket  # noqa: PLC0415 - 4 ms, and only now no runtime waits

        from adapter.monitoring import listener  # noqa: PLC0415 - likewise

        self.close()
        try:
            with state_directory.open_directory(self._directory, self._trust) as fd:
                path = state_directory.short_path(fd, NAME)
                with suppress(FileNotFoundError):
                    os.unlink(path)  # of a previous owner
                made = listener.listening_socket(socket.AF_UNIX, path)
            self._listener = listener.Listener(self._loop, made, self._on_connection)
        except (OSError, ConfigError) as error:
            log.warning("%s/%s: %s: a newer adapter waits until this one ends", self._directory, NAME, error)

    def close(self) -> None:
        """Tells those that wait that this adapter has the lock no more."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for waiting in self._waiting.copy():
            self._hang_up(waiting)

    def connect(self) -> socket.socket | None:
        """Returns a connection with the owner, None if nobody listens."""
        import socket  # noqa: PLC0415 - 4 ms

        with suppress(OSError, ConfigError), state_directory.open_directory(self._directory, self._trust) as fd:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            try:
                connection.connect(state_directory.short_path(fd, NAME))
            except OSError:
                connection.close()
            else:
                return connection
        return None

    def _on_connection(self, waiting: socket.socket) -> None:
        self._waiting.append(waiting)
        self._loop.watch(waiting.fileno(), lambda: self._receive(waiting))

    def _receive(self, waiting: socket.socket) -> None:
        """An adapter that waits asks for the lock, or has hung up."""
        try:
            has_asked = bool(waiting.recv(1))
        except OSError:
            has_asked = False
        if has_asked:
            log.info("a newer adapter asks to serve the events")
            self._on_asked()
        else:
            self._hang_up(waiting)

    def _hang_up(self, waiting: socket.socket) -> None:
        self._waiting.remove(waiting)
        self._loop.unwatch(waiting.fileno())
        waiting.close()
