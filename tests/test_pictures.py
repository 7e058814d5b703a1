"""The pictures of the documentation are what their scripts draw from what is true now, and have a text, too."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.drawing import COLOURS
from docs.pictures import PICTURES, demo, latency

from .test_docs import PAGES, ROOT

SVG = "{http://www.w3.org/2000/svg}"
IMAGE = re.compile(r"!\[([^]]*)\]\(([^)]+)\)")


@pytest.mark.parametrize("file", PICTURES, ids=lambda file: file.stem)
def test_a_picture_is_what_its_script_draws(file: Path) -> None:
    assert file.read_text() == PICTURES[file](), "python -m docs.pictures"


@pytest.mark.parametrize("file", PICTURES, ids=lambda file: file.stem)
def test_a_picture_has_a_text_and_stays_inside_its_frame(file: Path) -> None:
    drawn = ElementTree.parse(file).getroot()  # noqa: S314 - it is our own
    assert drawn.findtext(f"{SVG}title")
    assert len(drawn.findtext(f"{SVG}desc") or "") > 100
    width, height = float(drawn.get("width", 0)), float(drawn.get("height", 0))
    for text in drawn.iter(f"{SVG}text"):
        assert 0 < float(text.get("x", 0)) < width
        assert 0 < float(text.get("y", 0)) < height
    for area in drawn.iter(f"{SVG}rect"):
        assert float(area.get("x", 0)) + float(area.get("width", 0)) <= width
        assert float(area.get("y", 0)) + float(area.get("height", 0)) <= height


def test_every_picture_is_on_a_page_and_the_page_says_what_is_in_it() -> None:
    shown = set()
    for page in PAGES:
        for text, target in IMAGE.findall(page.read_text()):
            assert len(text) > 40, f"{page}: {target}"
            shown.add((page.parent / target).resolve())
    assert shown == {*PICTURES}


def brightness(colour: str) -> float:
    """The relative luminance of a colour (WCAG 2.2)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_every_text_can_be_read(scheme: int) -> None:
    for name in COLOURS.keys() - {"ground", "paper", "rule"}:
        for behind in ("ground", "paper"):
            dark, light = sorted(brightness(COLOURS[one][scheme]) for one in (name, behind))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, behind)


def alike(output: str) -> str:
    """What a demo prints, without what is different in each: times, and the name of a temporary directory."""
    return re.sub(r" *\b[0-9.]+ ms\b", " N ms", re.sub(r"(?<=v010-adapter-demo-)\w+", "", output))


def test_the_demo_prints_what_its_picture_shows() -> None:
    assert alike(demo.record()) == alike(demo.RECORDING.read_text()), "python -m docs.pictures record"


def test_the_bars_are_the_rows_of_the_report_about_legacy_events() -> None:
    rows = list(latency.measured())
    report = latency.REPORT.read_text()
    both = re.findall(r"^legacy events .*\n((?:.+\n)+)", report, re.MULTILINE)
    assert len(rows) == sum(len(rows.splitlines()) for rows in both) > 20
    assert f"{rows[0].ratio:.2f} / " in both[0].splitlines()[0]
    assert {row.way for row in rows} == {*latency.WAYS}
    assert max(row.ratio for row in rows) <= latency.MOST
    assert ROOT in latency.REPORT.parents
