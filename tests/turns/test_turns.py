"""Several adapters with one file of turns: who does the work of an event, and who may work on an id."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from v010_adapter.events import turns
from v010_adapter.events.turns import DONE, MINE, PAST, REPEAT, NoteState, Turn, obstacle_in, owners_in, stranger
from v010_adapter.state import turns_file
from v010_adapter.state.turns_file import JOINED, PLACE, TABLE, TurnsFile

from ..rig.processes import failing, open_descriptors
from .conftest import Adapter, Start

LONGEST = 1 << 20


def file(adapter: Adapter) -> Path:
    return Path(adapter.turns.directory.path, "turns")


def hold(fd: int, byte: int) -> None:
    """Locks a byte as another process does."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, turns_file._FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))


def table(adapter: Adapter) -> bytes:
    """All places, without the first line."""
    return file(adapter).read_bytes()[PLACE:TABLE]


# ---- joining


def test_an_adapter_knows_that_it_is_alone_until_another_joins(start: Start) -> None:
    first, second = start(), start(joined=False)
    assert not first.turns.look()
    second.turns.join()
    assert (first.turns.is_lost, first.changes[-1]) == (False, (True, False)), "what is asked from time to time looks"
    assert (first.turns.look(), second.turns.look()) == (True, True)
    assert (first.turns.has_others, owners_in(str(file(first).parents[1]))) == (True, ["", ""])
    second.turns.leave()
    assert not first.turns.has_others
    second.turns.join()
    second.die()
    assert not first.turns.look()
    assert first.changes[-2:] == [(True, False), (False, False)]


def test_an_adapter_that_is_alone_writes_no_note(start: Start) -> None:
    adapter = start()
    for _ in range(3):
        turn = adapter.comes()
        assert (adapter.turns.others_got(turn), adapter.turns.take(turn)) == (False, MINE)
        adapter.ends(turn)
    assert not table(adapter).strip(b"\0")


def test_what_an_adapter_has_answered_that_has_gone_since_is_done_though_the_next_one_has_seen_that_it_has_gone(
    start: Start,
) -> None:
    """The runtime may be slow to ask the next one, which looks once a second who has joined."""
    first, second = start(), start()
    assert first.serves("UpdateContainer") is MINE
    first.die()
    assert not second.turns.look()
    assert second.serves("UpdateContainer") is DONE
    written = table(second)
    assert [second.serves("UpdateContainer") for _ in range(2)] == [MINE, MINE]
    assert table(second) == written, "it is alone"


def test_an_adapter_that_has_left_and_works_on_counts_as_another_until_its_work_is_done(start: Start) -> None:
    first, second = start(), start()
    assert first.turns.lock("pod", "c1")
    first.turns.leave()
    assert (second.turns.has_others, second.turns.look()) == (False, True)
    first.turns.unlock("pod", "c1")
    assert not second.turns.look()


