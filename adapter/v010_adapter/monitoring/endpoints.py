"""The sockets at which the adapter shows its state: to `status`, to Prometheus and to probes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from v010_adapter.base.loop import Loop
from v010_adapter.errors import ConfigError, reason_of
from v010_adapter.host.trust import Trust

if TYPE_CHECKING:
    from v010_adapter.monitoring.listener import AnsweringListener

log = logging.getLogger(__name__)

REOPEN_AFTER = 10.0
"""Seconds between two attempts to open the endpoints that are not open."""


class Endpoints:
    """The endpoints of one adapter. An endpoint that cannot be opened is logged; the adapter works without it."""

    def __init__(self, loop: Loop, describe: Callable[[], dict[str, Any]]) -> None:
        self._loop = loop
        self._describe = describe
        self._wanted: dict[str, Callable[[], AnsweringListener]] = {}
        """The functions that open the endpoints, by place: the state directory, or an address for metrics."""
        self._open: dict[str, AnsweringListener] = {}
        self._serves = self._is_shown = True
        """Whether this adapter serves the events; and whether it has the ports, which another one does not need."""
        self._faults: dict[str, str] = {}

    @property
    def faults(self) -> list[str]:
        """Why `status`, metrics or probes do not work; empty if all work."""
        return list(self._faults.values())

    def open(self, directory: str, listen: Iterable[str], trust: Trust) -> None:
        """Opens the socket in the state directory, and the addresses for metrics. Only the first call has an effect."""
        if not self._wanted:
            from v010_adapter.monitoring.status import StatusSocket  # noqa: PLC0415 - not before the registration

            self._wanted = {directory: lambda: StatusSocket(self._loop, directory, self._describe, trust)}
            self._wanted |= {address: partial(self._serve_metrics, address) for address in listen}
            self._keep_open()

    def show(self, *, is_shown: bool) -> None:
        """Takes the ports, or leaves them to the adapter that serves the events. Unix sockets stay open.

        An adapter in a pod with a network of its own keeps them.
        """
        if is_shown == self._serves:
            return
        self._serves = is_shown
        self._is_shown = is_shown or not self._shares_network()
        if self._is_shown:
            self._loop.call_soon(self._open_missing)  # a runtime may wait
        for place in () if self._is_shown else filter(_is_port, self._wanted):
            self._faults.pop(place, None)
            if place in self._open:
                self._open.pop(place).close()
                log.info("metrics and probes at %s: the adapter that serves the events has them now", place)

    def _shares_network(self) -> bool:
        """Whether another adapter may have this one's network; True if it is not known."""
        directory = next(iter(self._wanted), "")
        own = self._open.get(directory)
        if own is None:
            return True
        from v010_adapter.monitoring.status import shares_network  # noqa: PLC0415 - it was loaded to open the socket

        return shares_network(directory, own.path)

    def _serve_metrics(self, address: str) -> AnsweringListener:
        from v010_adapter.monitoring import metrics  # noqa: PLC0415 - 4 MB

        server = metrics.serve(self._loop, address, self._describe)
        log.info("metrics and probes at %s", address)
        return server

    def _keep_open(self) -> None:
        """Opens what is not open, now and every REOPEN_AFTER seconds: an address may become free, a socket removed."""
        self._open_missing()
        self._loop.call_at(self._loop.time() + REOPEN_AFTER, self._keep_open)

    def _open_missing(self) -> None:
        for place, make in self._wanted.items():
            if self._is_shown or not _is_port(place):
                with self._reported(place):
                    old = self._open.get(place)
                    if old is None or not old.is_there:
                        self._open[place] = make()
                        if old is not None:
                            old.close()

    @contextmanager
    def _reported(self, place: str) -> Iterator[None]:
        """Stores an error inside the block as the fault of a place, and logs a new fault; without one, removes it."""
        try:
            yield
        except (OSError, ConfigError) as error:
            is_status = place.startswith("/")
            name = place if is_status else f"metrics.listen: {place}"
            fault = str(error) if isinstance(error, ConfigError) else f"{name}: {reason_of(error)}"
            if self._faults.get(place) != fault:
                without = "no metrics, no probes there; the adapter keeps trying"
                log.error("%s: %s", fault, "`status` cannot ask this adapter" if is_status else without)
            self._faults[place] = fault
        else:
            self._faults.pop(place, None)

    def close(self) -> None:
        """Removes the sockets."""
        for server in self._open.values():
            server.close()


def _is_port(place: str) -> bool:
    return not place.startswith(("unix:", "/"))
