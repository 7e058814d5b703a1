"""Holds containers whose plugins take long: the adapter's side of `nri.holding`, on its loop.

The keeper, a process of its own, holds them. It ends each hold at the limit, and when the adapter has ended: then the
container is refused if a plugin was left that must not fail, else it starts. So the adapter is not needed for the end.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from nri import api
from nri.cgroup import find_pid
from nri.holding import evidence
from nri.holding.evidence import Missing, NotHeld
from nri.holding.holds import Hold, Holds, KeeperProcess, OnFailure
from nri.holding.keeper import HoldEnd
from v010_adapter.base.loop import Loop
from v010_adapter.errors import ConfigError
from v010_adapter.host import private_directory
from v010_adapter.legacy.request import Target
from v010_adapter.monitoring.times import Histogram
from v010_adapter.monitoring.trace import Trace
from v010_adapter.settings import LegacySettings

log = logging.getLogger(__name__)

ANSWER = 0.05, 0.5
"""Seconds that the keeper has for an answer, at least and at most: the runtime waits meanwhile.

It needs a millisecond, on a busy node more.
"""
EARLIER = 0.2
"""Seconds by which the adapter ends a hold before the keeper does: it knows better what its plugins have done."""
END = 1.0
"""Seconds that the loop waits for the end of a hold. Then the keeper is killed, and the next one ends the hold."""
RETRY = 1.0
"""Seconds until the adapter tries again to end a hold that the keeper has not ended."""
OTHER_CASES = Missing.ALREADY_HELD, Missing.TOO_MANY, Missing.NO_PROCESS
"""Reasons of one container, which say nothing of others."""


class Held(NamedTuple):
    """A container that is held."""

    hold: Hold
    what: str
    """The work, for the log."""
    plugin: str
    """The plugin that ran when the hold began."""
    since: float
    """Seconds since the epoch."""
    begun: float
    """The same on the loop's clock."""
    on_end: Callable[[HoldEnd], object]
    """Told of the end if the adapter has not ended the hold itself."""
    trace: Trace
    """The runtime's span of the event, for the log."""
    error: Exception | None = None
    """Why the adapter has refused the container, if it has."""


class WatchedHolds(Holds):
    """Holds whose keeper is watched by the loop."""

    def __init__(self, directory: str, loop: Loop, on_told: Callable[[], object]) -> None:
        super().__init__(directory)
        self._loop, self._on_told = loop, on_told

    def start(self) -> KeeperProcess:
        """Starts a keeper."""
        keeper = super().start()
        self._loop.watch(keeper.socket.fileno(), self._on_told)
        return keeper

    def close(self) -> None:
        """Ends the keeper, once it has ended the holds."""
        self._loop.unwatch(self.fileno())
        super().close()


