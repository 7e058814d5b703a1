"""Notifies systemd that the service is ready, what it does, and that its loop works (sd_notify(3))."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import suppress

from v010_adapter.base.loop import Loop


class Service:
    """The adapter as a service of systemd. Does nothing if systemd has not started the adapter."""

    def __init__(self, loop: Loop, environ: MutableMapping[str, str]) -> None:
        """Removes systemd's variables from `environ`: a program that inherits them could speak as the adapter."""
        address = environ.pop("NOTIFY_SOCKET", "")
        microseconds, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        self._loop = loop
        self._socket = None
        if not address.startswith(("/", "@")):
            return
        import socket  # 4 ms, not for a launched plugin  # noqa: PLC0415

        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._address = "\0" + address[1:] if address[0] == "@" else address
        if microseconds.strip("0").isdecimal() and pid in ("", str(os.getpid())):
            self._interval = int(microseconds) / 2e6  # half of the watchdog's timeout: sd_watchdog_enabled(3)
            self._feed()

    def notify(self, message: str) -> None:
        """Sends assignments such as `READY=1`, one a line. If systemd cannot take a message now, it is lost."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.sendto(message.encode(), self._address)

    def _feed(self) -> None:
        self.notify("WATCHDOG=1")
        self._loop.call_at(self._loop.time() + self._interval, self._feed)
