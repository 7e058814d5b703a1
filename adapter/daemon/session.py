"""One connection with a runtime: the trunk, and the stub that speaks over it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from adapter.base.loop import Loop
from adapter.base.trunk import Trunk
from adapter.errors import AdapterError, RegistrationError, RemoteProtocolError
from adapter.nri import Identity, Plugin, Stub

log = logging.getLogger(__name__)


class Session:
    """A connection with a runtime, until it is lost."""

    def __init__(
        self, loop: Loop, fd: int, plugin: Plugin, who: Identity, on_lost: Callable[[AdapterError | None], object]
    ) -> None:
        """Takes the descriptor of a connected socket, the plugin, and the name and index to register with.

        `on_lost` is called once, when the connection is gone: with None if the runtime has closed it, else with the
        error for which it was closed.
        """
        self._loop = loop
        self._on_lost = on_lost
        self._trunk = Trunk(loop, fd)
        self._trunk.on_data = self._receive
        self._trunk.on_close = lambda reason: on_lost(RemoteProtocolError(reason) if reason else None)
        self.stub = Stub(plugin, who.name, who.idx, self._trunk.write)

    def close_when_sent(self, callback: Callable[[], object]) -> None:
        """Calls back when every event is answered and nothing is left to be sent, perhaps at once."""
        self.stub.when_answered(lambda: self._trunk.when_sent(callback))

    def close_to_rejoin(self) -> None:
        """Closes the connection, to join anew with what the runtime has then."""
        self._give_up(AdapterError("the connection is given up, to join again"))

    def _receive(self, data: bytes) -> None:
        try:
            self.stub.receive_data(data, self._loop.ready_since, is_heard=not self._loop.has_hung_up)
        except AdapterError as error:
            self._give_up(error)
        except Exception as bug:
            log.exception("a bug: the session with the runtime cannot go on")
            self._give_up(RegistrationError(f"a bug: {bug}"))

    def _give_up(self, error: AdapterError) -> None:
        self._trunk.close()
        self._on_lost(error)
