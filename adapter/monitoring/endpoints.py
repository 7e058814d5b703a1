"""The sockets at which the adapter shows its state: to `status`, to Prometheus and to probes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from adapter.base.loop import Loop
from adapter.errors import ConfigError
from adapter.host.trust import Trust

if TYPE_CHECKING:
    from adapter.monitoring.http_server import HttpServer
    from adapter.monitoring.status import StatusSocket

log = logging.getLogger(__name__)

REOPEN_AFTER = 10.0
"""Seconds between two attempts to listen at an address, and between two checks that the status socket exists."""


class Endpoints:
    """The endpoints of one adapter. An endpoint that cannot be opened is logged; the adapter works without it."""

    def __init__(self, loop: Loop, describe: Callable[[], dict[str, Any]]) -> None:
        """Takes the loop, and the function that returns the adapter's state. Opens nothing yet."""
        self._loop = loop
        self._describe = describe
        self._is_open = False
        self._status: StatusSocket | None = None
        self._metrics: list[HttpServer] = []
        self._faults: dict[str, str] = {}

    @property
    def faults(self) -> list[str]:
        """Why `status`, metrics or probes do not work; empty if all work."""
        return list(self._faults.values())

    def open(self, directory: str, listen: Iterable[str], trust: Trust) -> None:
        """Opens the socket in the state directory, and the addresses for metrics. Only the first call has an effect."""
        if self._is_open:
            return
        self._is_open = True
        self._keep_status_socket(directory, trust)
        for address in listen:
            self._listen(address)

    def _keep_status_socket(self, directory: str, trust: Trust) -> None:
        """Opens the status socket, and opens it again when it has been removed."""
        from adapter.monitoring.status import StatusSocket  # noqa: PLC0415 - not before the registration

        try:
            if self._status is None or not self._status.is_there:
                made = StatusSocket(self._loop, directory, self._describe, trust)
                if self._status is not None:
                    self._status.close()
                self._status = made
        except (OSError, ConfigError) as error:
            place = "" if isinstance(error, ConfigError) else f"{directory}: "
            self._report(
                "status", f"{place}{getattr(error, 'strerror', None) or error}", "`status` cannot ask this adapter"
            )
        else:
            self._faults.pop("status", None)
        self._loop.call_at(self._loop.time() + REOPEN_AFTER, lambda: self._keep_status_socket(directory, trust))

    def _listen(self, address: str) -> None:
        from adapter.monitoring import metrics  # noqa: PLC0415 - 4 MB

        try:
            self._metrics.append(metrics.serve(self._loop, address, self._describe))
        except OSError as error:
            reason = f"metrics.listen: {address}: {error.strerror or error}"
            self._report(address, reason, "no metrics, no probes there; the adapter keeps trying")
            self._loop.call_at(self._loop.time() + REOPEN_AFTER, lambda: self._listen(address))
        else:
            self._faults.pop(address, None)
            log.info("metrics and probes at %s", address)

    def _report(self, what: str, reason: str, meaning: str) -> None:
        if self._faults.get(what) != reason:
            log.error("%s: %s", reason, meaning)
        self._faults[what] = reason

    def close(self) -> None:
        """Removes the sockets."""
        for server in (self._status, *self._metrics):
            if server is not None:
                server.close()
