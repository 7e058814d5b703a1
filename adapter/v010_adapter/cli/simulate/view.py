"""Shows a simulation as text, or as one JSON object per event."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, TextIO

from google.protobuf.json_format import MessageToDict

from nri.text import printable
from v010_adapter.cli import terminal
from v010_adapter.cli.simulate.play import Scene
from v010_adapter.cli.terminal import BOLD, DIM, GREEN, RED, show
from v010_adapter.oci.spec import outside_spec

to_dict = partial(MessageToDict, preserving_proto_field_name=True)
"""Returns a message as protojson with the names of the proto file."""

EVENT_COLUMN, TIME_COLUMN = 28, 10
MARGIN = "    "
NAME_KEYS = ("destination", "path", "type", "pageSize", "name")
_MODE = re.compile(r'("fileMode": )([0-9]+)')


def as_json(scene: Scene) -> dict[str, Any]:
    """Returns a scene ready for JSON. Messages are protojson with the names of the proto file."""
    outcome = scene.outcome
    return {
        "event": outcome.event,
        "us": round(scene.seconds * 1e6),
        "plugins": [
            {"name": one.plugin, "us": round(one.seconds * 1e6), "error": one.error} for one in outcome.answers
        ],
        "adjust": to_dict(outcome.adjusted) if outcome.adjusted is not None else {},
        "update": [to_dict(update) for update in outcome.update],
        "error": outcome.error,
        **({"spec": scene.after} if scene.after is not None else {}),
        **({"unknown": list(scene.unknown)} if scene.unknown else {}),
    }


class TextView:
    """Lines for a terminal, coloured unless the terminal or the user refuses colours."""

    def __init__(
        self, out: TextIO, *, full: bool = False, color: str = terminal.AUTO, brief: Callable[[str], str] = str
    ) -> None:
        """Takes the stream to write to, and when to use colours.

        With `full`, lines are as long as they are; without it, `brief` shortens what they say.
        """
        self._out = out
        self._events = 0
        self._colour = terminal.are_wanted(out, color)
        self._width = sys.maxsize if full else terminal.width(out)
        self._brief = str if full else brief

    def show(self, scene: Scene) -> None:
        self._events += 1
        outcome = scene.outcome
        time = milliseconds(scene.seconds) if outcome.answers else ""
        took = [f"{one.plugin} {'FAILED' if one.error else milliseconds(one.seconds)}" for one in outcome.answers]
        answers = ", ".join(took) or "no plugin is subscribed"
        text = f"{outcome.event:{EVENT_COLUMN}}{time:>{TIME_COLUMN}}  {answers}"
        self.line(text, BOLD if outcome.answers else DIM)
        for answer in outcome.answers:
            if answer.error and answer.error != outcome.error:
                self.line(f"{MARGIN}{answer.plugin}: {answer.error}", RED)
        if outcome.error:
            self.line(f"{MARGIN}FAILED: {outcome.error}", RED)
        for path, value, style in _changes_of(scene):
            place = terminal.shortened(printable(self._brief(path)), self._width // 2)
            self.detail(f"{place}  {value}".rstrip(), style)
        for update in outcome.update:
            self.detail(f"update of {update.container_id}: {json.dumps(to_dict(update.linux.resources))}")

    def close(self, problems: Sequence[str]) -> None:
        self.line("")
        for problem in problems:
            self.line(f"PROBLEM: {problem}", RED)
        if not problems:
            self.line(f"{self._events} events, no problems", GREEN)

    def messages(self, file: BinaryIO) -> None:
        file.seek(0)
        for number, line in enumerate(file):
            if not number:
                self.line("")
                self.line("messages of the plugins", BOLD)
            self.line(MARGIN + line.decode("utf-8", "backslashreplace").rstrip(), DIM)

    def detail(self, text: str, style: int | None = None) -> None:
        """Writes an indented line, cut at the width of the terminal."""
        self._write([terminal.cut(printable(MARGIN + self._brief(text)), self._width)], style)

    def line(self, text: str, style: int | None = None, more: int = terminal.INDENT) -> None:
        """Writes a line, broken at the width of the terminal. Later lines are indented by `more`."""
        self._write(terminal.wrapped(printable(self._brief(text)), self._width, more), style)

    def _write(self, lines: Sequence[str], style: int | None) -> None:
        show(*lines, out=self._out, paint=partial(terminal.painted, style=style) if style and self._colour else None)


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _changes_of(scene: Scene) -> Iterable[tuple[str, str, int]]:
    """Yields what is changed in the container: where, the value, and how it looks."""
    if scene.before is None or scene.after is None:
        return
    changed = changes(scene.before, scene.after)
    if not changed:
        yield "the container is not changed", "", DIM
    for mark, path, value in changed:
        yield f"{mark} {path}", value, RED if mark == "-" else GREEN
    outside = to_dict(outside_spec(*([scene.outcome.adjusted] if scene.outcome.adjusted else [])))
    if outside:
        yield "resolved by the runtime:", json.dumps(outside), GREEN


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Returns mark, path and value of removals, then of additions in the order of `after`. A changed value is both."""
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    result = [("-", path, value) for path, value in old.items() if path not in new]
    for path, value in new.items():
        if old.get(path) != value:
            result += [("-", path, old[path])] if path in old else []
            result.append(("+", path, value))
    return result


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yields path and JSON text of every value that is compared as a whole. Skips empty objects and lists."""
    if isinstance(value, dict):
        for key, member in value.items():
            if "." in key:  # an annotation or a sysctl
                yield f"{path}[{key}]", _shown(member)
            else:
                yield from _leaves(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and not path.endswith("args"):  # arguments are compared as a whole
        count: Counter[str] = Counter()
        for number, element in enumerate(value):
            name = _name(element, number)
            count[name] += 1
            suffix = f"#{count[name]}" if count[name] > 1 else ""
            yield f"{path}[{name}]{suffix}", _shown(element)
    else:
        yield path, _shown(value)


def _shown(value: Any) -> str:
    """Returns a value as JSON, but the mode of a device as an octal number, which people use."""
    text = json.dumps(value, ensure_ascii=False)
    return _MODE.sub(lambda match: f"{match[1]}0{int(match[2]):o}", text)


def _name(element: Any, number: int) -> str:
    if isinstance(element, dict):
        return str(next((element[key] for key in NAME_KEYS if element.get(key)), number))
    return element.partition("=")[0] if isinstance(element, str) else str(number)
