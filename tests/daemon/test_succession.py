"""Which events run when one adapter follows another, in a table: each row is what two adapters of a node see."""

from __future__ import annotations

from typing import Any, NamedTuple

from adapter.daemon.succession import Event, Succession
from adapter.host.lock import NOTHING, Served, Told
from adapter.nri import Context, api


def event(name: str, came: float = 0.0) -> Event:
    method, id_ = name.split()
    request: Any = api.RunPodSandboxRequest() if method.endswith("PodSandbox") else api.StartContainerRequest()
    (request.pod if method.endswith("PodSandbox") else request.container).id = id_
    return Event(request, Context(method, 2.0, lambda: 0.0, 0.0), came)


class Row(NamedTuple):
    """Moments are seconds; the adapter has joined at 10."""

    left: list[tuple[str, float]]
    """The events that were left to the owner, and when."""
    served: Served
    """What the owner told at its release."""
    lost: list[str]
    """The events that were left and run now."""
    comes: str
    """The next event of the runtime."""
    is_done: bool = False
    """Whether the previous owner has served that one."""


A, B, C = "StartContainer a", "StartContainer b", "StopContainer a"

ROWS = {
    "the owner served what was left": Row([(A, 20)], Served(A, "", 20), [], B),
    "the owner was asked first and ended with its answer": Row([(A, 20)], Served(B, A, 21), [], B, is_done=True),
    "nothing was left, and the first event is done": Row([], Served(A, "", 11), [], A, is_done=True),
    "it was done before this adapter joined: it is another event": Row([], Served(A, "", 9), [], A),
    "an event is skipped only if it is the next one": Row([], Served(A, "", 11), [], B),
    "the owner ended before it got what was left": Row([(B, 20)], Served(A, "", 19), [B], C),
    "the owner was killed: nobody knows": Row([(B, 20)], NOTHING, [B], C),
    "nothing was left to an owner that was killed": Row([], NOTHING, [], A),
    "a later event proves that it got what was left": Row([(A, 20)], Served(C, B, 22), [], C, is_done=True),
    "the same event again, after the one that was left": Row([(A, 20)], Served(A, "", 20), [], A),
    "an older version tells no moment": Row([(A, 20)], Served(A), [], B),
    "the owner had no connection for a while": Row([(A, 20), (B, 21), (C, 22)], Served(A, "", 19), [B, C], A),
    "the owner was killed: only the last event is in doubt": Row([(A, 20), (B, 21)], NOTHING, [B], C),
}


def test_no_event_is_lost_and_none_runs_twice() -> None:
    for what, row in ROWS.items():
        mine = Succession()
        mine.join(10.0)
        for name, moment in row.left:
            mine.note_left(event(name, moment))
        assert [lost.name for lost in mine.take_over(row.served)] == row.lost, what
        assert mine.is_done(event(row.comes)) == row.is_done, what
        assert not mine.is_done(event(row.comes)), f"{what}: once only"


def test_the_next_owner_is_told_the_last_two_events_but_not_one_whose_answer_was_not_heard() -> None:
    mine = Succession()
    assert mine.served == Served("", "", 0.0)
    events = [event(name, float(number)) for number, name in enumerate((A, "RunPodSandbox p", B))]
    for each in events:
        mine.note_begun(each)
    assert mine.served == Served(B, "RunPodSandbox p", 2.0), "the answer to the last is on its way"
    mine.note_answered(events[1].context)
    mine.disconnect()
    assert mine.served == Served("RunPodSandbox p", "", 1.0)


def test_after_another_join_nothing_of_before_counts() -> None:
    mine = Succession()
    mine.note_left(event(A, 5.0))
    mine.take_over(Served(B, "", 6.0))
    mine.join(10.0)
    assert mine.take_over(NOTHING) == []
    assert not mine.is_done(event(B))


def test_an_owner_that_has_served_nothing_passes_on_what_it_was_told() -> None:
    mine = Succession()
    mine.join(10.0)
    assert mine.take_over(Served(B, A, 9.0)) == []
    assert mine.served == Served(B, A, 9.0)
    mine.note_left(event(A, 11.0))
    mine.note_left(event(C, 12.0))
    assert len(mine.take_over(Served(B, A, 10.0))) == 1
    assert mine.served == Served(C, B, 12.0), "what was lost runs now"
    mine.take_over(NOTHING)
    assert mine.served == Served("", "", 10.0), "it has got each event since it joined"


class Gap(NamedTuple):
    """The owner's connection was lost after the event at 19; it joins again at 30. This adapter has joined at 10."""

    left: list[tuple[str, float]]
    """The events that were left to the owner, before it joined again and after that."""
    told: Told
    """What the owner tells since it has joined again."""
    missed: list[str]
    """The events that nobody serves but this adapter, when it is the owner."""


SINCE_30 = Told(30, Served("RunPodSandbox p", "", 19))

GAPS = {
    "the owner was away": Gap([(A, 20), (B, 31)], SINCE_30, [A]),
    "it knows from its Synchronize what has ended": Gap([(C, 20), (B, 21)], SINCE_30, [B]),
    "what has ended since needs no create": Gap([(A, 20), (B, 21), (C, 31)], SINCE_30, [B]),
    "it was there": Gap([(A, 31)], SINCE_30, []),
    "it was there first": Gap([(A, 20)], Told(5, Served("RunPodSandbox p", "", 4)), []),
    "it had served what was left": Gap([(A, 20), (B, 21)], Told(30, Served(A, "", 20.5)), [B]),
    "the owner before was killed: it may have served them": Gap([(A, 20), (B, 21), (C, 31)], Told(30, NOTHING), []),
}


def test_what_an_owner_missed_before_it_joined_is_for_one_that_had_joined_earlier() -> None:
    for what, gap in GAPS.items():
        mine = Succession()
        mine.join(10.0)
        early = [left for left in gap.left if left[1] < gap.told.since]
        for name, moment in early:
            mine.note_left(event(name, moment))
        assert mine.note_owner(gap.told) == bool(gap.missed), what
        for name, moment in gap.left[len(early) :]:
            mine.note_left(event(name, moment))
        told_at_release = Served(gap.left[-1][0], "", 40)
        assert [each.name for each in mine.take_over(told_at_release)] == gap.missed, what


def test_of_two_that_have_missed_events_the_first_owner_runs_them() -> None:
    mine = Succession()
    mine.join(10.0)
    mine.note_left(event(A, 20))
    assert mine.note_owner(SINCE_30)
    assert mine.note_owner(SINCE_30), "until this adapter is the owner"
    assert not mine.note_owner(Told(9, Served(B, "", 31))), "it had joined before the event, and had it, too"
    assert mine.take_over(Served(B, "", 40)) == []


def test_the_moment_of_an_event_that_is_read_after_the_hang_up_proves_nothing() -> None:
    """The runtime has passed on the events after it to others, perhaps before this adapter read it."""
    owner, mine = Succession(), Succession()
    owner.join(9.0)
    mine.join(10.0)
    late = event(C, 22)
    late.context.is_heard = False
    for served in (event(A, 19), late):
        owner.note_begun(served)
        owner.note_answered(served.context)
    for name, moment in ((C, 20), (B, 21)):
        mine.note_left(event(name, moment))
    assert [each.name for each in mine.take_over(owner.served)] == [B]
