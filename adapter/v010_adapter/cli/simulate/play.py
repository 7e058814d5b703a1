"""Plays events to plugins: launches or accepts the plugins, relays the events, applies the answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nri import api, events
from nri.errors import NRIError
from nri.testing import load
from nri.testing.contract.starts import GRACE
from nri.testing.flavour import Flavour
from nri.testing.launch import PluginFile, kill_group
from nri.testing.load import Load
from nri.testing.plugin import Answer, Plugin
from nri.testing.runtime import Outcome, Runtime
from v010_adapter.cli.simulate.script import Script, with_progress
from v010_adapter.cli.simulate.trial import Scratch
from v010_adapter.cli.terminal import announce_if_slow, show
from v010_adapter.errors import ConfigError, reason_of
from v010_adapter.oci.spec import apply, spec_from

CONNECT_TIMEOUT = 60.0
"""Seconds to wait for an external plugin: a person has to start it."""
END = 1.0
"""Seconds for a plugin to end after the play."""
PAUSE = 0.01
"""Seconds between two events, to receive unsolicited updates."""
STDERR = 2
"""The descriptor on which plugins print. A real runtime gives them /dev/null, but here people want to read that."""


@dataclass
class Scene:
    """One event with its outcome.

    For the creation of a container, `before` and `after` are the OCI specification, and `unknown` is what the file of
    the container does not contain.
    """

    outcome: Outcome
    seconds: float
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    unknown: Sequence[str] = ()

    def problems(self) -> list[str]:
        """Returns why the event has failed, and the errors of plugins that have not failed it."""
        error = self.outcome.error
        tolerated = [f"{one.plugin}: {one.error}" for one in self.outcome.answers if one.error not in ("", error)]
        return [error, *tolerated] if error else tolerated


class Play:
    """Plays a script once."""

    def __init__(
        self, script: Script, flavour: Flavour, plugins: Iterable[PluginFile], socket: Path | None, output: int = STDERR
    ) -> None:
        """Takes the plugins to launch, the socket for one more plugin, and the descriptor on which plugins print."""
        self.problems: list[str] = []
        """The problems so far, complete when all scenes have been played."""
        self._script = script
        self._files = sorted(plugins, key=lambda file: (file.idx, file.base))
        self._socket = socket
        self._remaining: dict[str, Sequence[str]] = {}
        self._created: dict[str, api.Container] = {}
        self._state = Scratch("nri-")
        self._runtime = Runtime(flavour, output=output, state=self._state.name)
        self._runtime.pods, self._runtime.containers = list(script.pods), list(script.containers)

    def scenes(self) -> Generator[Scene, None, None]:
        """Yields a scene for each event, first Synchronize. Raises ConfigError for a socket that cannot be used."""
        failed_plugins: set[str] = set()
        with self._ending():
            for scene in self._scenes():
                self.problems += [f"{scene.outcome.event}: {problem}" for problem in scene.problems()]
                failed_plugins.update(answer.plugin for answer in scene.outcome.answers if answer.error)
                yield scene
            for plugin in self._runtime.connected:
                if plugin.closed and plugin.name not in failed_plugins:
                    self.problems.append(f"plugin {plugin.name} is gone: {plugin.closed}")

    def load(self, **options: Any) -> Load:
        """Plays many pods with the container of the script; `options` are those of `nri.testing.load.play`."""
        with self._ending():
            self.problems += self._start().problems()
            life = {call.event: call.request for call in self._script.events}
            return load.play(self._runtime, life=life, **options)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Ends the plugins and the runtime after the block."""
        try:
            yield
            self._runtime.end_plugins(END)  # a plugin that joins again would print that the runtime is gone
        except BaseException:  # Ctrl-C, or the caller stops: plugins' programs may still write files
            with announce_if_slow(f"waiting {GRACE:g} s at most for the plugins to end"):
                self._runtime.end_plugins(GRACE)
            raise
        finally:
            self._runtime.stop()
            for plugin in self._runtime.connected:
                if plugin.process is not None:
                    kill_group(plugin.process.pid)
            self._state.cleanup()

    def _scenes(self) -> Iterator[Scene]:
        yield self._start()
        for event, request in self._script.events if self._runtime.plugins else ():
            if self._is_sent(event, request):
                yield self._play(event, request)
                self._runtime.serve(lambda: False, PAUSE)
                yield from self._unsolicited()

    def _start(self) -> Scene:
        if self._socket is not None:
            try:
                self._runtime.listen(self._socket)
            except OSError as error:
                raise ConfigError(str(self._socket), reason_of(error)) from None
        started = time.monotonic()
        with announce_if_slow("starting the plugins"):
            answers = [self._joined(file.name, partial(self._runtime.launch, file)) for file in self._files]
        if self._socket is not None:
            show(f"waiting for a plugin to connect to {self._socket}", out=sys.stderr)
            answers.append(self._joined("?", partial(self._runtime.accept, CONNECT_TIMEOUT)))
        updates = [update for scene in self._unsolicited() for update in scene.outcome.update]
        return Scene(Outcome("Synchronize", answers, update=updates), time.monotonic() - started)

    def _unsolicited(self) -> list[Scene]:
        """Returns a scene for each unsolicited UpdateContainers since the previous call."""
        calls = self._runtime.updates.copy()
        self._runtime.updates.clear()
        return [Scene(Outcome("UpdateContainers", [Answer(plugin)], update=updates), 0) for plugin, updates in calls]

    def _joined(self, name: str, join: Callable[[], Plugin]) -> Answer:
        started = time.monotonic()
        error = ""
        known = len(self._runtime.connected)
        try:
            join()
        except (NRIError, OSError) as reason:
            error = reason_of(reason)
        for plugin in self._runtime.connected[known:]:
            name = plugin.name or name
        return Answer(name, error=error, seconds=time.monotonic() - started)

    def _is_sent(self, event: str, request: Any) -> bool:
        """Whether the runtime knows the event, and still sends it after earlier failures of its pod or container."""
        if not self._runtime.flavour.valid_events & events.mask([event]):
            return False
        ids = (request.pod.id, getattr(request, "container", api.Container()).id)
        return all(event in self._remaining.get(id_, (event,)) for id_ in ids)

    def _play(self, event: str, request: Any) -> Scene:
        id_ = request.container.id if "Container" in event else request.pod.id
        if id_ in self._created:
            request.container.CopyFrom(with_progress(self._created[id_], request.container))
        started = time.monotonic()
        with announce_if_slow(f"waiting for the plugins' answers to {event}"):
            outcome = self._runtime.event(event, request)
        scene = Scene(outcome, time.monotonic() - started)
        after = self._runtime.flavour.after_failure(event)
        if outcome.error and after is not None:
            self._remaining[id_] = after
        if event == "CreateContainer":
            scene.unknown = self._script.unknown
        if outcome.adjusted is not None:
            scene.before = self._script.specs.get(id_) or spec_from(request.container)
            scene.after = apply(scene.before, outcome.adjusted, collected=True)
            if self._script.made_up and isinstance(outcome.requested, api.CreateContainerRequest):
                self._created[id_] = outcome.requested.container
        return scene
