"""Shows a simulation as text, or as one JSON object per event."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, BinaryIO, TextIO

from google.protobuf.json_format import MessageToDict

from adapter.base.sanitize import show
from adapter.cli import colours
from adapter.cli.colours import BOLD, DIM, GREEN, RED
from adapter.cli.simulate.difference import changes
from adapter.cli.simulate.play import Scene
from adapter.oci.spec import outside_spec

to_dict = partial(MessageToDict, preserving_proto_field_name=True)
"""Returns a message as protojson with the names of the proto file."""

EVENT_COLUMN, TIME_COLUMN = 28, 10
MARGIN = "    "
WIDE = 160
"""The number of columns if neither a terminal nor COLUMNS sets it."""


def as_json(scene: Scene) -> dict[str, Any]:
    """Returns a scene ready for JSON. Messages are protojson with the names of the proto file."""
    outcome = scene.outcome
    return {
        "event": outcome.event,
        "us": round(scene.seconds * 1e6),
        "plugins": [
            {"name": one.plugin, "us": round(one.seconds * 1e6), "error": one.error} for one in outcome.answers
        ],
        "adjust": to_dict(outcome.adjust) if outcome.adjust is not None else {},
        "update": [to_dict(update) for update in outcome.update],
        "error": outcome.error,
        **({"spec": scene.after} if scene.after is not None else {}),
        **({"unknown": list(scene.unknown)} if scene.unknown else {}),
    }


class TextView:
    """Lines for a terminal, coloured unless the terminal or the user refuses colours."""

    def __init__(self, out: TextIO, *, full: bool = False, color: str = colours.AUTO) -> None:
        """Takes the stream to write to, and when to use colours. With `full`, long lines are not cut."""
        self._out = out
        self._events = 0
        self._colour = colours.are_wanted(out, color)
        self._width = sys.maxsize if full else shutil.get_terminal_size((WIDE, 24)).columns

    def show(self, scene: Scene) -> None:
        """Shows an event in a line, then the errors, the changes of the container, and the updates."""
        self._events += 1
        outcome = scene.outcome
        time = milliseconds(scene.seconds) if outcome.answers else ""
        took = [f"{one.plugin} {'FAILED' if one.error else milliseconds(one.seconds)}" for one in outcome.answers]
        answers = ", ".join(took) or "no plugin is subscribed"
        self.line(f"{outcome.event:{EVENT_COLUMN}}{time:>{TIME_COLUMN}}  {answers}", None if outcome.answers else DIM)
        for answer in outcome.answers:
            if answer.error and answer.error != outcome.error:
                self.line(f"{MARGIN}{answer.plugin}: {answer.error}", RED)
        if outcome.error:
            self.line(f"{MARGIN}FAILED: {outcome.error}", RED)
        for text, style in _changes(scene):
            self.detail(text, style)
        for update in outcome.update:
            self.detail(f"update of {update.container_id}: {json.dumps(to_dict(update.linux.resources))}")

    def close(self, problems: Sequence[str]) -> None:
        """Shows all problems, or that there are none."""
        self.line("")
        for problem in problems:
            self.line(f"PROBLEM: {problem}", RED)
        if not problems:
            self.line(f"{self._events} events, no problems", GREEN)

    def messages(self, file: BinaryIO) -> None:
        """Shows the text that plugins have printed to a file."""
        file.seek(0)
        for number, line in enumerate(file):
            if not number:
                self.line("")
                self.line("messages of the plugins", BOLD)
            self.line(MARGIN + line.decode("utf-8", "backslashreplace").rstrip(), DIM)

    def detail(self, text: str, style: int | None = None) -> None:
        """Writes an indented line, cut at the width of the terminal."""
        room = self._width - len(MARGIN)
        self.line(MARGIN + (text if len(text) <= room else text[: room - 3] + "..."), style)

    def line(self, text: str, style: int | None = None) -> None:
        """Writes a line. Control characters in texts of plugins are escaped."""
        show(text, out=self._out, paint=partial(colours.painted, style=style) if style and self._colour else None)


def milliseconds(seconds: float) -> str:
    """Returns a duration for people."""
    return f"{seconds * 1000:.1f} ms"


def _changes(scene: Scene) -> Iterable[tuple[str, int]]:
    if scene.before is None or scene.after is None:
        return
    changed = changes(scene.before, scene.after)
    if not changed:
        yield "the container is not changed", DIM
    for mark, path, value in changed:
        yield f"{mark} {path}  {value}", RED if mark == "-" else GREEN
    outside = to_dict(outside_spec(*([scene.outcome.adjust] if scene.outcome.adjust else [])))
    if outside:
        yield f"resolved by the runtime: {json.dumps(outside)}", GREEN
