"""Which job waits for which: the events of a container and of its pod reach plugins in their order.

A job has the lock of its id while it runs, so no other adapter works on the same pod or container.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from v010_adapter.base.loop import Loop
from v010_adapter.events.plugin_work import PluginJob
from v010_adapter.events.turns import Turns
from v010_adapter.legacy.plan import CREATE, DELETE

FIRST_LOOK, LONGEST_PAUSE = 0.001, 0.05
"""Seconds between two looks whether another adapter still works on an id: each wait is twice the one before."""


class Queue:
    """The jobs that have not ended, in the order of their events."""

    def __init__(self, loop: Loop, turns: Turns) -> None:
        self._loop = loop
        self._turns = turns
        self._jobs: list[PluginJob] = []
        self._on_idle: Callable[[], object] | None = None

    def of(self, id_: str) -> list[PluginJob]:
        """Returns the jobs of a pod or container that have not ended."""
        return [job for job in self._jobs if job.target.id == id_]

    def waiting(self) -> list[PluginJob]:
        """Returns the jobs that have not started."""
        return [job for job in self._jobs if job.after]

    def running(self) -> list[PluginJob]:
        """Returns the jobs that have started."""
        return [job for job in self._jobs if not job.after]

    def ids(self) -> set[str]:
        """Returns the ids of the pods and containers whose jobs have not ended."""
        return {job.target.id for job in self._jobs}

    def submit(self, job: PluginJob) -> None:
        """Starts a job, at once or when the jobs that it must follow have ended."""
        if self._jobs:
            job.after = {earlier for earlier in self._jobs if must_follow(job, earlier)}
        self._jobs.append(job)
        if not job.after:
            self._start(job)
        elif job.turn is not None and self._turns.is_answered(job.turn):
            job.answer_empty()

    def _start(self, job: PluginJob, pause: float = FIRST_LOOK) -> None:
        """Starts a job whose earlier jobs have ended, as soon as no other adapter works on its id."""
        if self._turns.lock(job.pod, job.target.id):
            job.after.clear()
            job.go()
            return
        job.after = {f"another adapter, which works on {job.target}"}
        if job.turn is not None and not job.chain.is_answered and self._turns.is_answered(job.turn):
            job.answer_empty()
        again = partial(self._start_again, job, min(2 * pause, LONGEST_PAUSE))
        self._loop.call_at(self._loop.time() + pause, again)

    def _start_again(self, job: PluginJob, pause: float) -> None:
        if job in self._jobs:  # else its time was up, and it has ended
            self._start(job, pause)

    def remove(self, ended: PluginJob) -> None:
        """Notes that a job has ended; `start_after` must follow."""
        self._jobs.remove(ended)
        if not ended.after:  # else it never had the lock
            self._turns.unlock(ended.pod, ended.target.id)

    def start_after(self, ended: PluginJob) -> None:
        """Starts what has waited for a job."""
        for job in self.waiting() if self._jobs else ():
            if ended in job.after:
                job.after.remove(ended)
                if not job.after:
                    self._start(job)
        if self._on_idle is not None:
            self._call_if_idle()

    def when_idle(self, callback: Callable[[], object]) -> None:
        """Calls back, at once or later, when no job is left."""
        self._on_idle = callback
        self._call_if_idle()

    def _call_if_idle(self) -> None:
        if self._on_idle is not None and not self._jobs:
            callback, self._on_idle = self._on_idle, None
            callback()


def must_follow(job: PluginJob, earlier: PluginJob) -> bool:
    """Whether an earlier job that has not ended comes before this one.

    The events of one id follow each other. A container's events follow its pod's create, and a pod's delete follows its
    containers' events.
    """
    mine, other = job.target, earlier.target
    if mine.id == other.id:
        return True
    if other.is_sandbox and earlier.state == CREATE:
        return mine.sandbox_id == other.id
    return mine.is_sandbox and job.state == DELETE and other.sandbox_id == mine.id
