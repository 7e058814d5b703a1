"""Events of pods and containers become jobs: which plugins run, who is owed a delete, and what waits for what."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from adapter.errors import ConfigError
from adapter.legacy import cgroup, request
from adapter.legacy.chain import DELETE, Chain, Policy, Step
from adapter.legacy.config import Config, ConfigFile, Entry
from adapter.legacy.job import Job, Means
from adapter.legacy.ledger import Ledger
from adapter.legacy.outcome import Outcome
from adapter.legacy.request import Subject
from adapter.legacy.runner import Runner
from adapter.legacy.turns import ORIGINAL, STATES, Turns
from adapter.legacy.updates import Updates
from adapter.loop import Loop
from adapter.nri import Context, Deferred, api
from adapter.nri.versions import OLDEST, Version
from adapter.settings import DEFAULT_CONF_JSON, LegacySettings

log = logging.getLogger(__name__)


class Bridge:
    """The legacy plugins of this node."""

    def __init__(self, loop: Loop, settings: LegacySettings, host_root: str = "/") -> None:
        """Takes the loop that everything runs on, what is configured, and where the node's files are."""
        self.ledger = Ledger()
        self.runner = Runner(loop, settings.path, settings.environment)
        self._loop = loop
        self._settings = settings
        self._conf_json = ConfigFile(settings.config)
        self._runtimes_own = os.path.join(host_root, DEFAULT_CONF_JSON.lstrip("/"))
        self._runtime_runs_sandboxes = False
        self._nri = OLDEST
        self._means = Means(self.runner, self.ledger, settings.late_limit, self._ended)
        self.updates = Updates(loop)
        self._turns = Turns(settings.plugins)
        self._policies: dict[str, Policy] = {}
        self._jobs: list[Job] = []
        self._idle: Callable[[], None] | None = None

    def runtime_is(self, name: str, version: str, nri: Version = OLDEST) -> None:
        """Learns which runtime this is: containerd from 2.0 on runs the plugins of its conf.json for sandboxes itself.

        Measured with 2.0.14 to 2.4.2; 1.7 does not, and no other runtime ever did.
        """
        self._nri = nri
        major = re.match(r"v?(\d+)\.", version)
        self._runtime_runs_sandboxes = name == "containerd" and (major is None or int(major[1]) > 1)
        if self._leaves_sandboxes():
            text = f"sandboxes are left to {name} {version}, which runs the plugins in {self._settings.config} for them"
            self._loop.call_soon(lambda: log.info("%s", text))  # the runtime waits for the answer

    def synchronize(self, pods: Iterable[api.PodSandbox], containers: Iterable[api.Container]) -> None:
        """Counts what runs already as created: before us, the runtime itself ran these plugins.

        Only running and paused containers and pods that are alive: a pod with a process or with such a container.
        """
        containers = list(containers)
        self.updates.known |= {container.id for container in containers}
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
                if self._turns.owes_delete(entry, is_sandbox=subject.is_sandbox):
                    self.ledger.add(subject, entry)

    def handle(self, message: Any, context: Context) -> Any:
        """Runs the plugins whose turn an event is, given NRI's request; returns the answer, perhaps a Deferred.

        It fails with the PluginError of the plugin that must not fail. Raises ConfigError when conf.json cannot be read
        and a create must not go without its plugins.
        """
        event = context.method
        subject = self._subject(event, message)
        chain = self._deletes(event, subject) if STATES[event] == DELETE else self._creates(event, subject)
        if chain is None:
            return Outcome(event, message, subject, self.updates).reply()
        return self._submit(Job(self._means, event, subject, chain, self._outcome(event, message, subject)), context)

    def _subject(self, event: str, message: Any) -> Subject:
        if event.endswith("PodSandbox"):
            return request.of_pod(message.pod)
        subject = request.of_container(message.container, message.pod)
        if STATES[event] == DELETE:
            self.updates.known.discard(subject.id)
        else:
            self.updates.known.add(subject.id)
        return subject

    def _outcome(self, event: str, message: Any, subject: Subject) -> Outcome:
        if event == "CreateContainer":
            from adapter.legacy.creation import Creation  # noqa: PLC0415 - only where plugins may change something

            return Creation(event, message, subject, self.updates, self._nri, self._settings.metadata_prefix)
        if event == "UpdateContainer":
            from adapter.legacy.change import Change  # noqa: PLC0415 - likewise

            return Change(event, message, subject, self.updates)
        return Outcome(event, message, subject, self.updates)

    def _creates(self, event: str, subject: Subject) -> Chain | None:
        """Returns the chain of an event that is no delete; None when there is nothing to do."""
        if not self._turns.may_be_at(event) or self._is_the_runtimes(event, subject):
            return None
        entries = self._turns.at(event, self._config_for_create().entries)
        if not entries:
            return None
        if not subject.pid and subject.cgroups_path and event != "CreateContainer":
            subject.pid = cgroup.find_pid(subject.cgroups_path)
        return Chain(STATES[event], self._steps(event, subject, entries))

    def _deletes(self, event: str, subject: Subject) -> Chain | None:
        """Returns the chain of a delete, to which those that are owed one are added when it starts."""
        steps = self._steps(event, subject, self._regardless(event, subject))
        jobs = [job for job in self._jobs if job.subject.id == subject.id]
        is_owed = bool(jobs) or subject.id in self.ledger
        if not steps and (not is_owed or any(job.chain.state == DELETE for job in jobs)):
            return None
        return Chain(DELETE, steps)

    def _regardless(self, event: str, subject: Subject) -> list[Entry]:
        """Returns the plugins that have a turn at a delete whether or not they had a create."""
        if not self._turns.are_given or self._is_the_runtimes(event, subject):
            return []
        try:
            entries = self._turns.at(event, self._conf_json.current().entries)
        except ConfigError:
            return []  # it has been logged
        if event not in ORIGINAL:
            return entries
        return [entry for entry in entries if not self._turns.owes_delete(entry, is_sandbox=subject.is_sandbox)]

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

    def _is_the_runtimes(self, event: str, subject: Subject) -> bool:
        return subject.is_sandbox and event in ORIGINAL and self._leaves_sandboxes()

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

    def _steps(self, event: str, subject: Subject, entries: Iterable[Entry]) -> list[Step]:
        return [
            Step(
                entry,
                self._policy(entry.type),
                full=event not in ORIGINAL,
                owes_delete=self._turns.owes_delete(entry, is_sandbox=subject.is_sandbox),
            )
            for entry in entries
        ]

    def _policy(self, type_: str) -> Policy:
        policy = self._policies.get(type_)
        if policy is None:
            policy = self._policies[type_] = self._configured_policy(type_)
        return policy

    def _configured_policy(self, type_: str) -> Policy:
        general, own = self._settings, self._settings.plugins.get(type_)
        policy = Policy(general.fail_create, general.fail_delete, general.timeout, general.kill_on_timeout)
        if own is None:
            return policy
        given = {name: value for name, value in own._asdict().items() if name in Policy._fields and value is not None}
        return policy._replace(**given)

    def _submit(self, job: Job, context: Context) -> Deferred[Any]:
        job.after = {earlier for earlier in self._jobs if job.must_follow(earlier)}
        self._jobs.append(job)
        if not job.after:
            self._start(job)
        job.answer_by(context.due)
        return job.answer

    def _start(self, job: Job) -> None:
        """Starts a job; only now is it known who is owed a delete."""
        record = self.ledger.take(job.subject.id) if job.chain.state == DELETE else None
        if record is not None:
            job.subject.remember(record.subject)
            own = {step.entry.key for step in job.chain.steps}
            owed = [entry for entry in record.entries if entry.key not in own]
            job.chain.begin_with([Step(entry, self._policy(entry.type)) for entry in owed])
        job.run()

    def _ended(self, job: Job) -> None:
        self._jobs.remove(job)
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
