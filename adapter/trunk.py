"""The daemon's end of the socket: reads what there is, and never waits for a runtime that does not read."""

from __future__ import annotations

import os
from collections.abc import Callable

from adapter.loop import READ, WRITE, Loop

READ_SIZE = 16 << 10


class Trunk:
    """A connected socket in a loop. `on_data` gets what arrives, `on_close` is called once when the peer is gone."""

    def __init__(self, loop: Loop, fd: int) -> None:
        """Takes over the descriptor of a connected socket."""
        os.set_blocking(fd, False)
        self.on_data: Callable[[bytes], object] = lambda _: None
        self.on_close: Callable[[], object] = lambda: None
        self._loop = loop
        self._fd = fd
        self._unsent = b""
        self._on_sent: Callable[[], object] | None = None
        loop.watch(self._fd, self._readable, READ)

    def write(self, data: bytes) -> None:
        """Sends data, now or when the peer reads again. To a peer that has gone it is lost."""
        if self._unsent:
            self._unsent += data
            return
        if self._fd < 0:
            return
        try:
            sent = os.write(self._fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # reading tells that it is gone
        if sent < len(data):
            self._unsent = data[sent:]
            self._loop.modify(self._fd, self._ready, READ | WRITE)

    def when_sent(self, callback: Callable[[], object]) -> None:
        """Calls back, perhaps at once, when nothing is left to be sent."""
        self._on_sent = callback
        self._tell_if_sent()

    def _tell_if_sent(self) -> None:
        if self._on_sent is not None and (not self._unsent or self._fd < 0):
            callback, self._on_sent = self._on_sent, None
            callback()

    def close(self) -> None:
        """Closes the socket; nobody is told."""
        if self._fd >= 0:
            self._loop.unwatch(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._tell_if_sent()

    def _readable(self) -> None:
        if self._fd < 0:
            return
        try:
            data = os.read(self._fd, READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.on_data(data)
        else:
            self.close()
            self.on_close()

    def _ready(self) -> None:
        data, self._unsent = self._unsent, b""
        self.write(data)
        if not self._unsent and self._fd >= 0:
            self._loop.modify(self._fd, self._readable, READ)
            self._tell_if_sent()
        self._readable()
