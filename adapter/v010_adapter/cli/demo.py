"""`v010-adapter demo`: plays the life of a pod to the adapter, with the samples of this repository."""

from __future__ import annotations

import json
import re
import shutil
import sys
from argparse import Namespace
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import v010_adapter
from nri.testing import Flavour, PluginFile
from v010_adapter.cli.arguments import FINDINGS, FINE, PROGRAM, Parser
from v010_adapter.cli.hooks.explain import Decision, explain
from v010_adapter.cli.simulate import trial
from v010_adapter.cli.simulate.play import Play, Scene
from v010_adapter.cli.simulate.script import pod_life
from v010_adapter.cli.simulate.trial import Scratch
from v010_adapter.cli.simulate.view import MARGIN, TextView, milliseconds
from v010_adapter.cli.terminal import BOLD, DIM, GREEN, RED
from v010_adapter.hooks.directory import Directories
from v010_adapter.hooks.facts import facts
from v010_adapter.host.trust import off
from v010_adapter.settings import HooksSettings

PACKAGE = Path(v010_adapter.__file__).parent
SAMPLES = PACKAGE / "samples" if (PACKAGE / "samples").is_dir() else PACKAGE.parents[1]
"""The directory of the samples: in an installed package, or beside the package in a clone."""
LABEL = {"qos.class": "ls"}
"""clearcfs lifts the CPU limit of containers in pods with this label."""
ANNOTATION = {"hooks.example.com/record": "yes"}
"""record.json matches this annotation."""
PROBLEMS = ("warning", "error")
"""Levels of lines of the log that fail the demo."""
PATIENT = Flavour(registration_timeout=60, request_timeout=60)
"""Long timeouts: the demo must not fail on a slow machine."""

Json = dict[str, Any]


def parser() -> Parser:
    made = Parser(
        "demo",
        "Simulates the life of a pod, recorded on containerd, with the adapter, sample plugins and sample hooks. "
        "Needs neither root nor a container runtime, and writes to a temporary directory only.",
        examples="v010-adapter demo -v    # with every request and result in full",
    )
    return made.shared("color", "v verbose")


def main(options: Namespace) -> int:
    with Scratch("v010-adapter-demo-") as directory:
        demo = Demo(Path(directory))
        _show(demo, options.verbose, options.color)
    return FINDINGS if demo.problems else FINE


class Demo:
    """One run of the demo in a temporary directory."""

    def __init__(self, root: Path) -> None:
        """Copies the samples and writes the adapter's configuration into an empty directory."""
        self.problems: list[str] = []
        """The problems so far, complete after the last of the `steps`."""
        self._root = root
        self._script = pod_life()
        for event, message in self._script.events:
            request: Any = message
            request.pod.labels.update(LABEL)
            request.pod.annotations.update(ANNOTATION)
            if event == "CreateContainer":
                self._creation = request
        for subject, quota in ((self._creation.container, "50000 100000"), (self._creation.pod, "max 100000")):
            cgroup = root / "cgroup" / subject.linux.cgroups_path.lstrip("/")
            cgroup.mkdir(parents=True)
            (cgroup / "cpu.max").write_text(quota)
        self._config = json.dumps(_configuration(root))  # JSON is YAML

    def steps(self) -> Generator[tuple[Scene, list[Json]], None, None]:
        """Plays the script; yields each event, with the lines that the adapter has logged meanwhile."""
        plugin = PluginFile(trial.write_program(self._root), trial.IDX, PROGRAM, self._config)
        path = self._root / "adapter.log"
        unfinished = ""
        with path.open("ab") as log, path.open(errors="replace") as reader:
            play = Play(self._script, PATIENT, [plugin], None, log.fileno())
            with closing(play.scenes()) as scenes:
                for scene in scenes:
                    *texts, unfinished = (unfinished + reader.read()).split("\n")
                    lines = list(map(_log_line, texts))
                    self.problems += [line["message"] for line in lines if line["level"] in PROBLEMS]
                    self.problems += [f"{line['plugin']}: {line['error']}" for line in lines if line.get("error")]
                    yield scene, lines
        self.problems += play.problems

    def brief(self, text: str) -> str:
        """Returns a text with ids cut to 12 digits, as container tools do, and the demo's files without directories."""
        text = re.sub(rf"{re.escape(str(self._root))}(?:/[^/\s]+)*/", "…/", text)
        return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1", text)

    def decisions(self) -> list[Decision]:
        hooks = Directories(HooksSettings(directories=(str(self._root / "hooks.d"),), watch=False, trust=off))
        return explain(hooks.current(), facts(self._creation.pod, self._creation.container))