class Holder:
    """Holds containers for one adapter."""

    def __init__(self, loop: Loop, own: LegacySettings, state_directory: str) -> None:
        """Takes the state directory, in which the records of holds are."""
        self._loop, self._own = loop, own
        self._state_directory = state_directory
        self._holds = WatchedHolds(f"{state_directory}/holds", loop, self._on_told)
        self._held: dict[str, Held] = {}
        self.times: defaultdict[HoldEnd, Histogram] = defaultdict(Histogram)
        """How long containers were held, by how the hold has ended."""
        self.missing: Counter[Missing] = Counter()
        """How often a container was not held, by the reason."""
        self._notes: dict[Missing, str] = {}
        """The reasons that may be those of further containers, each as it was found last."""

    @property
    def limit(self) -> float:
        """Seconds after which the adapter ends a hold."""
        return self._own.hold_limit - EARLIER

    @property
    def is_ready(self) -> bool:
        """Whether the keeper has started."""
        return bool(self._holds.keeper)

    def end_left(self) -> None:
        """Ends the holds that are left of adapters that were killed together with their keepers.

        Call it before the adapter joins, when it holds nothing: a runtime may let nobody join while a start is held.
        """
        try:
            self._holds.close()
            with private_directory.open_directory(self._state_directory, self._own.trust):
                self._holds.end_left()
        except (NotHeld, ConfigError) as error:
            log.error("containers that another adapter has held may wait on: %s", error)

    def can_hold(self, target: Target, trace: Trace) -> bool:
        """Whether a container can be held soon, as far as can be seen. Starts the keeper, without waiting for it."""
        try:
            evidence.waiting(target.id, _pid(target), target.cgroups_path)
            if not self._holds.keeper:
                with private_directory.open_directory(self._state_directory, self._own.trust):
                    self._holds.prepare()
        except NotHeld as error:
            self._miss(error, target, trace)
            return False
        except ConfigError as error:
            self._miss(NotHeld(Missing.NO_RECORD, str(error)), target, trace)
            return False
        return True

    def hold(
        self,
        target: Target,
        what: str,
        plugin: str,
        *,
        due: float,
        must_finish: bool,
        on_end: Callable[[HoldEnd], object],
        trace: Trace,
    ) -> bool:
        """Holds a container; returns whether it is held.

        `due` is when the event is to be answered. `must_finish` is whether the container is refused if this process
        ends.
        """
        linux = api.LinuxContainer(cgroups_path=target.cgroups_path)
        policy: OnFailure = "fail" if must_finish else "ignore"
        try:
            container = api.Container(id=target.id, pid=_pid(target), linux=linux)
            if len(self._held) >= self._own.hold_at_once:
                raise NotHeld(Missing.TOO_MANY, f"legacy.holdAtOnce: {self._own.hold_at_once}")
            wait = min(max(ANSWER[0], due - self._loop.time()), ANSWER[1])
            hold = self._holds.hold(container, target.sandbox_id, self._own.hold_limit, policy, wait)
        except NotHeld as error:
            self._miss(error, target, trace)
            return False
        self._notes.clear()
        self._held[target.id] = Held(hold, what, plugin, time.time(), self._loop.time(), on_end, trace)
        log.info("%s: the container is held: it waits for %s", what, plugin, extra=trace.extra)
        return True

    def _miss(self, error: NotHeld, target: Target, trace: Trace) -> None:
        """Counts that a container is not held, and logs the reason once."""
        if not self.missing[error.missing]:
            text = "%s: %s. Its plugins have as long as the runtime waits (legacy.holdAfter)"
            log.warning(text, target, error, extra=trace.extra)
        self.missing[error.missing] += 1
        if error.missing not in OTHER_CASES:
            self._notes[error.missing] = str(error)

    def end(self, id_: str, error: Exception | None) -> None:
        """Lets a container go, or refuses it for an error. Its hold may have ended before.

        The loop does not wait for a keeper that is starting: the end of the hold is told later.
        """
        if id_ not in self._held:
            return
        self._held[id_] = held = self._held[id_]._replace(on_end=lambda _: None, error=error)
        how = HoldEnd.LET_GO if error is None else HoldEnd.REFUSED
        try:
            end = self._holds.end(held.hold, how, END if self.is_ready else 0)
        except NotHeld as fault:
            text = "%s: its hold does not end, which is tried again: %s"
            log.error(text, held.what, fault, extra=held.trace.extra)
            self._loop.call_at(self._loop.time() + RETRY, lambda: self.end(id_, error))
        else:
            self._take_end(id_, end)

    def _take_end(self, id_: str, end: HoldEnd) -> None:
        held = self._held.pop(id_)
        seconds = self._loop.time() - held.begun
        self.times[end].add(seconds)
        text, level = {
            HoldEnd.LET_GO: ("it starts", logging.INFO),
            HoldEnd.REFUSED: ("it is refused", logging.WARNING),
            HoldEnd.GONE: ("its process has ended", logging.WARNING),
            HoldEnd.STARTED: ("it had started before", logging.ERROR),
        }[end]
        why = f": {held.error}" if held.error is not None else ""
        said = "%s: after it was held for %.1f s, %s%s"
        log.log(level, said, held.what, seconds, text, why, extra=held.trace.extra)

    def _on_told(self) -> None:
        """The keeper has told something, or has ended."""
        with suppress(NotHeld):  # the next keeper starts with the next request
            self._holds.look()
        for id_ in tuple(self._held):
            held = self._held.get(id_)
            if held is not None and (end := held.hold.end) is not None:
                self._take_end(id_, end)
                held.on_end(end)

    def describe(self) -> dict[str, Any]:
        """Returns what is held, for `status`."""
        held = [{"what": held.what, "plugin": held.plugin, "since": held.since} for held in self._held.values()]
        times = {end.name.lower(): times.describe() for end, times in self.times.items()}
        missing = {reason.name.lower(): number for reason, number in self.missing.items()}
        return {"held": held, "times": times, "missing": missing}

    @property
    def notes(self) -> list[str]:
        """Why containers are not held."""
        return list(self._notes.values())


def _pid(target: Target) -> int:
    """Returns the pid of a container that is about to start. Raises NotHeld."""
    pid = target.pid or find_pid(target.cgroups_path)
    if not pid:
        raise NotHeld(Missing.NO_PID, target.cgroups_path)
    return pid
