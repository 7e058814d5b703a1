"""What the pictures of the documentation have in common: colours for light and dark pages, text, boxes, arrows.

A picture is an SVG file that a browser shows as an image. It has a ground of its own, so that it can be read also where
the page is light and the browser's colour scheme dark. No text is measured: a picture leaves room for wider fonts.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

COLOURS = {
    "ground": ("#f6f8fa", "#161b22"),
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#57606a", "#9198a1"),
    "rule": ("#d0d7de", "#3d444d"),
    "blue": ("#0969da", "#58a6ff"),
    "green": ("#1a7f37", "#3fb950"),
    "amber": ("#9a6700", "#d29922"),
    "violet": ("#8250df", "#bc8cff"),
    "red": ("#cf222e", "#ff7b72"),
    "pink": ("#bf3989", "#f778ba"),
}
"""Each colour on a light page, and on a dark one. Texts in it have a contrast of at least 4.5 on ground and paper."""
SANS, MONO = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif", "ui-monospace, 'DejaVu Sans Mono', Menlo, monospace"
TIP = 7
"""The length of an arrow's head."""


def _rules(scheme: int) -> str:
    return "".join(
        f".{name}{{fill:{both[scheme]}}}.{name}-line{{stroke:{both[scheme]}}}" for name, both in COLOURS.items()
    )


STYLE = f"text{{white-space:pre}}.line{{fill:none}}{_rules(0)}\n@media (prefers-color-scheme:dark){{{_rules(1)}}}"


class Picture:
    """A picture that grows by parts. Coordinates are in pixels, colours are keys of `COLOURS`."""

    def __init__(self, title: str, description: str, width: int, *, size: int = 15, font: str = SANS) -> None:
        """`title` and `description` are for who cannot see it; `size` is that of the texts."""
        self._head = title, description
        self._font = f'font-family="{font}" font-size="{size}"'
        self.width = width
        self._parts: list[str] = []

    def svg(self, height: int) -> str:
        """Returns the whole file."""
        title, description = map(escape, self._head)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height}" '
            f'viewBox="0 0 {self.width} {height}" role="img" aria-labelledby="title description" {self._font}>'
        )
        words = f'<title id="title">{title}</title>', f'<desc id="description">{description}</desc>'
        ground = f'<rect width="{self.width}" height="{height}" rx="6" class="ground"/>'
        return "\n".join((head, *words, f"<style>{STYLE}</style>", ground, *self._parts, "</svg>")) + "\n"

    def text(self, x: float, y: float, text: str, colour: str = "ink", more: str = "") -> None:
        """Adds a text whose base line begins at the point, or with `more` has its middle or end there."""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" class="{colour}"{more and " " + more}>{escape(text, False)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, fill: str = "paper", line: str = "faint") -> None:
        """Adds a box with a border."""
        size = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self._parts.append(f'<rect {size} rx="5" class="{fill} {line}-line"/>')

    def bar(self, x: float, y: float, width: float, height: float, fill: str, opacity: float = 1) -> None:
        """Adds a filled area."""
        size = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        fade = f' fill-opacity="{opacity:g}"' if opacity != 1 else ""
        self._parts.append(f'<rect {size} rx="2" class="{fill}"{fade}/>')

    def line(self, points: Sequence[tuple[float, float]], colour: str = "faint", more: str = "") -> None:
        """Adds a line through the points."""
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
        self._parts.append(f'<path d="{path}" class="line {colour}-line"{more and " " + more}/>')

    def arrow(self, points: Sequence[tuple[float, float]], colour: str = "faint", more: str = "") -> None:
        """Adds a line with a head at its end. Its last part is horizontal or vertical."""
        (x0, y0), (x, y) = points[-2:]
        across, down = (x > x0) - (x < x0), (y > y0) - (y < y0)
        back = x - across * TIP, y - down * TIP
        self.line([*points[:-1], back], colour, more)
        corners = [(back[0] + side * down * TIP / 2, back[1] + side * across * TIP / 2) for side in (1, -1)]
        path = "L".join(f"{x:g} {y:g}" for x, y in ((x, y), *corners))
        self._parts.append(f'<path d="M{path}z" class="{colour}"/>')


BOLD, MIDDLE, END = 'font-weight="bold"', 'text-anchor="middle"', 'text-anchor="end"'
CODE = f'font-family="{MONO}" font-size="13"'
SMALL = 'font-size="13"'
DASHED = 'stroke-dasharray="4 4"'
