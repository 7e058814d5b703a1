"""The adapter as an NRI plugin: which event goes to which bridge."""

from __future__ import annotations

import gc
import logging
from functools import cached_property
from typing import TYPE_CHECKING

from adapter import logs, settings
from adapter.loop import Loop
from adapter.nri import Answer, Context, Plugin, api
from adapter.nri.events import mask
from adapter.settings import Settings

if TYPE_CHECKING:
    from adapter.hooks.directory import Directories
    from adapter.legacy.bridge import Bridge

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


class Adapter(Plugin):
    """What the adapter does about the runtime's events."""

    def __init__(self, loop: Loop, own: Settings) -> None:
        """Takes the loop, and the settings that hold unless the runtime sends some."""
        self._loop = loop
        self._settings = own
        self._runtime = ("", "")

    @cached_property
    def legacy(self) -> Bridge:
        """The legacy bridge, loaded when the runtime does not wait for our registration any more."""
        from adapter.legacy.bridge import Bridge  # noqa: PLC0415

        bridge = Bridge(self._loop, self._settings.legacy, self._settings.host_root)
        bridge.runtime_is(*self._runtime)
        return bridge

    @cached_property
    def hooks(self) -> Directories:
        """The hook directories, loaded likewise."""
        from adapter.hooks.directory import Directories  # noqa: PLC0415

        own = self._settings.hooks
        return Directories(own.directories, self._settings.host_root, own.watch)

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
        events = (*LEGACY_EVENTS, "CreateContainer") if self._hooks_wanted else LEGACY_EVENTS
        return api.ConfigureResponse(events=mask(events), failure_policy=policy)

    def synchronize(self, request: api.SynchronizeRequest, context: Context) -> None:
        """Is told what runs already; what there is to do about it comes behind the answer, before any event."""
        self._loop.call_soon(lambda: self._settle(request))

    def _settle(self, state: api.SynchronizeRequest) -> None:
        self.legacy.synchronize(state.pods, state.containers)
        if self._hooks_wanted:
            self.hooks.current()
        counts = len(state.pods), len(state.containers)
        log.info("registered with %s %s: %d pods, %d containers", *self._runtime, *counts)
        # What is there now is there to stay: the collector need not look at it with every event.
        gc.collect()
        gc.freeze()
        gc.set_threshold(5000)
        gc.enable()

    def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> Answer[api.CreateContainerResponse]:
        """Injects the hooks that match the container."""
        from adapter.hooks import inject  # noqa: PLC0415 - loaded with the directories
        from adapter.hooks.facts import facts  # noqa: PLC0415

        hooks = self.hooks.current().match(facts(request.pod, request.container))
        adjustment = inject.adjustment(hooks)
        if adjustment is None:
            return None
        names = ", ".join(named.file for named in hooks)
        log.info(
            "hooks for container %s of %s/%s: %s",
            request.container.name,
            request.pod.namespace,
            request.pod.name,
            names,
        )
        return api.CreateContainerResponse(adjust=adjustment)

    def run_pod_sandbox(self, request: api.RunPodSandboxRequest, context: Context) -> Answer[api.RunPodSandboxResponse]:
        """Legacy `create` for the pod."""
        return self.legacy.create(self.legacy.pod(request.pod), context)

    def start_container(
        self, request: api.StartContainerRequest, context: Context
    ) -> Answer[api.StartContainerResponse]:
        """Legacy `create` for the container."""
        return self.legacy.create(self.legacy.container(request.container, request.pod), context)

    def stop_container(self, request: api.StopContainerRequest, context: Context) -> Answer[api.StopContainerResponse]:
        """Legacy `delete` for the container."""
        return self.legacy.delete(self.legacy.container(request.container, request.pod), context)

    def stop_pod_sandbox(
        self, request: api.StopPodSandboxRequest, context: Context
    ) -> Answer[api.StopPodSandboxResponse]:
        """Legacy `delete` for the pod."""
        return self.legacy.delete(self.legacy.pod(request.pod), context)

    def remove_container(
        self, request: api.RemoveContainerRequest, context: Context
    ) -> Answer[api.RemoveContainerResponse]:
        """Legacy `delete` for a container whose stop never came."""
        return self.legacy.delete(self.legacy.container(request.container, request.pod), context)

    def remove_pod_sandbox(
        self, request: api.RemovePodSandboxRequest, context: Context
    ) -> Answer[api.RemovePodSandboxResponse]:
        """Legacy `delete` for a pod whose stop never came."""
        return self.legacy.delete(self.legacy.pod(request.pod), context)
