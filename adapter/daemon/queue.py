"""Which job waits for which: the events of a container and of its pod reach plugins in their order."""

from __future__ import annotations

import logging
from collections.abc import Callable

from adapter.daemon.plugin_job import PluginJob
from adapter.legacy.subscriptions import CREATE, DELETE

log = logging.getLogger(__name__)


class Queue:
    """The jobs that have not ended, in the order of their events."""

    def __init__(self, prepare: Callable[[PluginJob], None], ended: Callable[[PluginJob], None]) -> None:
        """`prepare` is called with a job before it starts, `ended` with a job that has ended."""
        self._prepare = prepare
        self._on_end = ended
        self._jobs: list[PluginJob] = []
        self._idle: Callable[[], None] | None = None

    def of(self, id_: str) -> list[PluginJob]:
        """Returns the jobs of a pod or container that have not ended."""
        return [job for job in self._jobs if job.target.id == id_]

    def waiting(self) -> list[PluginJob]:
        """Returns the jobs that have not started."""
        return [job for job in self._jobs if job.after]

    def submit(self, job: PluginJob) -> None:
        """Starts a job, at once or when the jobs that it must follow have ended."""
        job.after = {earlier for earlier in self._jobs if must_follow(job, earlier)}
        job.on_end = self._ended
        self._jobs.append(job)
        if not job.after:
            self._start(job)

    def hold(self, job: PluginJob) -> None:
        """Keeps the events of a job's id waiting, until `let_go`."""
        job.after = {job}
        job.on_end = self._ended
        self._jobs.append(job)

    def let_go(self, job: PluginJob) -> None:
        """Starts a job that was held."""
        job.after.clear()
        self._start(job)

    def ids(self) -> set[str]:
        """Returns the ids of the pods and containers whose jobs have not ended."""
        return {job.target.id for job in self._jobs}

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Calls back, at once or later, when no job is left."""
        self._idle = callback
        self._tell_if_idle()

    def _start(self, job: PluginJob) -> None:
        try:
            self._prepare(job)
        except Exception:  # others wait for its end
            log.exception("a bug: %s runs no plugin", job)
            job.drop()
        job.go()

    def _ended(self, job: PluginJob) -> None:
        self._jobs.remove(job)
        try:
            self._on_end(job)
        except Exception:  # likewise
            log.exception("a bug: at the end of %s", job)
        for other in self._jobs[:]:
            if job in other.after:
                other.after.remove(job)
                if not other.after:
                    self._start(other)
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        if self._idle is not None and not self._jobs:
            callback, self._idle = self._idle, None
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
