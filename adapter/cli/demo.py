"""`v010-adapter demo`: plays the life of a pod to the adapter, with the samples of this repository."""

from __future__ import annotations

import json
import re
import shutil
import sys
from argparse import ArgumentParser
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, cast

import adapter
from adapter.cli import arguments
from adapter.cli.colours import BOLD, DIM, GREEN, RED
from adapter.cli.commands import PROGRAM
from adapter.cli.simulate import trial
from adapter.cli.simulate.play import Play, Scene
from adapter.cli.simulate.scratch import Scratch
from adapter.cli.simulate.script import Script, pod_life
from adapter.cli.simulate.view import TextView, milliseconds
from adapter.hooks.directory import Directories
from adapter.hooks.facts import facts
from adapter.hooks.match import Decision
from adapter.host.trust import off
from adapter.nri import api
from adapter.runtime import Flavour, PluginFile

PACKAGE = Path(adapter.__file__).parent
SAMPLES = PACKAGE / "samples" if (PACKAGE / "samples").is_dir() else PACKAGE.parent
"""The directory of the samples: in an installed package, or beside the package in a clone."""
PLUGINS = ("clearcfs", "dump", "logger")
LABEL = {"qos.class": "ls"}
"""clearcfs lifts the CPU limit of containers in pods with this label."""
ANNOTATION = {"hooks.example.com/record": "yes"}
"""record.json matches this annotation."""
PATIENT = Flavour(registration_timeout=60, request_timeout=60)
"""Long timeouts: the demo must not fail on a slow machine."""

Json = dict[str, Any]


class DemoScene(NamedTuple):
    """An event with the runs of legacy plugins, the other log lines, and at a creation the decisions on hooks."""

    scene: Scene
    runs: list[Json]
    messages: list[Json]
    hooks: list[Decision]


def parser() -> ArgumentParser:
    """Returns the parser of the command's arguments."""
    parser = arguments.parser(
        "demo",
        "Simulates the life of a pod, recorded on containerd, with the adapter, sample plugins and sample hooks. "
        "Needs neither root nor a container runtime, and writes to a temporary directory only.",
    )
    arguments.add_color(parser)
    arguments.add_verbose(parser)
    return parser


def main(words: Sequence[str]) -> int:
    """Runs the demo with these arguments; returns 0 if everything went as expected, 1 if not."""
    options = parser().parse_args(words)
    with Scratch("v010-adapter-demo-") as directory:
        demo = Demo(Path(directory))
        _show(demo, options.verbose, options.color)
    return 1 if demo.problems else 0


class Demo:
    """One run of the demo in a temporary directory."""

    def __init__(self, root: Path) -> None:
        """Copies the samples and writes the adapter's configuration into an empty directory."""
        self.problems: list[str] = []
        """The problems so far, complete after the last of the `steps`."""
        self._root = root
        self._script = _script()
        self._creation = cast(api.CreateContainerRequest, dict(self._script.events)["CreateContainer"])
        _cpu_max(root, self._creation.container.linux.cgroups_path, "50000 100000")
        _cpu_max(root, self._creation.pod.linux.cgroups_path, "max 100000")
        self._config = root / "v010-adapter.yaml"
        self._config.write_text(json.dumps(_configuration(root)))  # JSON is YAML

    def steps(self) -> Generator[DemoScene, None, None]:
        """Plays the script; yields each event."""
        plugin = PluginFile(trial.write_program(self._root), trial.IDX, PROGRAM, self._config.read_text())
        path = self._root / "adapter.log"
        unfinished = ""
        with path.open("ab", buffering=0) as log, path.open(errors="replace") as reader:
            play = Play(self._script, PATIENT, [plugin], None, log.fileno())
            with closing(play.scenes()) as scenes:
                for scene in scenes:
                    *lines, unfinished = (unfinished + reader.read()).split("\n")
                    yield self._step(scene, list(map(_log_line, lines)))
        self.problems += play.problems

    def _step(self, scene: Scene, lines: list[Json]) -> DemoScene:
        runs = [line for line in lines if "request" in line]
        messages = [line for line in lines if "request" not in line]
        self.problems += [line["message"] for line in messages if line["level"] in ("warning", "error")]
        self.problems += [f"{run['plugin']}: {run['error']}" for run in runs if run["error"]]
        return DemoScene(scene, runs, messages, self._decisions() if scene.outcome.event == "CreateContainer" else [])

    def _decisions(self) -> list[Decision]:
        hooks = Directories([str(self._root / "hooks.d")], watch=False, trust=off)
        return hooks.current().explain(facts(self._creation.pod, self._creation.container))


