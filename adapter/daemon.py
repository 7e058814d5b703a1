"""The daemon: puts the plugin, its stub, the trunk and signals together on one loop."""

from __future__ import annotations

import contextlib
import logging
import os
import signal

from adapter import logs, settings
from adapter.errors import AdapterError, ConfigError
from adapter.loop import Loop
from adapter.nri import Identity, Stub
from adapter.plugin import Adapter
from adapter.settings import Settings
from adapter.trunk import Trunk

log = logging.getLogger(__name__)

GRACE = 10.0
"""Seconds that chains under way get at the end."""


class Daemon:
    """One session with a runtime, from the connected socket to the exit code."""

    def __init__(self, own: Settings, who: Identity, trunk: int) -> None:
        """Takes the settings, who to register as, and the descriptor of the connected socket."""
        self.exit_code = 0
        self._loop = Loop()
        self._trunk = Trunk(self._loop, trunk)
        self._trunk.on_data = self._receive
        self._trunk.on_close = self._closed
        self._adapter = Adapter(self._loop, own)
        self._stub = Stub(self._adapter, who.name, who.idx, self._trunk.write)
        self._adapter.update_containers = self._stub.update_containers

    def run(self) -> int:
        """Serves until the runtime closes the connection or a signal ends it; returns the exit code."""
        self._watch_signals()
        self._retry_log()
        self._stub.register()
        self._loop.run()
        return self.exit_code

    def _receive(self, data: bytes) -> None:
        try:
            self._stub.receive_data(data)
        except AdapterError as error:
            log.error("%s", error)
            self._give_up()
        except Exception:
            log.exception("a bug: the session with the runtime cannot go on")
            self._give_up()

    def _give_up(self) -> None:
        self._trunk.close()
        self._finish(1)

    def _closed(self) -> None:
        log.info("the runtime has closed the connection")
        self._finish(0 if self._stub.registered else 1)

    def _finish(self, exit_code: int) -> None:
        """Ends the daemon once the chains under way have ended, or their grace has."""
        self.exit_code = exit_code
        self._loop.call_at(self._loop.time() + GRACE, self._out_of_grace)
        self._adapter.legacy.when_idle(lambda: self._trunk.when_sent(self._loop.stop))

    def _out_of_grace(self) -> None:
        log.error("legacy plugins or the runtime were still busy after %g s", GRACE)
        self._loop.stop()

    def _watch_signals(self) -> None:
        self._wakeup, awake = os.pipe()
        for end in (self._wakeup, awake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(awake, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self._loop.watch(self._wakeup, self._signalled)

    def _signalled(self) -> None:
        number = os.read(self._wakeup, 64)[-1]
        log.info("ending on %s", signal.Signals(number).name)
        self._finish(0)

    def _retry_log(self) -> None:
        """Offers the log lines that were not taken: soon again while some are, for many a syslog queues ten at most."""
        wait = 0.01 if logs.flush() else 1
        self._loop.call_at(self._loop.time() + wait, self._retry_log)


def run(own: Settings, errors: list[ConfigError], who: Identity, trunk: int) -> int:
    """Runs the adapter over a connected socket; returns the exit code."""
    _become_daemon()
    logs.setup(own.log)
    settings.report(errors)
    return Daemon(own, who, trunk).run()


def _become_daemon() -> None:
    """Makes sure that the programs we run inherit three descriptors and a directory, and nothing else of ours."""
    os.chdir("/")
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2:  # noqa: PLR2004 - stderr
            with contextlib.suppress(OSError):  # the listing's own
                os.set_inheritable(fd, False)
