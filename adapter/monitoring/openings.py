"""Where others ask the adapter how it is: the status socket, and the address of metrics and probes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adapter.loop import Loop

if TYPE_CHECKING:
    from adapter.monitoring.http_server import HttpServer
    from adapter.monitoring.status import StatusSocket

log = logging.getLogger(__name__)

REOPEN_AFTER = 10.0
"""Seconds until an address for metrics is tried again: an adapter that ends may have it."""


class Openings:
    """The openings of one adapter. What cannot be opened is logged; the adapter works on without it."""

    def __init__(self, loop: Loop, describe: Callable[[], dict[str, Any]]) -> None:
        """Takes the loop, and what returns the adapter's state. Opens nothing yet."""
        self._loop = loop
        self._describe = describe
        self._is_open = False
        self._servers: list[StatusSocket | HttpServer] = []
        self.fault = ""
        """Why there are no metrics and no probes, empty if they are there or not wanted."""

    def open(self, directory: str, listen: str) -> None:
        """Opens the socket in the state directory, and the address for metrics if there is one. Does so once."""
        if self._is_open:
            return
        self._is_open = True
        from adapter.monitoring.status import StatusSocket  # noqa: PLC0415 - only now no runtime waits

        try:
            self._servers.append(StatusSocket(self._loop, directory, self._describe))
        except OSError as error:
            log.warning("%s: %s: `status` cannot ask this adapter", directory, error.strerror or error)
        if listen:
            self._listen(listen)

    def _listen(self, address: str) -> None:
        from adapter.monitoring import metrics  # noqa: PLC0415 - 4 MB

        try:
            self._servers.append(metrics.serve(self._loop, address, self._describe))
        except OSError as error:
            fault = f"metrics.listen: {address}: {error.strerror or error}"
            if fault != self.fault:
                log.error("%s: no metrics, no probes; the adapter keeps trying", fault)
            self.fault = fault
            self._loop.call_at(self._loop.time() + REOPEN_AFTER, lambda: self._listen(address))
        else:
            self.fault = ""
            log.info("metrics and probes at %s", address)

    def close(self) -> None:
        """Removes the sockets."""
        for server in self._servers:
            server.close()
