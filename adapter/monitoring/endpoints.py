"""The sockets at which the adapter shows its state: to `status`, to Prometheus and to probes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from adapter.base.loop import Loop
from adapter.errors import ConfigError, reason_of
from adapter.host.trust import Trust

if TYPE_CHECKING:
    from adapter.monitoring.http_server import HttpServer
    from adapter.monitoring.status import StatusSocket

log = logging.getLogger(__name__)

REOPEN_AFTER = 10.0
"""Seconds between two attempts to open what is not open."""


class Endpoints:
    """The endpoints of one adapter. An endpoint that cannot be opened is logged; the adapter works without it."""

    def __init__(self, loop: Loop, describe: Callable[[], dict[str, Any]]) -> None:
        self._loop = loop
        self._describe = describe
        self._is_open = False
        self._status: StatusSocket | None = None
        self._metrics: dict[str, HttpServer] = {}
        """The open addresses for metrics."""
        self._listen_to: tuple[str, ...] = ()
        """All addresses for metrics."""
        self._is_shown = True
        """Whether this adapter has the ports: another one, with the same network, does not need them."""
        self._faults: dict[str, str] = {}

    @property
    def faults(self) -> list[str]:
        """Why `status`, metrics or probes do not work; empty if all work."""
        return list(self._faults.values())

    def open(self, directory: str, listen: Iterable[str], trust: Trust) -> None:
        """Opens the socket in the state directory, and the addresses for metrics. Only the first call has an effect."""
        if not self._is_open:
            self._is_open = True
            self._listen_to = tuple(listen)
            self._keep_open(directory, trust)

    def show(self, *, is_shown: bool) -> None:
        """Takes the ports, or leaves them to the adapter that serves the events. Unix sockets stay open."""
        if is_shown and not self._is_shown:
            self._loop.call_soon(self._listen)  # a runtime may wait
        self._is_shown = is_shown
        for address in () if is_shown else filter(_is_port, self._listen_to):
            self._faults.pop(_place(address), None)
            if address in self._metrics:
                self._metrics.pop(address).close()

    def _keep_open(self, directory: str, trust: Trust) -> None:
        """Opens what is not open, now and every REOPEN_AFTER seconds: an address may become free, a socket removed."""
        from adapter.monitoring.status import StatusSocket  # noqa: PLC0415 - not before the registration

        with self._reported(directory, "`status` cannot ask this adapter"):
            if self._status is None or not self._status.is_there:
                made = StatusSocket(self._loop, directory, self._describe, trust)
                if self._status is not None:
                    self._status.close()
                self._status = made
        self._listen()
        self._loop.call_at(self._loop.time() + REOPEN_AFTER, lambda: self._keep_open(directory, trust))

    def _listen(self) -> None:
        for address in self._listen_to:
            if address not in self._metrics and (self._is_shown or not _is_port(address)):
                from adapter.monitoring import metrics  # noqa: PLC0415 - 4 MB

                with self._reported(_place(address), "no metrics, no probes there; the adapter keeps trying"):
                    self._metrics[address] = metrics.serve(self._loop, address, self._describe)
                    log.info("metrics and probes at %s", address)

    @contextmanager
    def _reported(self, place: str, meaning: str) -> Iterator[None]:
        """Keeps the error inside as the fault of a place, and logs it if it is new; without one, forgets the fault."""
        try:
            yield
        except (OSError, ConfigError) as error:
            fault = str(error) if isinstance(error, ConfigError) else f"{place}: {reason_of(error)}"
            if self._faults.get(place) != fault:
                log.error("%s: %s", fault, meaning)
            self._faults[place] = fault
        else:
            self._faults.pop(place, None)

    def close(self) -> None:
        """Removes the sockets."""
        for server in (self._status, *self._metrics.values()):
            if server is not None:
                server.close()


def _is_port(address: str) -> bool:
    return not address.startswith("unix:")


def _place(address: str) -> str:
    return f"metrics.listen: {address}"
