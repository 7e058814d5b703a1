"""The demo itself: launches the adapter, plays the events, and checks that what came of them is what should."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from google.protobuf.message import Message

from adapter.errors import ConfigError
from adapter.nri import api, events
from adapter.runtime.demo import hooks
from adapter.runtime.demo.scene import MOMENTS, Ending, Hooks, Json, Opening, Scene
from adapter.runtime.demo.stage import NAME, NO_QUOTA, PLUGINS, QUOTA, Stage
from adapter.runtime.demo.view import JsonView, TextView, View
from adapter.runtime.flavour import Flavour
from adapter.runtime.outcome import Outcome
from adapter.runtime.recording import POD_LIFE, Recorded, read
from adapter.runtime.runtime import Runtime

LABEL = ("qos.class", "ls")
"""What makes clearcfs do something; the recorded pod has no such label."""
ANNOTATION = ("hooks.example.com/record", "yes")
"""What makes record.json match; the recorded pod has no such annotation either."""
STATES = {"RunPodSandbox": "create", "StartContainer": "create", "StopContainer": "delete", "StopPodSandbox": "delete"}
"""The events that legacy plugins are run for."""
RUN_KEYS = ("event", "plugin", "state", "id", "request", "result", "stdout", "us", "error")
"""What the adapter says of a run besides what every log line has."""


def main(args: Sequence[str]) -> int:
    """Runs the demo; returns 0 if everything went as it should, 1 if not."""
    options = _options(args)
    view: View = JsonView(sys.stdout) if options.output == "json" else TextView(sys.stdout, full=options.verbose)
    # The demo shows by itself what the runtime would log.
    logging.getLogger("adapter.runtime").addHandler(logging.NullHandler())
    try:
        return Play(view).run()
    except BrokenPipeError:  # `| head`: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _options(args: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="v010-adapter demo",
        description="Plays the life of a pod, recorded on containerd, to the adapter with sample plugins and hooks. "
        "Needs neither root nor a container runtime, and leaves nothing behind.",
        allow_abbrev=False,
    )
    parser.add_argument(*("-v", "-verbose", "--verbose"), action="store_true", help="show requests and results in full")
    parser.add_argument(*("-o", "--output"), choices=("text", "json"), default="text", help="json: an object a line")
    return parser.parse_args(args)


class Play:
    """One performance."""

    def __init__(self, view: View) -> None:
        """Reads the recording."""
        self._view = view
        self._configure, self._life = _script()
        self._unexpected: list[str] = []
        self._scenes: list[Scene] = []
        start = cast(api.StartContainerRequest, dict(self._life)["StartContainer"])
        self._pod, self._container = start.pod, start.container

    def run(self) -> int:
        """Sets the stage, plays, and clears up; returns the exit code."""
        cgroups = {self._pod.linux.cgroups_path: NO_QUOTA, self._container.linux.cgroups_path: QUOTA}
        with tempfile.TemporaryDirectory(prefix="v010-adapter-demo-") as directory:
            stage = Stage(Path(directory), cgroups)
            try:
                self._perform(stage)
                self._check(stage)
            finally:
                stage.close()
        runs = sum(len(scene.runs) for scene in self._scenes)
        seconds = sum(answer.seconds for scene in self._scenes for answer in scene.outcome.answers)
        injected = sum(scene.hooks.count for scene in self._scenes if scene.hooks)
        self._view.close(Ending(len(self._scenes), runs, len(PLUGINS), seconds, injected, self._unexpected))
        return 1 if self._unexpected else 0

    def _perform(self, stage: Stage) -> None:
        flavour = Flavour(self._configure.runtime_name, self._configure.runtime_version)
        started = time.monotonic()
        with Runtime(stage.plugins, stage.config, flavour=flavour, stderr=stage.log.fileno()) as runtime:
            self._open(runtime, stage, time.monotonic() - started)
            for event, request in self._life if runtime.plugins else []:
                self._scenes.append(self._play(runtime, stage, event, request))
            self._unexpected += [f"the adapter was dropped: {plugin.closed}" for plugin in runtime.dropped]
        self._complaints(stage.new_log_lines())

    def _open(self, runtime: Runtime, stage: Stage, seconds: float) -> None:
        asked = [name for name in MOMENTS if any(one.wants(events.CALLS[name].event) for one in runtime.plugins)]
        opening = Opening(
            runtime=f"{runtime.flavour.name} {runtime.flavour.version.partition('+')[0]}",
            pod=f"{self._pod.namespace}/{self._pod.name} with container {self._container.name}",
            label="=".join(LABEL),
            annotation="=".join(ANNOTATION),
            command=str((stage.plugins / NAME).resolve()),
            samples=str(stage.samples),
            plugins=PLUGINS,
            hook_samples=str(stage.hook_samples),
            hooks=tuple(hooks.HOOKS),
            record=stage.record,
            seconds=seconds,
            events=asked,
            temporary=str(stage.root),
        )
        self._view.open(opening)
        self._complaints(stage.new_log_lines())

    def _play(self, runtime: Runtime, stage: Stage, event: str, request: Message) -> Scene:
        quota = stage.quota_file(self._container.linux.cgroups_path)
        before = quota.read_text()
        outcome = runtime.event(event, request)
        lines = list(stage.new_log_lines())
        runs = [{key: line[key] for key in RUN_KEYS} for line in lines if "request" in line]
        said = [line for line in lines if "request" not in line]
        self._complaints(said)
        scene = Scene(event, outcome, runs, said, (before.strip(), quota.read_text().strip()))
        if isinstance(request, api.CreateContainerRequest):
            scene.hooks = self._hooks(stage, request, outcome)
        self._view.show(scene)
        return scene

    def _hooks(self, stage: Stage, request: api.CreateContainerRequest, outcome: Outcome) -> Hooks:
        """Holds the adapter's answer against what is said by a process that only reads the same files."""
        adjustment = outcome.adjustments.get(NAME, api.ContainerAdjustment())
        others = [field.name for field, _ in adjustment.ListFields() if field.name != "hooks"]
        self._unexpected += [f"the adapter adjusts {name} of the container" for name in others]
        try:
            said = hooks.explain(stage.plugins / NAME, stage.drop_in, request, stage.root / "container.json")
        except ConfigError as error:
            self._unexpected.append(str(error))
            said = {"hooks": [], "errors": [], "adjustment": {"hooks": {}}}
        return Hooks(hooks.injected(adjustment), said["hooks"], said["errors"], said["adjustment"]["hooks"])

    def _complaints(self, lines: Iterable[Json]) -> None:
        """A warning of the adapter is nothing that should happen here."""
        self._unexpected += [line["message"] for line in lines if line["level"] in ("warning", "error")]

    def _check(self, stage: Stage) -> None:
        if not self._scenes:
            self._unexpected.append("the adapter did not come into service")
            return
        for scene in self._scenes:
            self._unexpected += [f"{scene.event}: {problem}" for problem in self._problems(scene)]
        changes = [(scene.event, *scene.quota) for scene in self._scenes if scene.quota[0] != scene.quota[1]]
        if changes != [("StartContainer", QUOTA, NO_QUOTA)]:
            self._unexpected.append(f"the container's cpu.max was to change once, at StartContainer: {changes}")
        dumped = [json.loads(path.read_bytes()) for path in sorted(stage.dumps.glob("*.json"))]
        if dumped != [run["request"] for scene in self._scenes for run in scene.runs if run["plugin"] == "dump"]:
            self._unexpected.append("what dump has written is not what it was sent")

    def _problems(self, scene: Scene) -> list[str]:
        problems = [f"the runtime got an error: {scene.outcome.error}"] if scene.outcome.error else []
        problems += [f"{run['plugin']} failed: {run['error']}" for run in scene.runs if run["error"]]
        state = STATES.get(scene.event)
        id_ = self._pod.id if "Pod" in scene.event else self._container.id
        expected = [(plugin, state, id_) for plugin in PLUGINS] if state else []
        if [(run["plugin"], run["state"], run["id"]) for run in scene.runs] != expected:
            problems.append(f"ran {_names(scene.runs)} instead of {expected or 'nobody'}")
        if scene.hooks:
            problems += hooks.problems(scene.hooks)
        return problems


def _script() -> tuple[api.ConfigureRequest, list[Recorded]]:
    """Returns how the recorded runtime introduced itself, and the events, with LABEL and ANNOTATION on their pod."""
    (_, configure), _, *life = read(POD_LIFE)
    for _, request in life:
        pod: api.PodSandbox = request.pod  # type: ignore[attr-defined]  # every one of them has a pod
        pod.labels.update([LABEL])
        pod.annotations.update([ANNOTATION])
    return cast(api.ConfigureRequest, configure), life


def _names(runs: list[Json]) -> str:
    return ", ".join(f"{run['plugin']} {run['state']} {run['id'][:12]}" for run in runs) or "nobody"