def _script() -> Script:
    script = pod_life()
    for _, request in script.events:
        pod: api.PodSandbox = request.pod  # type: ignore[attr-defined]  # a recorded event has a pod
        pod.labels.update(LABEL)
        pod.annotations.update(ANNOTATION)
    return script


def _configuration(root: Path) -> Json:
    """Copies the sample hooks and writes conf.json; returns the adapter's configuration."""
    hooks_d = shutil.copytree(SAMPLES / "hooks.d", root / "hooks.d")
    record = json.loads((hooks_d / "record.json").read_bytes())
    record["hook"]["path"] = str(hooks_d / "record")  # the path of the sample file exists on nodes only
    (hooks_d / "record.json").write_text(json.dumps(record))
    confs = {"clearcfs": {"cgroupRoot": str(root / "cgroup"), "allow": "everything"}, "dump": {"directory": str(root)}}
    entries = [{"type": name, **({"conf": confs[name]} if name in confs else {})} for name in PLUGINS]
    (root / "conf.json").write_text(json.dumps({"version": "0.1", "plugins": entries}))
    legacy = {"config": str(root / "conf.json"), "path": [str(SAMPLES / "legacy-plugins")], "sandboxes": "always"}
    return {
        "trust": "off",  # the user's group may be able to write to a clone
        "legacy": legacy,
        "hooks": {"directories": [str(hooks_d)]},
        "log": {"level": "debug", "format": "json", "target": "stderr"},
    }


def _cpu_max(root: Path, cgroup: str, quota: str) -> None:
    file = root / "cgroup" / cgroup.lstrip("/") / "cpu.max"
    file.parent.mkdir(parents=True)
    file.write_text(quota)


def _log_line(line: str) -> Json:
    """Returns a decoded line of the adapter's log. A line that is not JSON becomes an error message."""
    try:
        record: Json = json.loads(line)
    except ValueError:
        return {"level": "error", "message": line}
    return record


def _show(demo: Demo, verbose: bool, color: str) -> None:
    view = TextView(sys.stdout, full=verbose, color=color)
    view.line("The life of a pod, with the legacy plugins and hooks of this repository under v010-adapter", BOLD)
    with closing(demo.steps()) as steps:
        for step in steps:
            view.show(step.scene)
            for number, run in enumerate(step.runs):
                _show_run(view, run, number == 0, verbose)
            for line in step.messages:
                if "plugin" in line or line["level"] in ("warning", "error"):
                    view.detail(f"log       {line['level']}: {line['message']}")
            for named, matched, reason in step.hooks:
                text = f"hook      {named.file:20} {'yes' if matched else 'no'}: {reason}"
                view.detail(text, GREEN if matched else DIM)
    view.close(demo.problems)
    view.line("`v010-adapter demo -v` shows everything in full. Next: README.md, Install it on a node.")


def _show_run(view: TextView, run: Json, first: bool, verbose: bool) -> None:
    """Shows the result of a run. The request is shown for the first run of an event; with `verbose`, for every run.

    The requests of the other runs differ only in `conf` and `results`.
    """
    request = run["request"]
    head = f"{run['plugin']:9} {milliseconds(run['us'] / 1e6):>8}  "
    if verbose:
        for line in json.dumps(request, indent=2).splitlines():
            view.detail(line, DIM)
    elif first:
        kind = "sandbox" if request["id"] == request["sandboxID"] else "container"
        cgroup = request["spec"].get("cgroupsPath") or "none"
        view.detail(f"request   {request['state']} {kind} {_short(request['id'])}, cgroup {_short(cgroup)}")
    if run["error"]:
        view.detail(f"{head}FAILED: {run['error']}", RED)
    elif verbose:
        view.detail(f"{head}{json.dumps(run['result'])}", GREEN)
    else:
        metadata = "; ".join(f"{key}: {value}" for key, value in run["result"].get("metadata", {}).items())
        view.detail(f"{head}ok  {_short(metadata)}", GREEN)


def _short(text: str) -> str:
    """Returns a text with each id cut to 12 digits, as container tools do."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1", text)
