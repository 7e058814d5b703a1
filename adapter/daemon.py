"""The adapter as a plugin: puts stub, bridge, configuration and signals together on one loop."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
from collections.abc import Sequence

from adapter import logs, settings
from adapter.errors import AdapterError, ConfigError
from adapter.legacy.bridge import Bridge
from adapter.legacy.request import of_container, of_pod
from adapter.loop import Loop
from adapter.nri import Answer, Context, Identity, Plugin, Stub, api
from adapter.nri.events import mask
from adapter.settings import Settings
from adapter.trunk import Trunk

log = logging.getLogger(__name__)

GRACE = 10.0
"""Seconds that chains under way get at the end."""
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
        self._runtime = ""
        self.bridge = Bridge(loop, own.legacy, own.host_root)

    def configure(self, request: api.ConfigureRequest, context: Context) -> api.ConfigureResponse:
        """Takes the runtime's configuration text, if it sends one, in place of the file's."""
        if request.config.strip():
            self._settings, errors = settings.parse(request.config, "configuration from the runtime")
            logs.setup(self._settings.log)
            report(errors)
            self.bridge = Bridge(self._loop, self._settings.legacy, self._settings.host_root)
        self._runtime = f"{request.runtime_name or 'a nameless runtime'} {request.runtime_version}"
        self.bridge.runtime_is(request.runtime_name, request.runtime_version)
        policy = api.FailurePolicy(keep_connected=True, fail_request=self._settings.fail_request)
        return api.ConfigureResponse(events=mask(LEGACY_EVENTS), failure_policy=policy)

    def synchronize(self, request: api.SynchronizeRequest, context: Context) -> None:
        """Learns what runs already."""
        self.bridge.synchronize(request.pods, request.containers)
        text = f"registered with {self._runtime}: {len(request.pods)} pods, {len(request.containers)} containers"
        self._loop.call_soon(lambda: self._settle(text))  # the runtime waits for the answer

    def _settle(self, text: str) -> None:
        """Says that all is well, and spares the collector what is there to stay."""
        log.info("%s", text)
        gc.collect()
        gc.freeze()

    def run_pod_sandbox(self, request: api.RunPodSandboxRequest, context: Context) -> Answer[api.RunPodSandboxResponse]:
        """Legacy `create` for the pod."""
        return self.bridge.create(of_pod(request.pod), context)

    def start_container(
        self, request: api.StartContainerRequest, context: Context
    ) -> Answer[api.StartContainerResponse]:
        """Legacy `create` for the container."""
        return self.bridge.create(of_container(request.container, request.pod), context)

    def stop_container(self, request: api.StopContainerRequest, context: Context) -> Answer[api.StopContainerResponse]:
        """Legacy `delete` for the container."""
        return self.bridge.delete(of_container(request.container, request.pod), context)

    def stop_pod_sandbox(
        self, request: api.StopPodSandboxRequest, context: Context
    ) -> Answer[api.StopPodSandboxResponse]:
        """Legacy `delete` for the pod."""
        return self.bridge.delete(of_pod(request.pod), context)

    def remove_container(
        self, request: api.RemoveContainerRequest, context: Context
    ) -> Answer[api.RemoveContainerResponse]:
        """Legacy `delete` for a container whose stop never came."""
        return self.bridge.delete(of_container(request.container, request.pod), context)

    def remove_pod_sandbox(
        self, request: api.RemovePodSandboxRequest, context: Context
    ) -> Answer[api.RemovePodSandboxResponse]:
        """Legacy `delete` for a pod whose stop never came."""
        return self.bridge.delete(of_pod(request.pod), context)


class Daemon:
    """One session with a runtime, from the connected socket to the exit code."""

    def __init__(self, own: Settings, who: Identity, trunk: int) -> None:
        """Takes the settings, who to register as, and the descriptor of the connected socket."""
        self.exit_code = 0
        self._loop = Loop()
        self._trunk = Trunk(self._loop, trunk)
        self._trunk.on_data = self._receive
        self._trunk.on_close = self._closed
        self._adapter = Adapter(self._loop, own)
        self._stub = Stub(self._adapter, who.name, who.idx, self._trunk.write)

    def run(self) -> int:
        """Serves until the runtime closes the connection or a signal ends it; returns the exit code."""
        self._watch_signals()
        self._retry_syslog()
        self._stub.register()
        self._loop.run()
        return self.exit_code

    def _receive(self, data: bytes) -> None:
        try:
            self._stub.receive_data(data)
        except AdapterError as error:
            log.error("%s", error)
            self._give_up()
        except Exception:
            log.exception("a bug: the session with the runtime cannot go on")
            self._give_up()

    def _give_up(self) -> None:
        self._trunk.close()
        self._finish(1)

    def _closed(self) -> None:
        log.info("the runtime has closed the connection")
        self._finish(0 if self._stub.registered else 1)

    def _finish(self, exit_code: int) -> None:
        """Ends the daemon once the chains under way have ended, or their grace has."""
        self.exit_code = exit_code
        self._loop.call_at(self._loop.time() + GRACE, self._out_of_grace)
        self._adapter.bridge.when_idle(self._loop.stop)

    def _out_of_grace(self) -> None:
        log.error("chains of legacy plugins were still under way after %g s", GRACE)
        self._loop.stop()

    def _watch_signals(self) -> None:
        self._wakeup, awake = os.pipe()
        for end in (self._wakeup, awake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(awake, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self._loop.watch(self._wakeup, self._signalled)

    def _signalled(self) -> None:
        number = os.read(self._wakeup, 64)[-1]
        log.info("ending on %s", signal.Signals(number).name)
        self._finish(0)

    def _retry_syslog(self) -> None:
        """Once a second, offers syslog the lines that it did not take."""
        logs.flush()
        self._loop.call_at(self._loop.time() + 1, self._retry_syslog)


def run(own: Settings, errors: list[ConfigError], who: Identity, trunk: int) -> int:
    """Runs the adapter over a connected socket; returns the exit code."""
    _become_daemon()
    logs.setup(own.log)
    report(errors)
    return Daemon(own, who, trunk).run()


def report(errors: Sequence[ConfigError]) -> None:
    """Logs what is wrong with a configuration of which the rest is used."""
    for error in errors:
        log.error("%s (ignored)", error)


def _become_daemon() -> None:
    """Makes sure that the programs we run inherit three descriptors and a directory, and nothing else of ours."""
    os.chdir("/")
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2:  # noqa: PLR2004 - stderr
            with contextlib.suppress(OSError):  # the listing's own
                os.set_inheritable(fd, False)
