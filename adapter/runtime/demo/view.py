"""How the demo is shown: as text for people, or as JSON, an object a line."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import textwrap
from typing import Protocol, TextIO

from adapter.runtime.demo.scene import MOMENTS, Ending, Hooks, Json, Opening, Scene


class View(Protocol):
    """Shows the demo while it goes on."""

    def open(self, opening: Opening) -> None:
        """Shows who plays."""

    def show(self, scene: Scene) -> None:
        """Shows an event."""

    def close(self, ending: Ending) -> None:
        """Shows what it comes to."""


class JsonView:
    """One JSON object a line: `opening`, then one per event, then `summary`."""

    def __init__(self, out: TextIO) -> None:
        """Takes where to write."""
        self._out = out

    def open(self, opening: Opening) -> None:
        """Writes the opening."""
        self._write({"opening": vars(opening)})

    def show(self, scene: Scene) -> None:
        """Writes an event."""
        answer = next(iter(scene.outcome.answers), None)
        self._write(
            {
                "event": scene.event,
                "moment": MOMENTS[scene.event],
                "asked": answer is not None,
                "us": None if answer is None else round(answer.seconds * 1e6),
                "error": scene.outcome.error,
                "runs": scene.runs,
                "log": scene.said,
                "quota": scene.quota,
                "hooks": scene.hooks and vars(scene.hooks),
            }
        )

    def close(self, ending: Ending) -> None:
        """Writes the summary."""
        self._write({"summary": vars(ending)})

    def _write(self, line: Json) -> None:
        print(json.dumps(line), file=self._out, flush=True)


BOLD, DIM, RED, GREEN, CYAN = 1, 2, 31, 32, 36
MARGIN = "  "
NAMES, TIMES = 10, 11
"""Columns for the name of a line, and for the time that something took."""
FILES = 20
"""Columns for a hook's file or stage."""
NARROW, WIDE = 60, 100


