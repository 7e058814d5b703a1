"""A node for tests of plugins: launches a plugin or runs it in this process, and plays the events of a pod."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, cast

from google.protobuf.message import Message

import nri
from nri import api, events
from nri.errors import NRIError
from nri.testing.contract import External, Launched, Progress, Report, Source, judge
from nri.testing.created import Created
from nri.testing.flavour import FLAVOURS, Flavour
from nri.testing.launch import PluginFile
from nri.testing.load import Load, percentile, play
from nri.testing.plugin import Plugin
from nri.testing.recorded import adapted, recorded
from nri.testing.runtime import Outcome, Runtime

TIMEOUT = 60.0
"""Seconds that a plugin has for each answer by default. A slow machine must not fail a test."""


class Latency(NamedTuple):
    """How long the runtime has waited for the answers of a handler: their number, and percentiles in seconds."""

    answers: int
    p50: float
    p99: float


class Node(Runtime):
    """A runtime for tests. As a context manager, it stops the plugins at the end."""

    def __init__(self, flavour: Flavour | str = "") -> None:
        """Takes the runtime to play: a flavour, or a name of `FLAVOURS` such as `cri-o/1.36.3`.

        By default that is containerd 2.4.2. Plugins have 60 s to answer. What launched plugins print goes to stderr.
        """
        played = flavour if isinstance(flavour, Flavour) else FLAVOURS[flavour or "containerd/2.4.2"]
        self.played = played
        """The runtime that is played, with its own timeouts."""
        self.progress: Progress = lambda number, rule: None
        """Is told of each situation that `contract` plays."""
        self._directory = tempfile.TemporaryDirectory(prefix="nri-")  # its path fits a socket's address
        patient = replace(played, registration_timeout=TIMEOUT, request_timeout=TIMEOUT)
        super().__init__(patient, output=2, state=self._directory.name)
        self._running: list[InProcess] = []
        self._seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.socket = Path(self._directory.name, "nri.sock")
        """The runtime's socket. `accept` takes a plugin that connects there into service."""
        self.listen(self.socket)

    def add(
        self,
        plugin: nri.Plugin | os.PathLike[str] | str,
        *,
        name: str = "",
        idx: str = "",
        config: str = "",
        reconnect: bool = False,
    ) -> Plugin:
        """Takes a plugin into service, and returns it as the runtime sees it.

        A path is launched, with the text `config` as its configuration. This Python runs a path that ends in `.py`. An
        instance runs in a thread of this process by `serve`; with `reconnect` it joins again when `accept` is called.
        `name` and `idx` come from the file name `NN-NAME` by default, else they are the name of the file or class, and
        `10`.

        Raises RegistrationError if the plugin does not register, OSError for a path that cannot be launched, and
        ValueError for an instance with `config`, or a path with `reconnect`.
        """
        if not isinstance(plugin, nri.Plugin):
            if reconnect:
                raise ValueError("reconnect: a plugin that a runtime has launched does not join again")
            return self.launch(self._file(Path(plugin).absolute(), name, idx, config))
        if config:
            raise ValueError("config: runtimes pass it only to plugins that they launch: add the file of the plugin")
        own = nri.identity(name or type(plugin).__name__.lower(), idx or "10", {})
        plugin.hold_directory = plugin.hold_directory or f"{self._directory.name}/{own.idx}-{own.name}/holds"
        self._running.append(InProcess(plugin, own, self.socket, reconnect))
        return self.accept()

    def lose(self) -> None:
        """Closes all connections with plugins, as a runtime does when it ends. Kills launched plugins."""
        for plugin in self.plugins:
            plugin.close("the runtime has closed the connection")

    def event(
        self, method: str, request: Message | None = None, timeout: float | None = None, **fields: Any
    ) -> Outcome:
        """Plays an event, such as `CreateContainer`, and returns its outcome.

        Without a request, the event is that of a recorded pod. Then keywords replace fields of its container, or of its
        pod if the event has no container. `pod` is a dictionary of fields of a container's pod. Keywords that are
        fields of the request itself (`linux_resources`) replace those. A plugin that does not answer in `timeout`
        seconds is dropped, as by a runtime. Raises ValueError for an unknown field.
        """
        outcome = super().event(method, request or recorded(method, **fields), timeout)
        for answer in outcome.answers:
            self._seconds[answer.plugin, events.CALLS[method].handler].append(answer.seconds)
        return outcome

    def created(self, pod: Mapping[str, Any] | None = None, **fields: Any) -> Created:
        """Returns a container that has been created, with a real process that waits for its start.

        Its `start` plays StartContainer, so that a plugin may hold it. As a context manager, it ends with the block.
        `pod` has fields of the pod, keywords are fields of the container.
        """
        request = cast(api.StartContainerRequest, recorded("StartContainer", pod, **fields))
        return Created(request, partial(self.event, "StartContainer"))

    def play(self, pod: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Outcome]:
        """Plays the life of a pod with one container; returns the outcome of each event, by its name.

        `pod` has fields of the pod, keywords are fields of the container. All events are played, even if one fails.
        """
        return {method: self.event(method, request) for method, request in adapted(pod, **fields).items()}

    def load(
        self,
        *plugins: nri.Plugin | os.PathLike[str] | str,
        pods: int = 100,
        repeat: int = 1,
        rate: float = 0,
        seed: int = 0,
        timeout: float | None = None,
        pod: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Load:
        """Adds plugins, plays many pods to all plugins in service as a busy node does, and returns what it came to.

        All pods of a round start at once, or `rate` of them a second; there are `repeat` rounds. Each pod has 0 to 10
        containers, which `seed` decides. A plugin that does not answer in `timeout` seconds, by default those of the
        runtime that is played, is dropped. `pod` has fields of the pods, keywords are fields of the containers.
        """
        for plugin in plugins:
            self.add(plugin)
        life, limit = adapted(pod, **fields), timeout or self.played.request_timeout
        return play(self, pods=pods, repeat=repeat, rate=rate, seed=seed, life=life, timeout=limit)

    def latencies(self, plugin: str = "") -> dict[str, Latency]:
        """Returns how long each handler has taken, by its name: of one plugin `NN-NAME`, or of all plugins."""
        found: dict[str, list[float]] = defaultdict(list)
        for (name, handler), seconds in self._seconds.items():
            if plugin in ("", name):
                found[handler] += seconds
        return {handler: latency(seconds) for handler, seconds in found.items()}

    def contract(
        self, plugin: Callable[[], nri.Plugin] | os.PathLike[str] | str, *, config: str = "", timer: float = 0.0
    ) -> Report:
        """Judges a plugin by the contract between runtimes and plugins, with the timeouts of a real runtime.

        A path is launched again for each situation, as by `add`. Anything else is called for a new instance each time,
        such as the plugin's class. `failures` of the result are the rules that the plugin breaks. What the plugin does
        besides NRI, it does here, at each start. `timer`: see `judge`. Raises TypeError for an instance.
        """
        if isinstance(plugin, nri.Plugin):
            raise TypeError("not an instance: the plugin's class, or a function that makes an instance")
        if isinstance(plugin, str | os.PathLike):
            source: Source = Launched(self._file(Path(plugin).absolute(), "", "", config), 2)
        else:
            own = nri.identity("plugin", "10", {})
            socket = self.socket.with_name("contract.sock")
            source = External(socket, lambda: InProcess(plugin(), own, socket, reconnect=False))
        return judge(source, self.played, timer=timer, progress=self.progress)

    def stop(self) -> None:
        """Ends all plugins."""
        super().stop()
        for running in self._running:
            running.terminate()
        self._directory.cleanup()

    def _file(self, path: Path, name: str, idx: str, config: str) -> PluginFile:
        named = re.fullmatch(r"(\d\d)-(.+)", path.stem if path.suffix == ".py" else path.name)
        base = name or (named[2] if named else path.stem)
        program = path
        if path.suffix == ".py":
            program = Path(self._directory.name, f"{len(self.connected)}-{path.stem}")
            # A first line that names this Python would end at a space of its path.
            program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(path)])} "$@"\n')
            program.chmod(0o755)
        return PluginFile(program, idx or (named[1] if named else "10"), base, config)


class InProcess:
    """A plugin that runs on its own asyncio loop, in a thread of this process."""

    def __init__(self, plugin: nri.Plugin, own: nri.Identity, socket: Path, reconnect: bool) -> None:
        self._loop = asyncio.new_event_loop()
        serving = nri.serve(plugin, own.name, own.idx, str(socket), reconnect=reconnect)
        self._task = self._loop.create_task(serving)
        self._thread = Thread(target=self._run, name=own.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(asyncio.CancelledError, NRIError):  # the runtime reports what it refuses
            self._loop.run_until_complete(self._task)
        self._loop.close()

    def poll(self) -> int | None:
        """Returns None while the plugin runs."""
        return None if self._thread.is_alive() else 0

    def wait(self, timeout: float | None = None) -> None:
        """Waits for the plugin's end."""
        self._thread.join(timeout)

    def terminate(self) -> None:
        """Cancels the plugin, and waits for its end: a thread gets no signals."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(TIMEOUT)

    kill = terminate


def latency(seconds: Sequence[float]) -> Latency:
    """Returns the percentiles of some times. A percentile is one of these times."""
    ordered = sorted(seconds)
    return Latency(len(seconds), percentile(ordered, 50), percentile(ordered, 99))
