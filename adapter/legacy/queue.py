"""Which job waits for which: the events of a container and of its pod reach plugins in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adapter.legacy.job import PluginJob
from adapter.legacy.plan import CREATE, DELETE
from adapter.legacy.request import Target


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

    def __init__(self) -> None:
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
        self._jobs.append(job)
        if not job.after:
            job.go()

    def hold(self, target: Target) -> Hold:
        """Keeps the events of a pod or container waiting until `remove` and `start_after`."""
        hold = Hold(target)
        self._jobs.append(hold)
        return hold

    def remove(self, ended: PluginJob | Hold) -> None:
        """Notes that a job has ended; `start_after` must follow."""
        self._jobs.remove(ended)

    def start_after(self, ended: PluginJob | Hold) -> None:
        """Starts what has waited for a job, or for the end of a hold."""
        for job in self.waiting():
            if ended in job.after:
                job.after.remove(ended)
                if not job.after:
                    job.go()
        self._tell_if_idle()

    def when_idle(self, callback: Callable[[], object]) -> None:
        """Calls back, at once or later, when no job is left."""
        self._on_idle = callback
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
