"""How a simulation is shown: as text for people, or a JSON object a line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TextIO

from google.protobuf.json_format import MessageToDict

from adapter.nri import api
from adapter.runtime.simulate.difference import changes
from adapter.runtime.simulate.play import Scene, Told

NAMES, TIMES = 28, 10
"""Columns for the name of an event, and for how long it took."""
MARGIN = "    "
NARROW, WIDE = 80, 160
RED, GREEN, DIM, BOLD = 31, 32, 2, 1


class View(Protocol):
    """What the simulation shows its scenes to."""

    def open(self, title: str) -> None:
        """Shows what is played."""

    def show(self, scene: Scene) -> None:
        """Shows an event."""

    def close(self, events: int, problems: Sequence[str]) -> None:
        """Shows what it comes to."""


class JsonView:
    """One JSON object a line, and for each event one."""

    def __init__(self, out: TextIO) -> None:
        """Takes where to write."""
        self._out = out

    def open(self, title: str) -> None:
        """Says nothing: there are only events."""

    def show(self, scene: Scene) -> None:
        """Writes an event. Messages are protojson with the names of the proto file."""
        line = {
            "event": scene.event,
            "us": _us(scene.seconds),
            "plugins": [{"name": told.name, "us": _us(told.seconds), "error": told.error} for told in scene.plugins],
            "adjust": _as_json(scene.adjust) if scene.adjust is not None else {},
            "update": [_as_json(update) for update in scene.update],
            "error": scene.error,
        }
        if scene.spec is not None:
            line["spec"] = scene.spec
        print(json.dumps(line), file=self._out, flush=True)

    def close(self, events: int, problems: Sequence[str]) -> None:
        """Says nothing: the exit code tells."""


class TextView:
    """Lines for a terminal, coloured if it wants to be."""

    def __init__(self, out: TextIO, *, colour: bool) -> None:
        """Takes where to write."""
        self._out = out
        self._colour = colour
        self._width = min(max(shutil.get_terminal_size((WIDE, 24)).columns, NARROW), WIDE)

    def open(self, title: str) -> None:
        """Shows what is played."""
        self._print(title, BOLD)

    def show(self, scene: Scene) -> None:
        """Shows an event in a line, and below it what is wrong and what it changes."""
        time = _ms(scene.seconds) if scene.plugins else ""
        told = ", ".join(map(_told, scene.plugins)) or "nobody asked for it"
        self._print(f"{scene.event:{NAMES}}{time:>{TIMES}}  {told}", None if scene.plugins else DIM)
        for one in scene.plugins:
            if one.error and one.error != scene.error:
                self._print(f"{MARGIN}{one.name}: {one.error}", RED)
        if scene.error:
            self._print(f"{MARGIN}FAILED: {scene.error}", RED)
        for line, style in _changes(scene):
            self._print(MARGIN + self._cut(line), style)
        for update in scene.update:
            resources = json.dumps(_as_json(update.linux.resources))
            self._print(MARGIN + self._cut(f"update of {update.container_id}: {resources}"))

    def close(self, events: int, problems: Sequence[str]) -> None:
        """Shows what it comes to."""
        self._print("")
        for problem in problems:
            self._print(f"PROBLEM: {problem}", RED)
        if not problems:
            self._print(f"{events} events, nothing wrong", GREEN)

    def _cut(self, line: str) -> str:
        room = self._width - len(MARGIN)
        return line if len(line) <= room else line[: room - 3] + "..."

    def _print(self, line: str, style: int | None = None) -> None:
        """Writes a line; what plugins say stays in it, and does nothing to the terminal."""
        line = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line)
        print(f"\033[{style}m{line}\033[0m" if self._colour and style else line, file=self._out, flush=True)


def _changes(scene: Scene) -> Iterable[tuple[str, int]]:
    if scene.before is None or scene.spec is None:
        return
    found = changes(scene.before, scene.spec)
    if not found:
        yield "the container stays as it is", DIM
    for change in found:
        yield f"{change.mark} {change.path}  {change.value}", RED if change.mark == "-" else GREEN
    beside = _beside(scene.adjust or api.ContainerAdjustment())
    if beside:
        yield f"for the runtime to resolve: {json.dumps(beside)}", GREEN


def _beside(adjust: api.ContainerAdjustment) -> dict[str, Any]:
    """Returns what has no place in a specification: CDI devices, classes of block I/O and RDT."""
    whole = _as_json(adjust)
    resources = whole.get("linux", {}).get("resources", {})
    classes = {name: resources[name]["value"] for name in ("blockio_class", "rdt_class") if name in resources}
    return ({"CDI_devices": whole["CDI_devices"]} if "CDI_devices" in whole else {}) | classes


def _told(told: Told) -> str:
    return f"{told.name} {'FAILED' if told.error else _ms(told.seconds)}"


def _as_json(message: Any) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
