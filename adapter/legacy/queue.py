"""Which job waits for which: the events of a container and of its pod reach plugins in their order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from adapter.legacy.job import Observer, PluginJob
from adapter.legacy.request import Target
from adapter.legacy.subscriptions import CREATE, DELETE

log = logging.getLogger(__name__)


class Hold:
    """Keeps the events of a pod or container waiting, as if one of its creates still ran."""

    state = CREATE
    after: Sequence[object] = ()

    def __init__(self, target: Target) -> None:
        self.target = target

    def __str__(self) -> str:
        """Returns the name of the hold in a log line."""
        return f"an earlier adapter's plugins of {self.target}"


class Queue:
    """The jobs that have not ended, in the order of their events."""

    def __init__(self, observer: Observer) -> None:
        """Takes the observer of the start and the end of each job."""
        self._observer = observer
        self._jobs: list[PluginJob | Hold] = []
        self._on_idle: Callable[[], object] | None = None

    def of(self, id_: str) -> list[PluginJob | Hold]:
        """Returns the jobs of a pod or container that have not ended."""
        return [job for job in self._jobs if job.target.id == id_]

    def waiting(self) -> list[PluginJob]:
        """Returns the jobs that have not started."""
        return [job for job in self._jobs if isinstance(job, PluginJob) and job.after]

    def ids(self) -> set[str]:
        """Returns the ids of the pods and containers whose jobs have not ended."""
        return {job.target.id for job in self._jobs}

    def submit(self, job: PluginJob) -> None:
        """Starts a job, at once or when the jobs that it must follow have ended."""
        job.after = {earlier for earlier in self._jobs if must_follow(job, earlier)}
        job.on_end = self._on_job_end
        self._jobs.append(job)
        if not job.after:
            self._start(job)

    def hold(self, target: Target) -> Hold:
        """Keeps the events of a pod or container waiting until `let_go`."""
        hold = Hold(target)
        self._jobs.append(hold)
        return hold

    def let_go(self, hold: Hold) -> None:
        """Starts what has waited."""
        self._jobs.remove(hold)
        self._start_after(hold)

    def when_idle(self, callback: Callable[[], object]) -> None:
        """Calls back, at once or later, when no job is left."""
        self._on_idle = callback
        self._tell_if_idle()

    def _start(self, job: PluginJob) -> None:
        try:
            self._observer.at_turn(job)
        except Exception:  # others wait for its end
            log.exception("a bug: %s runs no plugin", job)
            job.begin(())
        job.go()

    def _on_job_end(self, job: PluginJob) -> None:
        self._jobs.remove(job)
        try:
            self._observer.on_end(job)
        except Exception:  # other jobs wait for this end
            log.exception("a bug: at the end of %s", job)
        self._start_after(job)

    def _start_after(self, ended: PluginJob | Hold) -> None:
        for job in self.waiting():
            if ended in job.after:
                job.after.remove(ended)
                if not job.after:
                    self._start(job)
        self._tell_if_idle()

    def _tell_if_idle(self) -> None:
        if self._on_idle is not None and not self._jobs:
            callback, self._on_idle = self._on_idle, None
            callback()


def must_follow(job: PluginJob, earlier: PluginJob | Hold) -> bool:
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
