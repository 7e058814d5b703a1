"""The whole: the runtime, NRI's socket, the adapter, one-shot programs, hooks.d, and what a container gets."""

from __future__ import annotations

from collections.abc import Sequence

from docs.drawing import BOLD, CODE, MIDDLE, SMALL, Picture

TITLE = "What v010-adapter does"
DESCRIPTION = (
    "The runtime, containerd or CRI-O, sends an event over NRI's socket to v010-adapter, as to any NRI plugin. The "
    "adapter runs one-shot programs in /opt/nri/bin: each reads a JSON request on stdin and prints a JSON result on "
    "stdout. It reads hook files in hooks.d. Its answer to the runtime is an adjustment, with changes and OCI hooks, "
    "or an error. The runtime then starts the container with them."
)


def picture() -> str:
    """Returns the picture."""
    drawn = Picture(TITLE, DESCRIPTION, 500)
    _box(drawn, (20, 20, 220), "blue", ("containerd, CRI-O", "the runtime"))
    _box(drawn, (310, 20, 170), "faint", ("container", "changed, with hooks"))
    drawn.arrow([(240, 53), (309, 53)])
    drawn.text(274, 43, "starts", "faint", f"{SMALL} {MIDDLE}")
    _exchange(drawn, [(50, 86), (50, 189)], "blue", ("event", "of a pod or container"))
    _exchange(drawn, [(222, 190), (222, 87)], "blue", ("answer: adjustment, or error", "over NRI's socket"))
    _box(drawn, (20, 190, 460), "blue", ("v010-adapter", "an NRI plugin, one daemon on each node"))
    _exchange(drawn, [(50, 256), (50, 345)], "green", ("JSON request", "on stdin"))
    _exchange(drawn, [(168, 346), (168, 257)], "green", ("JSON result", "on stdout"))
    _exchange(drawn, [(340, 346), (340, 257)], "violet", ("hook files", "watched"))
    _box(drawn, (20, 346, 250), "green", ("one-shot programs", "legacy plugins, or new ones", "/opt/nri/bin"))
    _box(drawn, (290, 346, 190), "violet", ("OCI hooks", "as podman has them", "hooks.d/*.json"))
    return drawn.svg(452)


def _box(drawn: Picture, place: tuple[int, int, int], colour: str, lines: Sequence[str]) -> None:
    """Adds a box at x and y, of a width, with a name, what it is, and perhaps where on the node."""
    x, y, width = place
    drawn.box(x, y, width, 22 * len(lines) + 22, line=colour)
    for number, (line, how) in enumerate(zip(lines, (BOLD, SMALL, CODE), strict=False)):
        drawn.text(x + width / 2, y + 28 + 22 * number, line, "faint" if number else "ink", f"{how} {MIDDLE}")


def _exchange(drawn: Picture, path: Sequence[tuple[int, int]], colour: str, lines: tuple[str, str]) -> None:
    """Adds an arrow with what goes along it, and how."""
    drawn.arrow(path, colour)
    (x, start), (_, end) = path
    drawn.text(x + 10, (start + end) / 2 - 4, lines[0], colour)
    drawn.text(x + 10, (start + end) / 2 + 16, lines[1], "faint", SMALL)
