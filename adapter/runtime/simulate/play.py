"""The simulation itself: brings plugins into service and relays events to them, one scene at a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapter import oci
from adapter.errors import AdapterError, ConfigError
from adapter.nri import api, events
from adapter.runtime.flavour import Flavour
from adapter.runtime.launch import PluginFile
from adapter.runtime.outcome import Outcome
from adapter.runtime.runtime import Runtime
from adapter.runtime.simulate.script import Script, with_progress

PATIENCE = 60.0
"""Seconds to wait for somebody to start an external plugin."""
PAUSE = 0.01
"""Seconds between events, for what plugins ask for by themselves."""
STILL_COME = {
    "RunPodSandbox": ("StopPodSandbox", "RemovePodSandbox"),
    "CreateContainer": ("StopContainer", "RemoveContainer"),
    "StartContainer": ("StopContainer", "RemoveContainer"),
}
"""What runtimes still have to tell of a pod or container after one of these failed."""
TOLERATED = {("cri-o", "StartContainer")}
"""Events whose errors a runtime logs, unlike containerd: CRI-O 1.34.0 starts the container all the same."""
STDERR = 2
"""What plugins write there is for whoever looks on; a runtime gives them /dev/null."""

Spec = dict[str, Any]


@dataclass
class Told:
    """What one plugin did about one event."""

    name: str
    seconds: float
    error: str = ""


@dataclass
class Scene:
    """What became of one event. `before` and `spec` are a container's OCI specification, if it was created."""

    event: str
    seconds: float
    plugins: list[Told]
    error: str = ""
    adjust: api.ContainerAdjustment | None = None
    update: list[api.ContainerUpdate] = field(default_factory=list)
    before: Spec | None = None
    spec: Spec | None = None

    def problems(self) -> list[str]:
        """Returns why it failed, and what went wrong at plugins without failing it."""
        at_plugins = [f"{told.name}: {told.error}" for told in self.plugins if told.error not in ("", self.error)]
        return ([self.error] if self.error else []) + at_plugins


class Play:
    """One performance: plugins to be launched, a socket for others, and a script."""

    def __init__(self, script: Script, flavour: Flavour, plugins: Iterable[PluginFile], socket: Path | None) -> None:
        """Takes what is played, as which runtime, and to whom."""
        self._script = script
        self._files = sorted(plugins, key=lambda file: (file.idx, file.base))
        self._socket = socket
        self._asked: list[Scene] = []
        self._over: dict[str, Sequence[str]] = {}
        self._created: dict[str, api.Container] = {}
        self.runtime = Runtime(socket_path=socket, flavour=flavour, stderr=STDERR, on_update=self._on_update)
        self.runtime.pods, self.runtime.containers = list(script.pods), list(script.containers)

    def scenes(self) -> Iterator[Scene]:
        """Plays; yields what became of each event, and of the plugins' start as that of Synchronize.

        Raises ConfigError for a socket that cannot be.
        """
        try:
            self._listen()
            yield self._start()
            for event, request in self._script.events if self.runtime.plugins else ():
                if self._comes(event, request):
                    yield self._play(event, request)
                    self.runtime.serve(lambda: False, PAUSE)
                    yield from self._asked
                    self._asked.clear()
        finally:
            self.runtime.stop()

    def dropped(self) -> list[tuple[str, str]]:
        """Returns which plugins did not stay to the end, and why."""
        return [
            (plugin.name, plugin.closed) for plugin in self.runtime.connected if plugin.closed != "the runtime stopped"
        ]

    def _listen(self) -> None:
        if self._socket is not None and self._socket.exists():  # it may be a real runtime's
            raise ConfigError(str(self._socket), "is there already")
        try:
            self.runtime.start()
        except OSError as error:
            raise ConfigError(str(self._socket), error.strerror or str(error)) from None

    def _start(self) -> Scene:
        started = time.monotonic()
        told = [self._launched(file) for file in self._files]
        if self._socket is not None:
            told.append(self._accepted(self._socket))
        updates = [update for _, update in self.runtime.updates]
        return Scene("Synchronize", time.monotonic() - started, told, update=updates)

    def _launched(self, file: PluginFile) -> Told:
        started = time.monotonic()
        error = ""
        try:
            self.runtime.launch(file)
        except (AdapterError, OSError) as why:
            error = getattr(why, "strerror", None) or str(why)
        return Told(f"{file.idx}-{file.base}", time.monotonic() - started, error)

    def _accepted(self, socket: Path) -> Told:
        """Waits for one external plugin; others may come later."""
        print(f"waiting for a plugin to connect to {socket}", file=sys.stderr, flush=True)
        started = time.monotonic()
        known = len(self.runtime.connected)
        error = ""
        try:
            self.runtime.accept(PATIENCE)
        except AdapterError as why:
            error = str(why)
        name = "".join(plugin.name for plugin in self.runtime.connected[known:])
        return Told(name or "?", time.monotonic() - started, error)

    def _comes(self, event: str, request: Any) -> bool:
        """Returns whether a runtime would tell this: it knows the event, and what it is about was not given up."""
        if not self.runtime.flavour.valid_events >> (events.CALLS[event].event - 1) & 1:
            return False
        ids = (request.pod.id, getattr(request, "container", api.Container()).id)
        return all(event in self._over.get(id_, (event,)) for id_ in ids)

    def _play(self, event: str, request: Any) -> Scene:
        id_ = request.container.id if "Container" in event else request.pod.id
        if id_ in self._created:
            request.container.CopyFrom(with_progress(self._created[id_], request.container))
        started = time.monotonic()
        outcome = self.runtime.event(event, request)
        seconds = time.monotonic() - started
        if outcome.failed and event in STILL_COME and (self.runtime.flavour.name, event) not in TOLERATED:
            self._over[id_] = STILL_COME[event]
        told = [Told(answer.plugin, answer.seconds, answer.error) for answer in outcome.answers]
        scene = Scene(event, seconds, told, outcome.error, outcome.adjust, outcome.update)
        if isinstance(request, api.CreateContainerRequest) and not outcome.error:
            self._create(request, outcome, scene)
        return scene

    def _create(self, request: api.CreateContainerRequest, outcome: Outcome, scene: Scene) -> None:
        """Makes the container's specification, and if there is no better source, what later events tell of it."""
        id_ = request.container.id
        scene.before = self._script.specs.get(id_) or oci.spec_from(request.pod, request.container)
        scene.spec = oci.apply(scene.before, outcome.adjust or api.ContainerAdjustment())
        if self._script.made_up and isinstance(outcome.request, api.CreateContainerRequest):
            self._created[id_] = outcome.request.container

    def _on_update(self, plugin: str, updates: list[api.ContainerUpdate]) -> Iterable[api.ContainerUpdate]:
        """Takes what a plugin asks for by itself; nothing of it fails."""
        self._asked.append(Scene("UpdateContainers", 0, [Told(plugin, 0)], update=updates))
        return ()
