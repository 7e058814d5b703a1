"""One end of a connected socket: of the runtime, `status` or an HTTP client. Reading and writing never block."""

from __future__ import annotations

import os
from collections.abc import Callable

from v010_adapter.base.loop import CLOSED, READ, WRITE, Loop

READ_SIZE = 16 << 10
MAX_UNSENT = 8 << 20
"""Maximum bytes that wait for a peer that does not read: two messages of the largest size."""


class ConnectedSocket:
    """A connected socket in a loop. `on_data` gets the bytes that arrive.

    `on_close` is called once, when the connection ends: with the reason if this end has closed it, or with "".
    """

    def __init__(self, loop: Loop, fd: int) -> None:
        """Takes over the descriptor of a connected socket, or closes it: raises OSError if epoll takes no more."""
        os.set_blocking(fd, False)
        self.on_data: Callable[[bytes], object] = lambda _: None
        self.on_close: Callable[[str], object] = lambda _: None
        self._loop = loop
        self._fd = fd
        self._unsent = b""
        self._on_sent: Callable[[], object] | None = None
        try:
            loop.watch(self._fd, self._on_readable, READ)
        except OSError:
            os.close(fd)
            raise

    def write(self, data: bytes) -> None:
        """Sends data, now or when the peer reads again. If the peer has closed the connection, the data is lost."""
        if self._unsent:
            self._keep(self._unsent + data)
            return
        if self._fd == CLOSED:
            return
        try:
            sent = os.write(self._fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # `_on_readable` finds the end of the connection
        if sent < len(data):
            self._keep(data[sent:])
            self._loop.modify(self._fd, self._on_writable, READ | WRITE)

    def _keep(self, unsent: bytes) -> None:
        self._unsent = unsent
        if len(unsent) > MAX_UNSENT:  # not now: the caller does not expect `on_close` inside `write`
            self._loop.call_soon(self._give_up)

    def _give_up(self) -> None:
        if len(self._unsent) > MAX_UNSENT:
            self.close()
            self.on_close(f"the other end does not read: more than {MAX_UNSENT} bytes wait to be sent")

    def when_sent(self, callback: Callable[[], object]) -> None:
        """Calls back when all data has been sent, or now if it already has."""
        self._on_sent = callback
        self._call_if_sent()

    def _call_if_sent(self) -> None:
        if self._on_sent is not None and not self._unsent:
            callback, self._on_sent = self._on_sent, None
            callback()

    def close(self) -> None:
        """Closes the socket without calling `on_close`."""
        if self._fd != CLOSED:
            self._loop.unwatch(self._fd)
            os.close(self._fd)
            self._fd = CLOSED
            self._unsent = b""
            self._call_if_sent()

    def _on_readable(self) -> None:
        if self._fd == CLOSED:
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
            self.on_close("")

    def _on_writable(self) -> None:
        data, self._unsent = self._unsent, b""
        self.write(data)
        if not self._unsent and self._fd != CLOSED:
            self._loop.modify(self._fd, self._on_readable, READ)
            self._call_if_sent()
        self._on_readable()
