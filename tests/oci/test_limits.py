"""The tables in the documentation are those of the code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

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


def test_the_documentation_has_the_tables_and_no_cell_ends_its_column() -> None:
    for header, table in ((LIMITS_HEADER, LIMITS), (DEVIATIONS_HEADER, DEVIATIONS)):
        assert rows(PAGE.read_text(), header) == written(table)
        assert not [row for row in table if "|" in "".join(row) or "\n" in "".join(row)]


def test_rows_are_told_apart_by_their_reasons() -> None:
    reasons = [limit.why for limit in LIMITS]
    assert len(set(reasons)) == len(reasons)
    assert not [reason for reason in reasons if ": " in reason]


def test_a_row_covers_the_refusals_at_its_places() -> None:
    """Dots and stars of a place are not mixed up."""
    covered = [("mounts[-a]", MARKED.why), ("mounts[-a]", f"{MARKED.why}: in detail")]
    assert all(covers(MARKED, NotAdjustable(*one)) for one in covered)
    assert not any(covers(MARKED, NotAdjustable(*one)) for one in (("mounts", MARKED.why), ("mounts[-a]", "another")))
    limit = Limit("a.*", "", "b")
    assert (covers(limit, limit.at("a.b.c")), covers(limit, limit.at("aXb"))) == (True, False)


NAMES = {"a": "p[a]", "\n": "p[\\n]", "\ud800": "p[\\ud800]", "x" * 200: f"p[{'x' * 100}]", "é": "p[é]"}


def test_names_are_shown_so_that_a_log_can_have_them() -> None:
    assert {name: element("p", name) for name in NAMES} == NAMES
