"""What keeps the benchmark from lying. How long anything takes is no test's subject."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import adjusting, events, hooks, instructions, large, load, pods, report
from tests.bench.arena import FRESH, REFERENCE, STAND_BY, Arena, Unfair, family, recorded
from tests.bench.figures import Bench, Goal, Row, Times
from tests.peers.build import peer
from tests.peers.harness import require
from tests.rig.brief import few
from tests.rig.waiting import limit

ONCE = Bench(effort=0, say=print)
START = [recorded("StartContainer")]


@pytest.fixture
def arena() -> Iterator[Arena]:
    with Arena() as found:
        yield found


def test_sides_whose_plugins_run_differently_often_are_not_compared(arena: Arena) -> None:
    arena.launch_reference(REFERENCE, arena.chain(REFERENCE, [peer("plugin")] * 2))
    arena.launch_ours(FRESH, {"legacy": arena.chain(FRESH, [peer("plugin")])})
    with pytest.raises(Unfair, match=r"have run \{'reference': 4, 'fresh': 2\}"):
        arena.compare(ONCE, 0, (REFERENCE, FRESH), START)
    with pytest.raises(Unfair, match=r"have run \{'reference': 6, 'fresh': 3\}"):
        arena.rounds(ONCE, 0, "pods", (REFERENCE, FRESH), START, count=3)


@pytest.mark.ci
def test_sides_of_which_one_adjusts_are_not_compared(arena: Arena) -> None:
    hooks.launch(arena, hooks.write(arena.directory / "hooks.d", "literals", 1))
    arena.launch_reference(REFERENCE, arena.chain(REFERENCE, []))
    with pytest.raises(Unfair, match=r"adjustments were \{'reference': 0, 'fresh': 2\}"):
        arena.compare(ONCE, 0, (REFERENCE, FRESH), [hooks.create()])


@pytest.mark.ci
def test_the_plugins_that_adjust_make_the_same_adjustments(arena: Arena) -> None:
    adjusting.launch(arena)
    played = [arena.runtime.play("event", host=side, **recorded("CreateContainer")) for side in arena.pids]
    assert [each.error for each in played] == ["", "", ""]
    assert [each.adjust for each in played] == [played[0].adjust] * 3
    assert "env" in (played[0].adjust or {})


def test_a_failed_event_is_no_sample(arena: Arena) -> None:
    arena.launch_reference(REFERENCE, arena.chain(REFERENCE, [Path("/bin/false")]))
    with pytest.raises(Unfair, match="reference: "):
        arena.compare(ONCE, 0, [REFERENCE], START)


@pytest.mark.ci
def test_every_way_is_in_the_report_and_stand_by_is_what_it_says(
    monkeypatch: pytest.MonkeyPatch, arena: Arena, tmp_path: Path
) -> None:
    monkeypatch.setattr(events, "BLOCK", 2)
    monkeypatch.setattr(pods, "COUNTS", {3: 0})
    rows = list(events.measure(ONCE, arena, "one Go plugin", [peer("plugin")]))
    with limit("a process of the plugin stands by"):
        while names(arena.pids[STAND_BY]).count("plugin0") != 1:
            pass
    assert "plugin0" not in names(arena.pids[FRESH])
    with Arena() as another:
        rows += pods.measure(ONCE, another, "one Go plugin", [peer("plugin")])
    assert {(row.group, row.way.partition(",")[0]) for row in rows} >= {
        (group, way) for group in (*events.PACES, events.MEMORY_GROUP, f"3 {pods.LAST}") for way in (FRESH, STAND_BY)
    }
    report.write(tmp_path, report.machine(), rows, ["a reason"])
    assert len(json.loads((tmp_path / "report.json").read_text())["rows"]) == len(rows)
    text = (tmp_path / "report.txt").read_text()
    assert all(part in text for row in rows for part in (row.group, row.case, "not measured: a reason"))


@pytest.mark.ci
def test_large_containers_are_played_until_there_is_something_to_compare(
    monkeypatch: pytest.MonkeyPatch, arena: Arena
) -> None:
    monkeypatch.setattr(large, "SIZE", 1000)
    arena.launch_ours(FRESH, {"legacy": arena.chain(FRESH, [peer("plugin")])})
    row = large.measure(ONCE, arena, "StartContainer", "one Go plugin")
    assert (row.samples, arena.runs(FRESH)) == (large.FIRST + 1, large.FIRST + 1)
    assert row.ours.p50 > 1
    assert row.ratio is not None


def test_a_goal_is_met_or_not() -> None:
    for ours, theirs, goal, is_met in (
        (Times(4, 9), Times(10, 10), Goal(0.5, 0.9), True),
        (Times(4, 9), Times(10, 10), Goal(0.5, 0.8), False),
        (Times(4, 99), Times(10, 10), Goal(0.5), True),
        (Times(4, 4), Times(1, 1), Goal(5, absolute=True), True),
        (Times(6, 6), None, Goal(5, absolute=True), False),
        (Times(4, 9), Times(10, 10), None, None),
    ):
        assert Row("", "", "", 1, ours, theirs, goal=goal).met is is_met, (ours, theirs, goal)
    assert (Times.of([*range(100, 0, -1)]), Times.of([3000], 1000)) == (Times(51, 100), Times(3, 3))


def test_a_verdict_tells_by_how_much_and_none_is_passed_on_an_interpreter_that_nobody_has() -> None:
    met = Row("", "", "", 1, Times(4, 8), Times(10, 10), goal=Goal(0.5, 0.9))
    missed = replace(met, goal=Goal(0.32, 0.9))
    optimised, slow = ({"python": f"3.13.5 {word}"} for word in (report.OPTIMISED, "built without a profile"))
    assert [report.verdict(optimised, row) for row in (met, missed)] == ["met by 11%", "MISSED by 25%"]
    assert {report.verdict(slow, row) for row in (met, missed)} == {"not representative"}
    assert report.verdict(optimised, replace(met, goal=None)) == ""
    assert "not representative: python 3.13.5 built without a profile" in [*report.table(slow, [met], [])]
    assert not any("not representative" in line for line in report.table(optimised, [met], []))


@pytest.mark.parametrize("case", few(instructions.CASES, 1), ids=lambda case: case.name)
def test_the_adapter_does_what_its_instructions_are_counted_for(case: instructions.Case, tmp_path: Path) -> None:
    instructions.play(case, 2, tmp_path)
    (tmp_path / "more").mkdir()
    with pytest.raises(Unfair, match="programs"):
        instructions.play(replace(case, programs=case.programs + 1), 2, tmp_path / "more")


def names(pid: int) -> list[str]:
    """The names of a process and of those that it has started."""
    return [Path(f"/proc/{each}/cmdline").read_text().split("\0")[0] for each in family(pid)]


@pytest.mark.ci
def test_a_load_is_compared_by_each_percentile(capsys: pytest.CaptureFixture[str]) -> None:
    load.main(require("idle"), pods=2 * load.TURNS)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"CreateContainer p{part}" for part in load.PERCENTILES]
