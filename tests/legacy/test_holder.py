"""The adapter's side of a hold: how long its loop waits for the keeper, how many it holds, and what it tells."""

from __future__ import annotations

import logging
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from nri import HoldEnd, api
from nri.holding import evidence
from nri.holding.evidence import Missing, NotHeld
from nri.holding.holds import Holds
from v010_adapter.events.holder import END, RETRY, Holder, WatchedHolds
from v010_adapter.legacy.request import Target
from v010_adapter.monitoring.trace import UNTRACED
from v010_adapter.settings import LegacySettings

from ..rig.loop import SteppedLoop
from ..rig.waiting import limit


@pytest.fixture
def holder(loop: SteppedLoop, tmp_path: Path) -> Holder:
    return Holder(loop, LegacySettings(), str(tmp_path))


def target(id_: str = "c1", pid: int = 1) -> Target:
    return Target(id_, "p1", pid, api.Container(id=id_), api.PodSandbox(id="p1"))


def holds(
    holder: Holder, id_: str, on_end: Callable[[HoldEnd], object] = print, due: float = 1.0, pid: int = 1
) -> bool:
    return holder.hold(target(id_, pid), "a create", "b", due=due, must_finish=True, on_end=on_end, trace=UNTRACED)


@pytest.mark.parametrize(("left", "wait"), [(-1.0, 0.05), (0.0, 0.05), (0.2, 0.2), (1.5, 0.5)])
def test_the_keeper_has_until_the_answer_is_due_but_not_long(
    holder: Holder, loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch, left: float, wait: float
) -> None:
    waits = []

    def hold(*arguments: object) -> None:
        waits.append(arguments[-1])
        raise NotHeld(Missing.NO_KEEPER)

    monkeypatch.setattr(Holds, "hold", hold)
    assert not holds(holder, "c1", due=loop.now + left)
    assert waits == [pytest.approx(wait)]
    assert holder.missing == {Missing.NO_KEEPER: 1}
    assert holder.limit < LegacySettings().hold_limit, "before the keeper ends the hold"


def test_a_keeper_that_was_closed_tells_the_loop_nothing_though_a_child_process_may_have_its_socket(
    tmp_path: Path, loop: SteppedLoop
) -> None:
    holds = WatchedHolds(f"{tmp_path}/holds", loop, lambda: pytest.fail("it is looked at"))
    holds.start_and_wait()
    copy = os.dup(holds.fileno())
    os.kill(holds.keeper, signal.SIGKILL)
    with limit("the keeper does not end"):
        select.select([copy], [], [])
    holds.close()
    loop.call_soon(loop.stop)
    loop.run()
    os.close(copy)


def test_no_more_are_held_at_once_than_the_setting_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop: SteppedLoop
) -> None:
    monkeypatch.setattr(Holds, "hold", lambda *_: Mock(end=None))
    monkeypatch.setattr(Holds, "end", lambda *_: HoldEnd.LET_GO)
    holder = Holder(loop, LegacySettings(hold_at_once=2), str(tmp_path))
    assert [holds(holder, id_) for id_ in ("c1", "c2", "c3")] == [True, True, False]
    assert (holder.missing, holder.notes) == ({Missing.TOO_MANY: 1}, [])
    holder.end("c1", None)
    assert holds(holder, "c4")


def test_a_reason_is_told_until_a_container_is_held_again(holder: Holder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holds, "hold", Mock(side_effect=[NotHeld(Missing.NO_KEEPER, "too slow"), Mock(end=None)]))
    assert (holds(holder, "c1"), len(holder.notes)) == (False, 1)
    assert (holds(holder, "c2"), holder.notes) == (True, [])


def test_a_state_directory_that_cannot_be_used_is_told_when_a_container_could_be_held_and_for_holds_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, loop: SteppedLoop
) -> None:
    monkeypatch.setattr(evidence, "waiting", Mock())
    (tmp_path / "state").touch()
    holder = Holder(loop, LegacySettings(), f"{tmp_path}/state")
    assert not holder.can_hold(target(), UNTRACED)
    assert holder.missing == {Missing.NO_RECORD: 1}
    caplog.clear()
    holder.end_left()
    [said] = caplog.messages
    assert said.startswith(f"containers that another adapter has held may wait on: {tmp_path}/state: ")


def test_a_container_whose_process_is_not_found_or_not_found_any_more_is_not_held(holder: Holder) -> None:
    assert not holder.can_hold(target(pid=0), UNTRACED)
    assert not holds(holder, "c1", pid=0)
    assert holder.missing == {Missing.NO_PID: 2}


def test_it_is_ready_when_its_keeper_has_started_which_ends_before_it_joins_again(
    holder: Holder, monkeypatch: pytest.MonkeyPatch, loop: SteppedLoop
) -> None:
    monkeypatch.setattr(evidence, "waiting", Mock())
    assert not holder.is_ready
    assert holder.can_hold(target(), UNTRACED)
    loop.until(lambda: holder.is_ready, "the keeper does not start")
    holder.end_left()
    assert not holder.is_ready


def test_a_hold_that_does_not_end_is_told_and_tried_again(
    holder: Holder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, loop: SteppedLoop
) -> None:
    monkeypatch.setattr(Holds, "hold", lambda *_: Mock(end=None))
    monkeypatch.setattr(Holds, "end", Mock(side_effect=[NotHeld(Missing.NO_KEEPER), HoldEnd.LET_GO]))
    assert holds(holder, "c1")
    holder.end("c1", None)
    (said,) = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert said.startswith("a create: its hold does not end, which is tried again: ")
    assert len(holder.describe()["held"]) == 1
    loop.advance(RETRY)
    described = holder.describe()
    assert (described["held"], list(described["times"])) == ([], ["let_go"])


def test_the_loop_does_not_wait_for_a_keeper_that_is_starting(holder: Holder, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []

    def end(_: Holds, hold: object, how: HoldEnd, timeout: float) -> HoldEnd:
        waits.append((how, timeout))
        return how

    monkeypatch.setattr(Holds, "hold", lambda *_: Mock(end=None))
    monkeypatch.setattr(Holds, "end", end)
    for id_, keeper, error in (("c1", 7, None), ("c2", 0, ValueError("no device"))):
        monkeypatch.setattr(Holds, "keeper", keeper)
        assert holds(holder, id_)
        holder.end(id_, error)
    assert waits == [(HoldEnd.LET_GO, END), (HoldEnd.REFUSED, 0)]


def test_who_has_asked_for_the_end_of_a_hold_is_not_told_of_it_when_the_keeper_ends_it_later(
    holder: Holder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, loop: SteppedLoop
) -> None:
    """The work that has asked is over: an input would be a bug."""
    told: list[HoldEnd] = []
    hold = Mock(end=None)
    monkeypatch.setattr(Holds, "hold", lambda *_: hold)
    monkeypatch.setattr(Holds, "end", Mock(side_effect=NotHeld(Missing.NO_KEEPER)))
    monkeypatch.setattr(Holds, "look", Mock())
    assert holds(holder, "c1", told.append)
    holder.end("c1", ValueError("no device"))
    hold.end = HoldEnd.REFUSED
    holder._on_told()
    assert (told, holder.describe()["held"]) == ([], [])
    assert caplog.messages[-1] == "a create: after it was held for 0.0 s, it is refused: no device"
    loop.advance(RETRY)
    assert len(caplog.messages) == 2, "nothing is tried again"
