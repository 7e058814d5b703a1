"""Writes the tables of docs/events.md: which events and fields come from which runtime, from recorded events.

`python docs/events.py` writes the page anew. A test compares it with the recordings.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from nri import events
from nri.testing import FLAVOURS
from v010_adapter.container_files.recording import read

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/events.md"
BEGIN, END = "<!-- recorded -->\n", "<!-- /recorded -->\n"
"""The lines of the page between which the tables stand."""
RUNTIMES = list(FLAVOURS)
DEPTH = 4
"""Names of a path: fields further inside are not told apart."""
WHOLE = {"resources", "hooks", "rlimits", "mounts", "namespaces", "annotations", "labels", "env", "args", "devices"}
"""Fields that are not looked into: a pod's author decides what is in them."""

CLAIMS = {
    "container.pid": "containerd 1.7, CRI-O 1.26",
    "pod.pid": "containerd 1.7, CRI-O 1.26",
    "container.user": "unimplemented; user and group: containerd 1.7, CRI-O 1.26",
    "container.state": "containerd 1.7, CRI-O 1.26",
    "container.image": "containerd 2.4",
    **dict.fromkeys(
        ("container.created_at", "container.started_at", "container.finished_at", "container.exit_code"),
        "extra status: unimplemented",
    ),
    **dict.fromkeys(("pod.linux.cgroups_path", "pod.linux.namespaces"), "containerd 1.7, CRI-O 1.26"),
}
"""The versions since which a field comes, as NRI's README (0.12.5) has them."""


@cache
def recorded(runtime: str) -> dict[str, set[str]]:
    """Returns the paths of the fields that are filled at each event of a recorded pod's life, in order."""
    path = ROOT / f"tests/golden/{runtime.replace('/', '-')}/events-one-pod.jsonl"
    return {
        event: set(_filled(message, "", DEPTH))
        for event, message in read(path)
        if event in events.CALLS and events.CALLS[event].event
    }


def _filled(message: Any, prefix: str, depth: int) -> Iterator[str]:
    for field, value in message.ListFields():
        path = f"{prefix}{field.name}"
        is_message = field.message_type is not None and not field.is_repeated
        if is_message and value.ByteSize() == 0 and field.name != "linux":
            continue
        yield path
        if is_message and depth > 1 and field.name not in WHOLE:
            yield from _filled(value, f"{path}.", depth - 1)


def tables() -> Iterator[str]:
    """Yields the lines between the two marks."""
    lives = {runtime: recorded(runtime) for runtime in RUNTIMES}
    order = list(lives[RUNTIMES[-1]])
    yield "| event |" + "".join(f" {runtime.replace('/', ' ')} |" for runtime in RUNTIMES)
    yield "|---|" + "---|" * len(RUNTIMES)
    for event in order:
        yield f"| {event} |" + "".join(_cell(event in life) for life in lives.values())
    for event in order:
        having = [life[event] for life in lives.values() if event in life]
        everywhere, somewhere = set.intersection(*having), set.union(*having)
        yield from ("", f"## {event}", "")
        yield f"Everywhere: {', '.join(f'`{path}`' for path in sorted(everywhere))}."
        if differing := sorted(somewhere - everywhere):
            titles = [*(one.replace("/", " ") for one in RUNTIMES), "NRI's README says"]
            yield from ("", f"| differs | {' | '.join(titles)} |")
            yield "|---|" + "---|" * len(titles)
        for path in differing:
            cells = "".join(_cell(path in life.get(event, ())) for life in lives.values())
            yield f"| `{path}` |{cells} {CLAIMS.get(path, '')} |"


def _cell(is_there: bool) -> str:
    return " yes |" if is_there else " |"


def page() -> str:
    """Returns the page with the tables as the recordings have them."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + "\n" + "\n".join(tables()) + "\n\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.exit(0)