class TextView:
    """Text for a terminal of 60 columns or more, coloured if it is one that wants to be."""

    def __init__(self, out: TextIO, *, full: bool) -> None:
        """`full` shows requests and results as they are."""
        self._out = out
        self._full = full
        self._colour = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._width = min(max(shutil.get_terminal_size((WIDE, 24)).columns - 1, NARROW), WIDE)
        self._temporary = ""
        self._brief = False

    def open(self, opening: Opening) -> None:
        """Shows who plays."""
        self._temporary = opening.temporary
        self._print(f"The life of a pod, as {opening.runtime} told it, with legacy plugins and hooks", BOLD)
        self._print()
        self._item("adapter", f"{opening.command}, launched the way containerd does it")
        plugins = ", ".join(opening.plugins)
        self._item("plugins", f"{plugins} of NRI v0.1.0, run in this order, from {opening.samples}")
        copies = f"copies of the {len(opening.hooks)} files in {opening.hook_samples}"
        record = f"that of record.json names the `record` beside it, not {opening.record} as on a node"
        self._item("hooks", f"{copies}; {record}")
        self._item("pod", f"{opening.pod}. Ours are")
        self._item("", f"- the label {opening.label}, for clearcfs to lift its CPU limit")
        self._item("", f"- the annotation {opening.annotation}, for record.json to match")
        self._item("host", "left alone: all files and a make-believe cgroup are in a temporary directory")
        if opening.events:
            self._item("ready", f"after {_ms(opening.seconds)}, subscribed to {', '.join(opening.events)}")

    def show(self, scene: Scene) -> None:
        """Shows an event: in one line if nobody is run for it."""
        answer = next(iter(scene.outcome.answers), None)
        brief = not scene.runs and not scene.outcome.error and not scene.hooks
        if not (brief and self._brief):
            self._print()
        self._brief = brief
        left = f"{scene.event:19} {MOMENTS[scene.event]}"
        right = "not subscribed to" if answer is None else f"{'nobody to run ' if brief else ''}{_ms(answer.seconds)}"
        self._print(f"{left} {right:>{self._width - len(left) - 1}}", DIM if brief else BOLD)
        if not brief:
            self._details(scene)

    def close(self, ending: Ending) -> None:
        """Shows what it comes to."""
        self._print()
        for problem in ending.unexpected:
            self._item("PROBLEM", problem, style=RED)
        runs = f"{ending.runs} plugin runs for {ending.events} events in {_ms(ending.seconds)}"
        if ending.unexpected:
            self._text(f"{runs}, but not all went as it should.", RED)
            return
        self._text(f"{runs}: every plugin once per create and once per delete.", GREEN)
        self._text(f"{ending.hooks} hooks injected: those that `v010-adapter hooks match` expects.", GREEN)
        self._text(
            "Next: `v010-adapter demo -v` shows requests and results in full, legacy-plugins/README.md how to write "
            "a plugin, hooks.d/README.md a hook, README.md how to put the adapter on a node."
        )

    def _details(self, scene: Scene) -> None:
        if scene.runs:
            self._request(scene.runs[0]["request"])
        for run in scene.runs:
            self._run(run)
            for line in scene.said:
                if line.get("plugin") == run["plugin"]:
                    self._item("", line["message"].removeprefix(f"{run['plugin']}: "), time="says")
        if scene.hooks:
            self._hooks(scene.hooks)
        for line in scene.said:
            if line["level"] in ("warning", "error"):
                self._item(line["level"], line["message"], style=RED)
        if scene.quota[0] != scene.quota[1]:
            self._item("cpu.max", f"{scene.quota[0]} -> {scene.quota[1]}: the container has no CPU limit", style=CYAN)
        if scene.outcome.error:
            self._item("answer", f"error: {scene.outcome.error}", style=RED)
        else:
            hooks = f", and would have runc run these {scene.hooks.count} hooks" if scene.hooks else ""
            self._item("answer", f"ok: the runtime goes on{hooks}", style=GREEN)

    def _request(self, request: Json) -> None:
        name = "request"
        for text in short(request):
            self._item(name, text)
            name = ""
        if self._full:
            self._item("", "as the first plugin gets it; `conf` and `results` are each one's own:")
            for line in json.dumps(request, indent=2).splitlines():
                self._print(f"{MARGIN}{'':{NAMES}}{line}", DIM)

    def _hooks(self, hooks: Hooks) -> None:
        """Shows for each file why the container gets it or not, then what the adapter answered."""
        self._item("hooks", "which the container gets, and why (`v010-adapter hooks match`):")
        for one in hooks.decisions:
            matched = one["matched"]
            self._row("", one["name"], f"{'yes' if matched else 'no '}  {one['reason']}", CYAN if matched else DIM)
        for bad in hooks.errors:
            self._row("", os.path.basename(bad["file"]), f"BAD  {bad['error']}", RED)
        self._injected(hooks)

    def _injected(self, hooks: Hooks) -> None:
        name = "injected"
        for stage, ones in hooks.injected.items():
            for text, hook in zip([_camel_case(stage), *[""] * len(ones)], ones, strict=False):
                command = shlex.join([hook["path"], *hook.get("args", [])[1:]])
                self._row(name, text, command.replace(self._temporary, "..."), CYAN)
                name = ""
        if not hooks.injected:
            self._item(name, "nothing", style=CYAN)
        elif self._full:
            self._item("", "as the runtime gets it:")
            for line in json.dumps(hooks.injected, indent=2).splitlines():
                self._print(f"{MARGIN}{'':{NAMES}}{line}", DIM)

    def _run(self, run: Json) -> None:
        time = _ms(run["us"] / 1e6)
        if run["error"]:
            self._item(run["plugin"], f"FAILED: {run['error']}", time=time, style=RED)
            return
        metadata = "; ".join(f"{key}: {value}" for key, value in run["result"]["metadata"].items())
        result = json.dumps(run["result"]) if self._full else _shorter(metadata.replace(self._temporary, "..."))
        self._item(run["plugin"], f"ok  {result}", time=time)

    def _item(self, name: str, text: str, *, time: str = "", style: int | None = None) -> None:
        """Writes a name, perhaps a time, and beside them a text that may take several lines."""
        head = f"{MARGIN}{name:{NAMES}}"
        if time:
            head = f"{head}{time:>{TIMES - 2}}  "
        for line in _wrapped(text, self._width - len(head)):
            self._print(head + line, style)
            head = " " * len(head)

    def _row(self, name: str, left: str, text: str, style: int) -> None:
        """Writes a name, something in a column of its own, and beside them a text that may take several lines."""
        head = f"{MARGIN}{name:{NAMES}}{left:{FILES - 1}} "
        for line in _wrapped(text, self._width - len(head)):
            self._print(head + line, style)
            head = " " * len(head)

    def _text(self, text: str, style: int | None = None) -> None:
        for line in _wrapped(text, self._width):
            self._print(line, style)

    def _print(self, line: str = "", style: int | None = None) -> None:
        line = line.rstrip()
        print(f"\033[{style}m{line}\033[0m" if self._colour and style and line else line, file=self._out, flush=True)


def short(request: Json) -> list[str]:
    """Returns what matters of a request: what is to be done to which process, then what is known about it."""
    spec = request["spec"]
    kind = "sandbox" if request["id"] == request["sandboxID"] else "container"
    pid = f"pid {request['pid']}" if "pid" in request else "no pid"
    cgroup = f"cgroup {spec['cgroupsPath']}" if spec.get("cgroupsPath") else "no cgroup"
    known = [f"{key} ({', '.join(spec[key])})" for key in ("resources", "namespaces") if spec.get(key)]
    known += [f"{len(one)} {name}" for name, one in _maps(request) if one]
    return [_shorter(f"{request['state']} {kind} {request['id']}, {pid}, {cgroup}"), ", ".join(known)]


def _maps(request: Json) -> list[tuple[str, Json | None]]:
    return [("annotations", request["spec"].get("annotations")), ("labels", request.get("labels"))]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _shorter(text: str) -> str:
    """Returns a text with the long ids in it cut, as container tools do."""
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1", text)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _camel_case(stage: str) -> str:
    """Returns a stage's name as hook files have it."""
    first, *others = stage.split("_")
    return first + "".join(map(str.capitalize, others))
