"""The tables in the documentation are those of the code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from adapter.errors import NotAdjustable
from adapter.oci.limits import LIMITS, MARKED, Limit, element

from .cases import covers
from .deviations import DEVIATIONS

PAGE = Path(__file__).parents[2] / "docs" / "adjusting-containers.md"
LIMITS_HEADER = "| place in the spec | refused | because |"
DEVIATIONS_HEADER = "| place in the spec | what runtimes make of it |"


def rows(text: str, header: str) -> list[str]:
    """Returns the lines of the table under this header, none where there is no such table."""
    lines = iter(text.splitlines())
    for line in lines:
        if line == header:
            next(lines)
            return list(_until_the_end(lines))
    return []


def _until_the_end(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        if not line.startswith("|"):
            return
        yield line


def written(table: Iterable[Sequence[str]]) -> list[str]:
    return [f"| `{place}` | {' | '.join(cells)} |" for place, *cells in table]


@pytest.mark.parametrize(("header", "table"), [(LIMITS_HEADER, LIMITS), (DEVIATIONS_HEADER, DEVIATIONS)])
def test_the_documentation_has_the_tables(header: str, table: Iterable[Sequence[str]]) -> None:
    assert rows(PAGE.read_text(), header) == written(table)


def test_no_cell_ends_its_column() -> None:
    assert not [row for row in (*LIMITS, *DEVIATIONS) if "|" in "".join(row) or "\n" in "".join(row)]


def test_rows_are_told_apart_by_their_reasons() -> None:
    reasons = [limit.why for limit in LIMITS]
    assert len(set(reasons)) == len(reasons)
    assert not [reason for reason in reasons if ": " in reason]


@pytest.mark.parametrize(
    ("place", "reason", "covered"),
    [
        ("mounts[-a]", MARKED.why, True),
        ("mounts[-a]", f"{MARKED.why}: in detail", True),
        ("mounts", MARKED.why, False),
        ("mounts[-a]", "another", False),
    ],
)
def test_a_row_covers_the_refusals_at_its_places(place: str, reason: str, covered: bool) -> None:
    assert covers(MARKED, NotAdjustable(place, reason)) is covered


def test_dots_and_stars_of_a_place_are_not_mixed_up() -> None:
    limit = Limit("a.*", "", "b")
    assert covers(limit, limit.at("a.b.c"))
    assert not covers(limit, limit.at("aXb"))


@pytest.mark.parametrize(
    ("name", "place"),
    [("a", "p[a]"), ("\n", "p[\\n]"), ("\ud800", "p[\\ud800]"), ("x" * 200, f"p[{'x' * 100}]"), ("é", "p[é]")],
)
def test_names_are_shown_so_that_a_log_can_have_them(name: str, place: str) -> None:
    assert element("p", name) == place
