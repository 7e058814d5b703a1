"""The adapter as an NRI plugin: which event goes to which bridge."""

from __future__ import annotations

import gc
import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any

from adapter import logs, settings
from adapter.loop import Loop
from adapter.nri import Answer, Context, Deferred, Plugin, api, versions
from adapter.nri.events import mask
from adapter.settings import Settings

if TYPE_CHECKING:
    from adapter.hooks.directory import Directories
    from adapter.hooks.match import Named
    from adapter.legacy.bridge import Bridge
    from adapter.legacy.updates import Send

log = logging.getLogger(__name__)

LEGACY_EVENTS = (
    "RunPodSandbox",
    "StartContainer",
    "StopContainer",
    "StopPodSandbox",
    # These make up for stop events that never come.
    "RemoveContainer",
    "RemovePodSandbox",
)


PAUSE = 0.2
"""Seconds from the first change of hook files until they are read, if no container needs them earlier."""


class Adapter(Plugin):
    """What the adapter does about the runtime's events."""

    def __init__(self, loop: Loop, own: Settings) -> None:
        """Takes the loop, and the settings that hold unless the runtime sends some."""
        self._loop = loop
        self._settings = own
        self._runtime = ("", "")
        self._nri = versions.OLDEST
        self.update_containers: Send | None = None
        """Asks the runtime for updates of containers; set by whoever has the connection."""

    @cached_property
    def legacy(self) -> Bridge:
        """The legacy bridge, loaded when the runtime does not wait for our registration any more."""
        from adapter.legacy.bridge import Bridge  # noqa: PLC0415

        bridge = Bridge(self._loop, self._settings.legacy, self._settings.host_root)
        bridge.runtime_is(*self._runtime, self._nri)
        if self._nri >= versions.UPDATES_AT_ANY_TIME:
            bridge.updates.send = self.update_containers
        return bridge

    @cached_property
    def hooks(self) -> Directories:
        """The hook directories, loaded likewise."""
        from adapter.hooks.directory import Directories  # noqa: PLC0415

        own = self._settings.hooks
        return Directories(own.directories, self._settings.host_root, own.watch, own.extension_stages)

    @property
    def _hooks_wanted(self) -> bool:
        """Whether hooks are ours to inject: CRI-O does it itself, from the same directories."""
        enabled = self._settings.hooks.enabled
        return self._runtime[0].lower() != "cri-o" if enabled is None else enabled

    def configure(self, request: api.ConfigureRequest, context: Context) -> api.ConfigureResponse:
        """Takes the runtime's configuration text, if it sends one, in place of the file's."""
        if request.config.strip():
            self._settings, errors = settings.parse(request.config, "configuration from the runtime")
            logs.setup(self._settings.log)
            settings.report(errors)
        self._runtime = request.runtime_name, request.runtime_version
        policy = api.FailurePolicy(keep_connected=True, fail_request=self._settings.fail_request)
        self._nri = versions.of(request)
        return api.ConfigureResponse(events=mask(self._events()), failure_policy=policy)

    def _events(self) -> set[str]:
        """Returns the events that what is configured can need."""
        events = {*LEGACY_EVENTS, *(["CreateContainer"] if self._hooks_wanted else [])}
        return events.union(*(own.events or () for own in self._settings.legacy.plugins.values()))

    def synchronize(self, request: api.SynchronizeRequest, context: Context) -> None:
        """Is told what runs already; what there is to do about it comes behind the answer, before any event."""
        self._loop.call_soon(lambda: self._settle(request))

    def _settle(self, state: api.SynchronizeRequest) -> None:
        self.legacy.synchronize(state.pods, state.containers)
        if self._hooks_wanted:
            self._read_hooks()
        counts = len(state.pods), len(state.containers)
        log.info("registered with %s %s: %d pods, %d containers", *self._runtime, *counts)
        # What is there now is there to stay: the collector need not look at it with every event.
        gc.collect()
        gc.freeze()
        gc.set_threshold(5000)
        gc.enable()

    def _read_hooks(self) -> None:
        """Brings the hooks up to date, now and when they change, so that seldom a container has to wait for that.

        Each creation looks for itself all the same.
        """
        self.hooks.current()
        fd = self.hooks.fileno()
        if fd is not None:
            self._loop.watch(fd, lambda: self._hooks_have_changed(fd))

    def _hooks_have_changed(self, fd: int) -> None:
        self._loop.unwatch(fd)  # for a while: who installs many files is not to be followed step by step
        self._loop.call_at(self._loop.time() + PAUSE, self._read_hooks)

    def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> Answer[api.CreateContainerResponse]:
        """Legacy plugins, each seeing the edits before it; then hooks, matched on the container as it came."""
        answer: Answer[api.CreateContainerResponse] = self.legacy.handle(request, context)
        if not self._hooks_wanted:
            return answer
        from adapter.hooks.facts import facts  # noqa: PLC0415 - loaded with the directories

        hooks = self.hooks.current().match(facts(request.pod, request.container))
        if not hooks:
            return answer
        if not isinstance(answer, Deferred):
            return self._inject(request, context, hooks, answer)
        return answer.followed_by(lambda response: self._inject(request, context, hooks, response))

    def _inject(
        self,
        request: api.CreateContainerRequest,
        context: Context,
        hooks: list[Named],
        response: api.CreateContainerResponse | None,
    ) -> Answer[api.CreateContainerResponse]:
        """Adds hooks to the answer, and behind them what precreate hooks make of all that."""
        from adapter.hooks import inject  # noqa: PLC0415 - loaded with the directories

        self._loop.call_soon(lambda: _tell(request, hooks))  # the runtime waits for the answer
        response = response or api.CreateContainerResponse()
        response.adjust.MergeFrom(inject.adjustment(hooks) or api.ContainerAdjustment())
        editors = [named for named in hooks if "precreate" in named.hook.stages]
        if not editors:
            return response
        from adapter.hooks import precreate  # noqa: PLC0415 - only where there are such hooks

        policy = precreate.Policy(self._settings.hooks.fail, self._settings.host_root, self._nri)
        return precreate.run(self._loop, editors, request, response, policy, context.due)

    def _legacy(self, request: Any, context: Context) -> Any:
        """Runs the legacy plugins whose turn the event is."""
        return self.legacy.handle(request, context)

    run_pod_sandbox = update_pod_sandbox = post_update_pod_sandbox = stop_pod_sandbox = remove_pod_sandbox = _legacy
    post_create_container = start_container = post_start_container = _legacy
    update_container = post_update_container = stop_container = remove_container = _legacy


def _tell(request: api.CreateContainerRequest, hooks: list[Named]) -> None:
    container, pod = request.container, request.pod
    names = ", ".join(named.file for named in hooks)
    log.info("hooks for container %s of %s/%s: %s", container.name, pod.namespace, pod.name, names)
