"""Events of pods and containers on their way through the legacy plugins: who must wait, who is late, who answers.

An event is a job: it waits for the jobs that must come first, runs its chain of plugins, and is answered when the
chain ends or when its time is up, whichever comes first. What is left of a chain then runs on behind the answer.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from adapter.errors import ConfigError, PluginError
from adapter.legacy import cgroup, process, request, result
from adapter.legacy.chain import CREATE, DELETE, Chain, Policy, Step
from adapter.legacy.config import Config, ConfigFile, Entry
from adapter.legacy.ledger import Ledger
from adapter.legacy.request import Subject
from adapter.loop import Loop, Timer
from adapter.nri import Context, Deferred, api
from adapter.settings import DEFAULT_CONF_JSON, LegacySettings

log = logging.getLogger(__name__)

MARGIN = 0.1
"""Seconds before a call's deadline at which its answer goes out at the latest."""
MAX_LEFT = 32
"""Processes of one plugin that may be left running without a result."""


class Job:
    """One event's work. `answer` goes to the runtime; the chain may go on behind it."""

    def __init__(self, event: str, subject: Subject, chain: Chain, answer_by: float) -> None:
        """Takes the event's name, what it is about, the chain of its plugins and the moment it must be answered."""
        self.event = event
        self.subject = subject
        self.chain = chain
        self.answer_by = answer_by
        self.answer: Deferred[Any] = Deferred()
        self.started = False
        self.after: set[Job] = set()
        """The jobs that must end before this one starts."""
        self.process: process.Process | None = None
        self.deadline: Timer | None = None
        self.limit: Timer | None = None

    def must_follow(self, earlier: Job) -> bool:
        """Whether an earlier job that has not ended comes before this one."""
        mine, other = self.subject, earlier.subject
        if mine.id == other.id:
            return True
        if other.is_sandbox and earlier.chain.state == CREATE:
            return mine.sandbox_id == other.id
        return mine.is_sandbox and self.chain.state == DELETE and other.sandbox_id == mine.id

    def __str__(self) -> str:
        """Returns what it is in a log line."""
        return f"{self.chain.state} of {self.subject}"