def _configuration(root: Path) -> Json:
    hooks_d = shutil.copytree(SAMPLES / "hooks.d", root / "hooks.d")
    record = json.loads((hooks_d / "record.json").read_bytes())
    record["hook"]["path"] = str(hooks_d / "record")  # the path of the sample file exists on nodes only
    (hooks_d / "record.json").write_text(json.dumps(record))
    clearcfs = {"type": "clearcfs", "conf": {"cgroupRoot": str(root / "cgroup"), "allow": "everything"}}
    plugins = [clearcfs, {"type": "dump", "conf": {"directory": str(root)}}, {"type": "logger"}]
    (root / "conf.json").write_text(json.dumps({"version": "0.1", "plugins": plugins}))
    legacy = {"config": str(root / "conf.json"), "path": [str(SAMPLES / "legacy-plugins")], "sandboxes": "always"}
    return {
        "trust": "off",  # the user's group may be able to write to a clone
        "legacy": legacy,
        "hooks": {"directories": [str(hooks_d)]},
        "log": {"level": "debug", "format": "json", "target": "stderr"},
    }


def _log_line(line: str) -> Json:
    """Returns a decoded line of the adapter's log. A line that is not JSON becomes an error message."""
    try:
        record: Json = json.loads(line)
    except ValueError:
        return {"level": "error", "message": line}
    return record


def _show(demo: Demo, verbose: bool, color: str) -> None:
    view = TextView(sys.stdout, full=verbose, color=color, brief=demo.brief)
    label = f"{'hook':10}"
    view.line("The life of a pod, with sample plugins and hooks under v010-adapter", BOLD)
    with closing(demo.steps()) as steps:
        for scene, lines in steps:
            if not scene.outcome.answers and not verbose:
                continue  # the adapter does nothing
            view.line("")
            view.show(scene)
            runs = [line for line in lines if "request" in line]
            for run in runs:
                _show_run(view, run, run is runs[0], verbose)
            for line in lines:
                if line not in runs and (("plugin" in line and verbose) or line["level"] in PROBLEMS):
                    view.detail(f"log       {line['level']}: {line['message']}")
            for named, matched, reason in demo.decisions() if scene.outcome.event == "CreateContainer" else ():
                text = f"{MARGIN}{label}{named.file:20} {'yes' if matched else 'no'}: {reason}"
                view.line(text, GREEN if matched else DIM, more=len(label))
    view.close(demo.problems)
    view.line("In full: v010-adapter demo -v. Next: README.md, Install it on a node.")


def _show_run(view: TextView, run: Json, first: bool, verbose: bool) -> None:
    """Shows the result of a run. The request is shown for the first run of an event; with `verbose`, for every run."""
    request = run["request"]
    head = f"{run['plugin']:9} {milliseconds(run['us'] / 1e6):>8}  "
    if verbose:
        for line in json.dumps(request, indent=2).splitlines():
            view.detail(line, DIM)
    elif first:
        kind = "sandbox" if request["id"] == request["sandboxID"] else "container"
        cgroup = request["spec"].get("cgroupsPath") or "none"
        view.detail(f"request   {request['state']} {kind} {request['id']}, cgroup {cgroup}")
    if run["error"]:
        view.detail(f"{head}FAILED: {run['error']}", RED)
    elif verbose:
        view.detail(f"{head}{json.dumps(run['result'])}", GREEN)
    else:
        metadata = "; ".join(f"{key}: {value}" for key, value in run["result"].get("metadata", {}).items())
        view.line(f"{MARGIN}{head}{metadata}", GREEN, more=len(head))