def test_a_file_that_many_have_joined_is_made_short_by_one_that_is_alone(start: Start) -> None:
    first = start()
    with file(first).open("ab") as grown:
        grown.truncate(LONGEST // 2)
    start().die()
    first.turns.join()
    assert file(first).stat().st_size > LONGEST // 2, "it is not worth it"
    os.truncate(file(first), LONGEST + 1)
    second = start()
    assert file(first).stat().st_size > LONGEST, "the first has a byte behind the table"
    second.die()
    first.turns.join()
    assert file(first).stat().st_size < TABLE + PLACE
    third = start()
    assert (first.turns.look(), third.turns.look()) == (True, True)


# ---- whose event it is


@pytest.mark.parametrize(("end", "fate"), [(None, REPEAT), (NoteState.FAILED, MINE), (NoteState.ANSWERED, DONE)])
def test_the_next_one_decides_by_the_end_of_the_one_before(start: Start, end: NoteState | None, fate: object) -> None:
    first, second = start(), start()
    assert first.serves(state=end) is MINE
    assert second.serves() is fate


def test_a_repeat_begins_when_the_first_adapter_began(start: Start) -> None:
    first, second, third = start(), start(), start()
    turn, _ = first.begins()
    first.die()
    repeated, fate = second.begins()
    assert (fate, repeated.at) == (REPEAT, turn.at)
    second.die()
    again, fate = third.begins()
    assert (fate, again.at) == (REPEAT, turn.at)


def test_what_was_answered_before_an_adapter_joined_is_not_taken_for_its_first_event_of_that_name(start: Start) -> None:
    first, _, third = start(), start(), start(joined=False)
    assert first.serves("UpdateContainer") is MINE
    third.turns.join()
    assert third.serves("UpdateContainer") is MINE


def test_what_was_read_too_late_is_not_taken_for_the_next_event_of_its_name(start: Start) -> None:
    first, second = start(), start()
    quiet = second.clock()
    assert first.serves("UpdateContainer") is MINE
    assert second.turns.others_got(second.turns.turn("UpdateContainer", "pod", "c1", quiet, timeout=0.5))
    assert second.serves("UpdateContainer") is MINE


def test_an_event_is_missed_also_if_its_server_has_gone_since(start: Start) -> None:
    first, second = start(), start()
    quiet = second.clock()
    assert first.serves() is MINE
    first.die()
    turn = second.turns.turn("StartContainer", "pod", "c1", quiet, timeout=0.5)
    assert (second.turns.others_got(turn), second.turns.take(turn)) == (True, DONE)
    assert not second.turns.others_got(second.comes())


def test_an_adapter_that_was_stopped_finds_that_all_was_served(start: Start) -> None:
    first, second = start(), start()
    quiet = second.clock()
    events = [("StartContainer", "c1"), ("StartContainer", "c2"), ("StopContainer", "c1"), ("StartContainer", "c3")]
    for event in events:
        assert first.serves(*event) is MINE
    found = [second.turns.take(second.turns.turn(method, "pod", id_, quiet, timeout=0.5)) for method, id_ in events]
    assert found == [PAST, DONE, DONE, DONE]


def test_an_event_that_was_answered_before_its_turn_goes_on_here_and_nowhere_else(start: Start) -> None:
    first, second, third = start(), start(), start()
    turn, _ = first.begins()
    waits, at_third = second.comes(), third.comes()
    second.turns.end(waits, NoteState.ANSWERED)
    assert third.turns.is_answered(at_third)
    first.die()
    assert (second.turns.take(waits), waits.at) == (REPEAT, turn.at), "what the first has noted is not repeated"
    assert third.turns.is_answered(at_third)
    second.turns.unlock("pod", "c1")
    assert third.turns.lock("pod", "c1"), "there is no lock for the answer, which has been sent"


def test_a_note_of_an_earlier_event_replaces_no_later_one_of_the_id(start: Start) -> None:
    first, second = start(), start()
    earlier = first.comes("UpdateContainer")
    first.turns.end(earlier, NoteState.ANSWERED)
    assert second.serves("UpdateContainer") is DONE
    first.turns.end(first.comes("UpdateContainer"), NoteState.ANSWERED)
    assert first.turns.take(earlier) is MINE
    first.turns.unlock("pod", "c1")
    assert second.serves("UpdateContainer") is DONE


def test_a_note_of_a_moment_that_has_not_come_has_been_garbled_and_is_replaced(start: Start) -> None:
    first, second = start(), start()
    for moment in ("1e300", "nan", "inf"):
        place = f"{moment} 7.aa answered StopContainer c1".encode().ljust(PLACE)
        with file(first).open("r+b") as table_:
            table_.seek(turns._place(first.comes()))
            table_.write(place)
        turn = first.comes()
        first.turns._write(turn, NoteState.ANSWERED)
        assert second.serves() is DONE


def test_what_is_done_elsewhere_is_done_though_its_note_has_been_replaced_since(start: Start) -> None:
    first, second = start(), start()
    waits = second.comes()
    assert first.serves() is MINE
    assert second.turns.is_answered(waits)
    place = turns._place(waits)
    other = next(id_ for id_ in map(str, range(10**6)) if turns._place(first.comes(id_=id_)) == place)
    assert first.serves(id_=other) is MINE
    assert second.turns.take(waits) is DONE


def test_an_end_that_was_read_too_late_is_not_noted_over_the_next_life(start: Start) -> None:
    first, second, third = start(), start(), start()
    quiet = second.clock()
    events = "StartContainer", "StopContainer"
    for method in events:
        assert (first.serves(method), third.serves(method)) == (MINE, DONE)
    assert first.serves("StartContainer") is MINE
    for method in events:
        late = second.turns.turn(method, "pod", "c1", quiet, timeout=0.5)
        assert second.turns.others_got(late)
        second.turns.take(late)
        second.ends(late)
    assert third.serves("StartContainer") is DONE


# ---- who may work on an id


def test_one_adapter_at_a_time_works_on_an_id_and_a_pod_covers_its_containers_which_stay_locked_after_it(
    start: Start,
) -> None:
    first, second = (start().turns for _ in range(2))
    assert first.lock("pod", "c1")
    assert [second.lock(*of) for of in (("pod", "c1"), ("pod", "pod"), ("pod", "c2"), ("other", "c1"))] == [
        *(False, False, True, True)
    ]
    first.unlock("pod", "c1")
    second.unlock("pod", "c2")
    assert all(second.lock("pod", id_) for id_ in ("pod", "c1"))
    assert not first.lock("pod", "c2")
    second.unlock("pod", "pod")
    assert [first.lock("pod", id_) for id_ in ("c1", "c2")] == [False, True]


def test_a_delete_that_no_event_asks_for_locks_its_id_and_looks_who_has_joined(start: Start) -> None:
    first, second = start(), start()
    assert first.turns.take_id("pod", "c1") is MINE
    assert first.changes[-1] == (True, False)
    assert (second.turns.lock("pod", "c1"), second.turns.take_id("pod", "c1")) == (False, None)


def test_on_a_file_system_without_locks_each_adapter_serves_and_the_log_says_so_once(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(turns_file, "fcntl", SimpleNamespace(**{**vars(fcntl), "fcntl": failing(errno.ENOLCK)}))
    first, second = start(), start()
    for adapter in (first, second):
        assert not adapter.turns.look()
        assert adapter.turns.lock("pod", "c1")
        adapter.turns.unlock("pod", "c1")
    text = f"{file(first)}: no locks: No locks available; an adapter beside this one serves the events, too"
    assert caplog.messages == [text] * 2


# ---- the file


@pytest.mark.parametrize("removed", ["the file", "its directory", "the state directory"])
def test_what_is_removed_is_made_again_with_locks_and_who_has_joined(
    start: Start, removed: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = start(), start()
    assert first.turns.lock("pod", "c1")
    path = file(first)
    if removed == "the file":
        path.unlink()
    else:
        shutil.rmtree(path.parent if removed == "its directory" else path.parents[1])
    first.turns.look()
    assert first.changes[-1] == (False, removed != "the file"), "the other one has not looked"
    assert caplog.messages == [f"{path.parent} was removed or replaced: it is in use again"]
    assert (second.turns.look(), first.turns.look()) == (True, True)
    assert not second.turns.lock("pod", "c1")
    assert [first.serves(id_="c2"), second.serves(id_="c2")] == [MINE, DONE]


def test_an_adapter_that_finds_the_file_removed_when_it_joins_keeps_its_locks(start: Start) -> None:
    first, second = start(), start(joined=False)
    assert first.turns.lock("pod", "c1")
    first.turns.leave()
    file(first).unlink()
    first.turns.join()
    second.turns.join()
    assert first.turns.has_others
    assert not second.turns.lock("pod", "c1")


def test_an_adapter_that_joins_while_another_one_does_locks_the_byte_of_its_own_line_only(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = start(joined=False), start(joined=False)
    lock = TurnsFile.lock

    def lock_after_another_has_joined(self: TurnsFile, *of: int) -> bool:
        with file(first).open("ab") as longer:
            longer.write(b"another joined\n")
        monkeypatch.setattr(TurnsFile, "lock", lock)
        return lock(self, *of)

    monkeypatch.setattr(TurnsFile, "lock", lock_after_another_has_joined)
    first.turns.join()
    assert second.turns.has_others
    with file(first).open("r+b") as asking:
        assert stranger(turns_file.owners(asking.fileno()), "another") == ""
    first.turns.leave()
    assert not second.turns.has_others


def test_who_looks_while_another_one_joins_looks_again_when_that_one_has_joined(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = start(), start(joined=False)
    lock = TurnsFile.lock

    def lock_after_a_look(self: TurnsFile, *of: int) -> bool:
        monkeypatch.setattr(TurnsFile, "lock", lock)
        assert not first.turns.look(), "the line is there, and its byte is not locked"
        return lock(self, *of)

    monkeypatch.setattr(TurnsFile, "lock", lock_after_a_look)
    second.turns.join()
    assert first.turns.look()


def test_an_event_after_a_join_has_not_come_to_those_who_had_gone_before(start: Start) -> None:
    adapter = start()
    turn = adapter.turns.turn("StartContainer", "pod", "c1", 0.0, timeout=1e6)
    assert not adapter.turns.is_shared(turn)


@pytest.mark.parametrize("joined", [True, False])
def test_a_full_disk_is_told_at_the_start_and_costs_no_note_later(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, joined: bool
) -> None:
    caplog.set_level("INFO")
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", failing(errno.ENOSPC))
        adapter = start(joined=joined)
        assert "No space left on device" in adapter.turns.fault
        assert adapter.turns.lock("pod", "c1")
        adapter.turns.unlock("pod", "c1")
    adapter.turns.look()
    assert adapter.turns.fault == ""
    assert caplog.records[-1].getMessage().endswith("the state directory is in use again")
    assert file(adapter).stat().st_size >= TABLE
    assert file(adapter).stat().st_blocks * 512 >= TABLE, "its blocks are there before a note needs them"


def test_who_joins_sees_that_one_without_room_for_the_file_has_joined(
    start: Start, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", failing(errno.ENOSPC))
        first = start()
        for _ in range(2):
            assert not first.turns.look()
        assert owners_in(str(state)) == [None]
        first.turns.leave()
        assert owners_in(str(state)) == []
        first.turns.join()
        assert owners_in(str(state)) == [None], "as often as it joins"
        file(first).unlink()
        first.turns.look()
        assert owners_in(str(state)) == [None], "in a new file, too"
        second = start(joined=False)
        second.turns.look()
        assert owners_in(str(state)) == [None], "the second one has not joined"
        assert second.turns.has_others
        assert first.turns.lock("pod", "c1")
        assert not second.turns.lock("pod", "c1")
    second.turns.join()
    first.turns.look()
    assert owners_in(str(state)) == ["", ""]
    assert not second.turns.lock("pod", "c1"), "the lock was kept when there was room again"
    assert [adapter.turns.fault for adapter in (first, second)] == ["", ""]


def test_no_room_for_a_line_is_told_and_looks_at_no_new_directory(
    start: Start, state: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = start()
    second = start(joined=False)
    with monkeypatch.context() as full:
        full.setattr(TurnsFile, "append", failing(errno.ENOSPC))
        second.turns.join()
        for _ in range(3):
            second.turns.look()
    assert "No space left on device" in second.turns.fault
    assert [record.levelname for record in caplog.records] == ["WARNING"], "it is said once"
    assert not any(is_remade for _, is_remade in second.changes)
    assert sorted(owners_in(str(state)), key=str) == ["", None]
    assert first.turns.has_others
    second.turns.leave()
    second.turns.look()
    assert not first.turns.has_others, "who has left does not join by a repair"


@pytest.mark.parametrize("missing", ["room", "room for the records of another one", "nothing"])
def test_none_joins_beside_another_one_without_room_for_what_both_must_know(
    start: Start, state: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    first = start()
    own = first.turns.directory.path
    before, opened = sorted(os.listdir(own)), len(open_descriptors())
    if missing == "room":
        monkeypatch.setattr(turns_file, "probe", failing(errno.ENOSPC))
        assert obstacle_in(str(state)) == f"{own}: No space left on device"
        first.turns.leave()
    elif missing != "nothing":
        for _ in range(2):
            first.turns.tell_unwritten(is_so=True)
        assert obstacle_in(str(state)) == f"{own}: an adapter cannot write its records there"
        file(first).rename(f"{own}/removed")
        first.turns.look()
        assert obstacle_in(str(state)) == f"{own}: an adapter cannot write its records there", "in the new file, too"
        os.unlink(f"{own}/removed")
        first.turns.tell_unwritten(is_so=False)
    assert obstacle_in(str(state)) == ""
    assert obstacle_in(f"{state}/missing") == ""
    assert owners_in(str(state)) == [""] * (missing != "room")
    assert sorted(os.listdir(own)) == before, "what was tried is removed"
    assert len(open_descriptors()) <= opened


def test_a_file_in_another_format_is_left_to_its_adapters_and_made_anew_without_them(
    start: Start, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = start()
    assert file(first).read_bytes().startswith(b"turns 1\n")
    newer = b"turns %d\n" % (turns_file.FORMAT + 1)
    with file(first).open("r+b") as its:
        its.write(newer)
    text = f"{file(first)} has format {turns_file.FORMAT + 1}, of another version of the adapter"
    assert obstacle_in(str(state)) == text
    second = start()  # as one that a runtime launches
    for _ in range(2):
        second.turns.look()
    assert second.turns.fault == f"{text}: its adapters and this one serve the same events"
    assert caplog.messages == [second.turns.fault]
    assert file(first).read_bytes().startswith(newer)
    assert [first.serves(), second.serves()] == [MINE, MINE]
    first.die()
    second.turns.look()
    assert (second.turns.fault, obstacle_in(str(state))) == ("", "")
    assert file(second).read_bytes().startswith(b"turns 1\n")


def test_a_note_that_cannot_be_written_is_a_fault(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = start(), start()
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", failing(errno.EIO))
        assert first.serves() is MINE
    assert first.turns.fault.startswith(f"{file(first)}: Input/output error")
    assert second.serves() is MINE


def test_each_id_has_a_place_of_the_table_and_bytes_of_its_own_below_those_of_joining() -> None:
    for pod, id_ in (("a", "a"), ("a", "b"), ("\udcff", "ü" * 300), ("", "")):
        begin, length = turns._span(pod, id_)
        assert TABLE < begin < begin + length <= JOINED
    assert [turns._span("pod", id_) for id_ in ("pod", "c1")] == [(0x30A636C000000, 1 << 24), (0x30A636CD72B00, 1)]
    assert turns._place(Turn("", "pod", "c1", 0, 0, deadline=0, floor=0, later=0)) == 172544, "FORMAT says where"
    places = {turns._place(Turn("", "", id_, 0, 0, deadline=0, floor=0, later=0)) for id_ in map(str, range(20000))}
    assert places == set(range(PLACE, TABLE, PLACE))


def test_an_adapter_that_was_stopped_while_it_joined_keeps_no_other_one_from_joining(start: Start) -> None:
    first, second = start(joined=False), start(joined=False)
    with file(first).open("r+b") as stopped:
        hold(stopped.fileno(), JOINED + file(first).stat().st_size)
        first.turns.join()
        second.turns.join()
    assert (first.turns.has_others, second.turns.has_others) == (True, True)
    first.turns.leave()
    assert not second.turns.has_others


def test_all_who_have_joined_are_seen_in_whatever_order_they_came(start: Start, state: Path) -> None:
    """The kernel keeps the locks of an open file together, in the order of its first one."""
    first, second = start(joined=False), start()
    assert first.turns.lock("pod", "c1")
    first.turns.join()
    second.turns.leave()
    second.turns.join()
    first.turns.join()
    assert owners_in(str(state)) == ["", ""]


@pytest.mark.parametrize(
    ("line", "owner"),
    [
        (b"1.0123456789ab joined other\n", "other"),
        (b"1.0123456789ab joined \n", ""),
        (b"1.0123456789ab joined own\n", None),
        (b"\xff\x00 other\n", None),
        (b"1.0123456789ab joined oth", None),
    ],
)
def test_only_a_whole_line_tells_that_an_adapter_of_another_owner_has_joined(
    tmp_path: Path, line: bytes, owner: str | None
) -> None:
    file = tmp_path / "turns"
    file.write_bytes(bytes(TABLE) + line)
    with file.open("r+b") as its_own, file.open("r+b") as asking:
        hold(its_own.fileno(), JOINED + TABLE)
        joined = turns_file.owners(asking.fileno())
        assert (len(joined), stranger(joined, "own")) == (1, owner)
