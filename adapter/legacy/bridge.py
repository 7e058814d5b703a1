"""Events of pods and containers become jobs: which plugins run, who is owed a delete, and what waits for what."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from adapter.errors import ConfigError
from adapter.legacy import cgroup, request
from adapter.legacy.chain import CREATE, DELETE, Chain, Policy, Step
from adapter.legacy.config import Config, ConfigFile, Entry
from adapter.legacy.job import Job, Means
from adapter.legacy.ledger import Ledger
from adapter.legacy.request import Subject
from adapter.legacy.runner import Runner
from adapter.loop import Loop
from adapter.nri import Context, Deferred, api
from adapter.settings import DEFAULT_CONF_JSON, LegacySettings

log = logging.getLogger(__name__)

MARGIN = 0.1
"""Seconds before a call's deadline at which its answer goes out at the latest."""


class Bridge:
    """The legacy plugins of this node. `pod` and `container` make what its methods take of NRI's messages."""

    pod = staticmethod(request.of_pod)
    container = staticmethod(request.of_container)

    def __init__(self, loop: Loop, settings: LegacySettings, host_root: str = "/") -> None:
        """Takes the loop that everything runs on, what is configured, and where the node's files are."""
        self.ledger = Ledger()
        self.runner = Runner(loop, settings.path, settings.environment)
        self._loop = loop
        self._settings = settings
        self._conf_json = ConfigFile(settings.config)
        self._runtimes_own = os.path.join(host_root, DEFAULT_CONF_JSON.lstrip("/"))
        self._runtime_runs_sandboxes = False
        self._means = Means(self.runner, self.ledger, settings.late_limit, self._ended)
        self._policies: dict[str, Policy] = {}
        self._jobs: list[Job] = []
        self._idle: Callable[[], None] | None = None

    def runtime_is(self, name: str, version: str) -> None:
        """Learns which runtime this is: containerd from 2.0 on runs the plugins of its conf.json for sandboxes itself.

        Measured with 2.0.14 to 2.4.2; 1.7 does not, and no other runtime ever did.
        """
        major = re.match(r"v?(\d+)\.", version)
        self._runtime_runs_sandboxes = name == "containerd" and (major is None or int(major[1]) > 1)
        if self._leaves_sandboxes():
            text = f"sandboxes are left to {name} {version}, which runs the plugins in {self._settings.config} for them"
            self._loop.call_soon(lambda: log.info("%s", text))  # the runtime waits for the answer

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
        if subject.is_sandbox and self._leaves_sandboxes():
            return None
        config = self._config_for_create()
        if not config.entries:
            return None
        if not subject.pid and subject.cgroups_path:
            subject.pid = cgroup.find_pid(subject.cgroups_path)
        return self._submit(Job(self._means, context.method, subject, self._chain(CREATE, config.entries)), context)

    def delete(self, subject: Subject, context: Context) -> Deferred[Any] | None:
        """Runs the plugins that had a create for a pod or container that has ended; None if none is owed."""
        jobs = [job for job in self._jobs if job.subject.id == subject.id]
        if any(job.chain.state == DELETE for job in jobs) or (not jobs and subject.id not in self.ledger):
            return None
        return self._submit(Job(self._means, context.method, subject, self._chain(DELETE, ())), context)

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
        policy = self._policies.get(type_)
        if policy is None:
            policy = self._policies[type_] = self._configured_policy(type_)
        return policy

    def _configured_policy(self, type_: str) -> Policy:
        general, own = self._settings, self._settings.plugins.get(type_)
        policy = Policy(general.fail_create, general.fail_delete, general.timeout, general.kill_on_timeout)
        if own is None:
            return policy
        given = {name: value for name, value in own._asdict().items() if value is not None}
        return policy._replace(**given)

    def _submit(self, job: Job, context: Context) -> Deferred[Any]:
        job.after = {earlier for earlier in self._jobs if job.must_follow(earlier)}
        self._jobs.append(job)
        if not job.after:
            self._start(job)
        job.answer_by(context.deadline - min(MARGIN, max(context.remaining(), 0) / 2))
        return job.answer

    def _start(self, job: Job) -> None:
        """Starts a job; only now is it known who is owed a delete."""
        record = self.ledger.take(job.subject.id) if job.chain.state == DELETE else None
        if record is not None:
            job.subject.remember(record.subject)
            job.chain = self._chain(DELETE, record.entries)
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
