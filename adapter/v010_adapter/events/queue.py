"""Which work waits for which: the events of a container and of its pod reach plugins in their order.

A work has the lock of its id from its turn until it is over, so no other adapter works on the same pod or container.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from v010_adapter.base.loop import Loop
from v010_adapter.events.fates import REPEAT
from v010_adapter.events.life import BLOCKED, QUEUED, Input
from v010_adapter.events.plugin_work import PluginWork
from v010_adapter.events.turns import Turns
from v010_adapter.legacy.plan import CREATE, DELETE

FIRST_LOOK, LONGEST_PAUSE = 0.001, 0.05
"""Seconds between two looks whether another adapter still works on an id: each wait is twice the one before."""


class Queue:
    """The works that are not over, in the order of their events."""

    def __init__(self, loop: Loop, turns: Turns, on_over: Callable[[PluginWork], object]) -> None:
        """`on_over` is told of each work that is over, before the next works begin."""
        self._loop = loop
        self._turns = turns
        self._on_over = on_over
        self.works: list[PluginWork] = []
        """Those that are not over."""
        self._on_idle: Callable[[], object] | None = None

    def of(self, id_: str) -> list[PluginWork]:
        """Returns the works of a pod or container that are not over."""
        return [work for work in self.works if work.target.id == id_]

    def ids(self) -> set[str]:
        """Returns the ids of the pods and containers whose works are not over."""
        return {work.target.id for work in self.works}

    def give_up(self) -> None:
        """The process ends: see `PluginWork.give_up`."""
        for work in self.works:
            work.give_up()

    def on_runtime_gone(self) -> None:
        """Drops the creates that wait, and ends holds; deletes come all the same."""
        for work in self.works[:]:
            work.on_runtime_gone()

    def on_stopped(self, id_: str, why: str) -> None:
        """The container with this id, or the pod, is stopped: refuses what is held, and lets nothing more be held."""
        for work in self.works[:]:
            if id_ in (work.target.id, work.pod):
                work.on_stopped(why)

    # The turn

    def submit(self, work: PluginWork) -> None:
        """Starts a work, at once or when the works that it must follow are over."""
        if self.works:
            work.after = {earlier for earlier in self.works if must_follow(work, earlier)}
        self.works.append(work)
        work.on_over = self._remove
        if not work.after:
            self._start(work)
        elif work.turn is not None and self._turns.is_answered(work.turn):
            work.drop(Input.ANSWERED_ELSEWHERE)

    def _start(self, work: PluginWork, pause: float = FIRST_LOOK) -> None:
        """Starts a work whose earlier works are over, as soon as no other adapter works on its id."""
        turn = work.turn
        fate = self._turns.take(turn) if turn is not None else self._turns.take_id(work.pod, work.target.id)
        if fate is not None:
            is_ended = fate is REPEAT and any(later.kind == DELETE for later in self.of(work.target.id))
            work.take_turn(fate, is_ended=is_ended)
            return
        work.on_locked()
        # An end that was answered too late is still to learn that before the note is one of the next event.
        if turn is not None and self._turns.is_answered(turn) and not work.life.is_answered:
            work.drop(Input.ANSWERED_ELSEWHERE)
        again = partial(self._start_again, work, min(2 * pause, LONGEST_PAUSE))
        self._loop.call_at(self._loop.time() + pause, again)

    def _start_again(self, work: PluginWork, pause: float) -> None:
        if work.life.state is BLOCKED:  # else its time was up, and it has ended
            self._start(work, pause)

    def _remove(self, ended: PluginWork) -> None:
        """A work is over: frees its id, and starts what has waited for it."""
        self.works.remove(ended)
        if ended.has_lock:
            self._turns.unlock(ended.pod, ended.target.id)
        try:
            self._on_over(ended)
        finally:
            for work in self.works[:]:
                if ended in work.after:
                    work.after.remove(ended)
                    if not work.after and work.life.state is QUEUED:
                        self._start(work)
            if self._on_idle is not None:
                self._call_if_idle()

    # The end

    def when_idle(self, callback: Callable[[], object]) -> None:
        """Calls back, at once or later, when no work is left."""
        self._on_idle = callback
        self._call_if_idle()

    def _call_if_idle(self) -> None:
        if self._on_idle is not None and not self.works:
            callback, self._on_idle = self._on_idle, None
            callback()


def must_follow(work: PluginWork, earlier: PluginWork) -> bool:
    """Whether an earlier work that is not over comes before this one.

    The events of one id follow each other. A container's events follow its pod's create, and a pod's delete follows its
    containers' events.
    """
    mine, other = work.target, earlier.target
    if mine.id == other.id:
        return True
    if other.is_sandbox and earlier.kind == CREATE:
        return mine.sandbox_id == other.id
    return mine.is_sandbox and work.kind == DELETE and other.sandbox_id == mine.id