class Bridge:
    """The legacy plugins of this node."""

    def __init__(self, loop: Loop, settings: LegacySettings, host_root: str = "/") -> None:
        """Takes the loop that everything runs on, what is configured, and where the node's files are."""
        self.counters: Counter[str] = Counter()
        """What has happened so far, by name."""
        self.ledger = Ledger()
        self._loop = loop
        self._settings = settings
        self._conf_json = ConfigFile(settings.config)
        self._runtimes_own = os.path.join(host_root, DEFAULT_CONF_JSON.lstrip("/"))
        self._runtime_runs_sandboxes = False
        self._environment = process.environment(settings.path, settings.environment)
        self._jobs: list[Job] = []
        self._left: defaultdict[str, list[process.Process]] = defaultdict(list)
        self._idle: Callable[[], None] | None = None

    def runtime_is(self, name: str, version: str) -> None:
        """Learns which runtime this is: containerd from 2.0 on runs the plugins of its conf.json for sandboxes itself.

        Measured with 2.0.14 to 2.4.2; 1.7 does not, and no other runtime ever did.
        """
        major = re.match(r"v?(\d+)\.", version)
        self._runtime_runs_sandboxes = name == "containerd" and (major is None or int(major[1]) > 1)
        if self._leaves_sandboxes():
            log.info("%s %s runs the plugins in %s for sandboxes itself", name, version, self._settings.config)

    def synchronize(self, pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]) -> None:
        """Counts what runs already as created: before us, the runtime itself ran these plugins.

        Only running and paused containers and pods that are alive: a pod with a process or with such a container.
        """
        try:
            entries = self._conf_json.current().entries
        except ConfigError:
            return  # it has been logged, and nothing could be run now
        pods_by_id = {pod.id: pod for pod in pods}
        live = [
            container for container in containers if container.state in (api.CONTAINER_RUNNING, api.CONTAINER_PAUSED)
        ]
        with_containers = {container.pod_sandbox_id for container in live}
        subjects = [
            request.of_pod(pod)
            for pod in pods_by_id.values()
            if (pod.pid or pod.id in with_containers) and not self._leaves_sandboxes()
        ]
        for container in live:
            pod = pods_by_id.get(container.pod_sandbox_id, api.PodSandbox(id=container.pod_sandbox_id))
            subjects.append(request.of_container(container, pod))
        for subject in subjects:
            for entry in entries:
                self.ledger.add(subject, entry)

    def create(self, subject: Subject, context: Context) -> Deferred[Any] | None:
        """Runs every plugin for a pod or container that is about to start; None when there is nothing to do.

        The answer fails with the PluginError of the plugin that must not fail. Raises ConfigError when conf.json
        cannot be read and a create must not go without its plugins.
        """
        config = self._config_for_create()
        if not config.entries or (subject.is_sandbox and self._leaves_sandboxes()):
            return None
        if not subject.pid and subject.cgroups_path:
            subject = subject._replace(pid=cgroup.find_pid(subject.cgroups_path))
        return self._submit(Job(context.method, subject, self._chain(CREATE, config.entries), self._by(context)))

    def delete(self, subject: Subject, context: Context) -> Deferred[Any] | None:
        """Runs the plugins that had a create for a pod or container that has ended; None if none is owed."""
        jobs = [job for job in self._jobs if job.subject.id == subject.id]
        if any(job.chain.state == DELETE for job in jobs) or (not jobs and subject.id not in self.ledger):
            return None
        return self._submit(Job(context.method, subject, self._chain(DELETE, ()), self._by(context)))

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Calls back, perhaps at once, when no chain is under way any more."""
        self._idle = callback
        self._tell_if_idle()

    def _config_for_create(self) -> Config:
        try:
            return self._conf_json.current()
        except ConfigError as error:
            if self._settings.fail_create:
                raise ConfigError(error.place, f"{error.reason} (no plugin can run)") from None
            return Config()

    def _leaves_sandboxes(self) -> bool:
        """Whether sandboxes are not ours: the runtime reads the very same file and runs its plugins for them."""
        if self._settings.sandboxes != "auto":
            return self._settings.sandboxes == "never"
        if not self._runtime_runs_sandboxes:
            return False
        try:
            return os.path.samefile(self._settings.config, self._runtimes_own)
        except OSError:
            return False

    def _chain(self, state: str, entries: Iterable[Entry]) -> Chain:
        return Chain(state, [Step(entry, self._policy(entry.type)) for entry in entries])

    def _policy(self, type_: str) -> Policy:
        general, own = self._settings, self._settings.plugins.get(type_)
        policy = Policy(general.fail_create, general.fail_delete, general.timeout, general.kill_on_timeout)
        if own is None:
            return policy
        given = {name: value for name, value in own._asdict().items() if value is not None}
        return policy._replace(**given)

    def _by(self, context: Context) -> float:
        remaining = context.remaining()
        return context.deadline - min(MARGIN, max(remaining, 0) / 2)

    # A job's life: submitted, perhaps waiting, started, step by step, perhaps late, ended.

    def _submit(self, job: Job) -> Deferred[Any]:
        job.after = {other for other in self._jobs if job.must_follow(other)}
        self._jobs.append(job)
        if not job.after:
            self._start(job)
        if not job.answer.done:
            job.deadline = self._loop.call_at(job.answer_by, lambda: self._time_is_up(job))
        return job.answer

    def _start(self, job: Job) -> None:
        job.started = True
        if job.chain.state == DELETE:
            record = self.ledger.take(job.subject.id)
            if record is not None:
                job.subject = job.subject.remembering(record.subject)
                job.chain = self._chain(DELETE, record.entries)
        self._run_next(job)

    def _run_next(self, job: Job) -> None:
        while (step := job.chain.current) is not None:
            try:
                self._spawn(job, step)
                return
            except PluginError as error:
                self._failed(job, job.chain.fail(error.reason))
        self._end(job)

    def _spawn(self, job: Job, step: Step) -> None:
        type_, chain = step.entry.type, job.chain
        path = process.find(type_, self._settings.path, self._environment["PATH"])
        body = request.encode(job.subject, chain.state, step.entry, chain.results)
        job.process = running = process.Process(
            self._loop,
            type_,
            path,
            self._environment,
            body,
            on_end=lambda: self._exited(job, running, body),
            on_line=lambda line: log.info("%s: %s", type_, line, extra=_said(type_)),
        )
        self.counters["runs"] += 1
        if chain.state == CREATE:
            self.ledger.add(job.subject, step.entry)
        self._set_limit(job, step)

    def _set_limit(self, job: Job, step: Step) -> None:
        """Sets the moment at which the chain goes on without its current plugin."""
        limits = [step.policy.timeout] if step.policy.timeout else []
        if job.answer.done:
            limits.append(self._settings.late_limit)
        if limits and job.process is not None:
            moment = job.process.started + min(limits)
            job.limit = self._loop.call_at(moment, lambda: self._step_is_late(job, step))

    def _exited(self, job: Job, running: process.Process, body: bytes) -> None:
        if running is not job.process:
            self._left[running.plugin].remove(running)
            log.info("%s: pid %d, left behind, has ended: %s", running.plugin, running.pid, _ending(running))
            return
        self._conclude(job, running, body)
        self._run_next(job)

    def _conclude(self, job: Job, running: process.Process, body: bytes = b"") -> None:
        """Takes what a plugin has printed as its result, or as its failure."""
        self._release(job)
        error: PluginError | None
        parsed = None
        try:
            if running.too_long:
                raise result.ResultError(f"more than {process.MAX_STDOUT} bytes of output")
            parsed = result.parse(running.stdout)
            error = job.chain.succeed(parsed)
        except result.ResultError as reason:
            error = job.chain.fail(f"no result in its output ({reason}), {_ending(running)}: {_quote(running.stdout)}")
        if log.isEnabledFor(logging.DEBUG):
            self._trace(job, running, body, parsed, error)
        if error is not None:
            self._failed(job, error)

    def _failed(self, job: Job, error: PluginError) -> None:
        self.counters["failures"] += 1
        log.error("%s: %s%s", job, error, "" if error is job.chain.error else " (tolerated)")

    def _release(self, job: Job) -> None:
        """Lets go of the job's process and its limit."""
        job.process = None
        if job.limit is not None:
            job.limit.cancel()
            job.limit = None

    def _end(self, job: Job) -> None:
        self._answer(job)
        self._jobs.remove(job)
        if self._jobs:
            for other in self._jobs[:]:
                if job in other.after:
                    other.after.discard(job)
                    if not other.after and not other.started:
                        self._start(other)
        self._tell_if_idle()

    def _answer(self, job: Job) -> None:
        if job.deadline is not None:
            job.deadline.cancel()
            job.deadline = None
        if job.chain.error is not None:
            job.answer.fail(job.chain.error)
        else:
            job.answer.complete()

    def _tell_if_idle(self) -> None:
        if self._idle is not None and not self._jobs:
            callback, self._idle = self._idle, None
            callback()

    # Lateness.

    def _time_is_up(self, job: Job) -> None:
        """The event must be answered now."""
        job.deadline = None
        running, step = job.process, job.chain.current
        if running is not None and result.is_complete(running.stdout):
            self._leave(running, "has printed its result and works on")
            self._conclude(job, running)
            step = job.chain.current
            if step is None:
                self._end(job)
                return
            running = None
        self.counters["late"] += 1
        error = job.chain.overdue(self._lateness(job, running))
        if error is not None:
            self._failed(job, error)
            if running is not None:
                self._release(job)
                self._abandon(running, step)
            self._end(job)
            return
        log.warning("%s: %s; it goes on behind the answer", job, self._lateness(job, running))
        self._answer(job)
        if running is not None and step is not None:
            self._set_limit_late(job, running, step)
        elif job.started:
            self._run_next(job)

    def _lateness(self, job: Job, running: process.Process | None) -> str:
        if running is not None:
            return f"{running.plugin}: no result within {self._loop.time() - running.started:.1f} s"
        if job.started:
            return "no time left"
        return f"waited for {', '.join(map(str, job.after))}"

    def _set_limit_late(self, job: Job, running: process.Process, step: Step) -> None:
        if step.policy.kill_on_timeout:
            running.kill()
        if job.limit is not None:
            job.limit.cancel()
        self._set_limit(job, step)

    def _step_is_late(self, job: Job, step: Step) -> None:
        """The chain goes on without its current plugin."""
        running = job.process
        if running is None:
            return
        job.limit = None
        if result.is_complete(running.stdout):
            self._leave(running, "has printed its result and works on")
            self._conclude(job, running)
        else:
            self.counters["late"] += 1
            self._release(job)
            self._failed(job, job.chain.fail(f"no result within {self._loop.time() - running.started:.1f} s"))
            self._abandon(running, step)
        self._run_next(job)

    def _abandon(self, running: process.Process, step: Step | None) -> None:
        if step is not None and step.policy.kill_on_timeout:
            running.kill()
            self._left[running.plugin].append(running)
        else:
            self._leave(running, "is left to finish")

    def _leave(self, running: process.Process, why: str) -> None:
        """Goes on without a process; with too many of a plugin left, the oldest is killed."""
        log.warning("%s: pid %d %s", running.plugin, running.pid, why)
        left = self._left[running.plugin]
        left.append(running)
        if len(left) > MAX_LEFT:
            oldest = left[0]
            log.error("%s: more than %d processes left: killing pid %d", oldest.plugin, MAX_LEFT, oldest.pid)
            oldest.kill()

    def _trace(
        self,
        job: Job,
        running: process.Process,
        body: bytes,
        parsed: result.Result | None,
        error: PluginError | None,
    ) -> None:
        """Logs one run in full."""
        import json  # noqa: PLC0415 - where somebody looks closely only

        microseconds = int((self._loop.time() - running.started) * 1e6)
        fields = {
            "event": job.event,
            "plugin": running.plugin,
            "state": job.chain.state,
            "id": job.subject.id,
            "request": json.loads(body) if body else None,
            "result": None if parsed is None else parsed._asdict(),
            "stdout": running.stdout.decode("utf-8", "replace"),
            "us": microseconds,
            "error": str(error) if error else None,
        }
        log.debug(
            "%s: %s: %s after %d us: request %s result %s",
            job,
            running.plugin,
            error or "done",
            microseconds,
            body.decode(),
            fields["stdout"],
            extra={"fields": fields},
        )


def _said(plugin: str) -> dict[str, dict[str, str]]:
    return {"fields": {"plugin": plugin, "stream": "stderr"}}


def _ending(running: process.Process) -> str:
    """Returns how a process ended, in the shell's words."""
    status = running.status
    if status is None:
        return "still running"
    return f"exit code {status}" if status >= 0 else f"killed by signal {-status}"


def _quote(output: bytes, most: int = 200) -> str:
    text = output[:most].decode("utf-8", "backslashreplace")
    return f"{text!r}{' …' if len(output) > most else ''}" if output else "<empty>"
