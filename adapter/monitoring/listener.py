"""A socket that others connect to. Without descriptors or memory for one more connection it pauses.

A connection that cannot be accepted stays ready: the loop would try without end, and take a whole processor.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from adapter.loop import Loop, Timer

PAUSE = 1.0
"""Seconds until connections are accepted again."""


class Listener:
    """Accepts connections on the loop."""

    def __init__(self, loop: Loop, listening: socket.socket, accepted: Callable[[socket.socket], object]) -> None:
        """Takes over a listening socket that does not block, and what gets each connection."""
        self._loop = loop
        self._socket = listening
        self._accepted = accepted
        self._timer: Timer | None = None
        self._watch()

    def _watch(self) -> None:
        self._timer = None
        self._loop.watch(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):  # the other side has gone
            return
        except OSError:
            self._loop.unwatch(self._socket.fileno())
            self._timer = self._loop.call_at(self._loop.time() + PAUSE, self._watch)
        else:
            self._accepted(connection)

    def close(self) -> None:
        """Closes the socket."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.unwatch(self._socket.fileno())
        self._socket.close()
