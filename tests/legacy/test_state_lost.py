"""The state directory is full, refused, removed or replaced: it is told as long as it lasts, and nothing is lost."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from adapter.host.lock import Lock
from adapter.legacy.config import Entry
from adapter.legacy.request import Target
from adapter.nri import api
from adapter.owed.handover import RETRY

from ..processes import open_descriptors
from .node import Node
from .owning import Held, Process

A, B = Entry("a", 0, "0.1", None), Entry("b", 0, "0.1", None)


def target(id_: str) -> Target:
    return Target(id_, "pod", 7, api.Container(), api.PodSandbox())


def after_a_kill(directory: Path, life: Process) -> dict[str, list[str]]:
    """What the next process owes."""
    life.die()
    after = Process(directory)
    owed = {id_: [entry.type for entry in after.ledger.begin_deletes(id_)] for id_ in after.ledger.ids()}
    after.die()
    return owed


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@contextmanager
def full(state: Path) -> Iterator[None]:
    """No file grows."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (state / "journal").stat().st_size + 20
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def no_descriptors(_: Path) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def writable_for_all(state: Path) -> Iterator[None]:
    state.mkdir(exist_ok=True)
    state.chmod(0o777)
    yield
    state.chmod(0o700)


def test_what_a_full_disk_has_kept_out_is_written_as_soon_as_there_is_room(
    state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    life = Process(state)
    life.ledger.add(target("before"), A)
    descriptors = open_descriptors()
    with full(state):
        for number in range(3):
            life.ledger.add(target(f"c{number}"), A)
            life.care()
        life.ledger.end_delete("c0", life.ledger.begin_deletes("c0")[0])
        assert life.fault.startswith(f"{state}/journal: ")
        assert life.fault.endswith(": what is owed is forgotten with this process (state.directory)")
    assert [record.levelname for record in caplog.records] == ["ERROR"], "it is said once"
    life.care()
    assert (life.fault, len(open_descriptors())) == ("", len(descriptors))
    assert after_a_kill(state, life) == {"before": ["a"], "c1": ["a"], "c2": ["a"]}


@pytest.mark.parametrize("hindrance", [no_descriptors, writable_for_all])
def test_a_state_directory_that_could_not_be_opened_is_used_as_soon_as_it_can_be(
    hindrance: Callable[[Path], AbstractContextManager[None]], state: Path
) -> None:
    before = Process(state)
    for id_ in ("ends", "lasts"):
        before.ledger.add(target(id_), A)
    before.die()
    with hindrance(state):
        life = Process(state)
        life.ledger.add(target("ends"), A)
        life.ledger.add(target("new"), A)
        life.care()
        assert "what is owed is forgotten with this process" in life.fault
        life.ledger.end_delete("ends", life.ledger.begin_deletes("ends")[0])
    life.care()
    assert life.fault == ""
    assert not Lock(str(state)).take()
    assert sorted(life.ledger.ids()) == ["lasts", "new"]
    assert after_a_kill(state, life) == {"lasts": ["a"], "new": ["a"]}


def made_anew(state: Path) -> None:
    shutil.rmtree(state)
    state.mkdir(mode=0o700)
    (state / "journal").touch(mode=0o600)


REMOVED: dict[str, Callable[[Path], object]] = {
    "the directory": shutil.rmtree,
    "the directory, renamed": lambda state: state.rename(state.with_suffix(".old")),
    "the directory, made anew": made_anew,
    "the lock": lambda state: (state / "lock").unlink(),
    "the journal": lambda state: (state / "journal").unlink(),
}


@pytest.mark.parametrize("what", REMOVED)
def test_what_is_removed_is_made_anew_with_all_that_is_owed_and_no_other_becomes_the_owner(
    what: str, state: Path
) -> None:
    life, waits = Process(state), Lock(str(state))
    life.ledger.add(target("c1"), A)
    life.ledger.add(target("c1"), B)
    assert not waits.take()
    REMOVED[what](state)
    assert not waits.take()
    life.care()
    assert (life.owner.is_held, life.fault) == (True, "")
    assert not waits.take()
    assert not Lock(str(state)).take()
    assert after_a_kill(state, life) == {"c1": ["a", "b"]}
    assert waits.take()


def test_who_was_slower_than_another_adapter_is_the_owner_no_more(state: Path) -> None:
    life = Process(state)
    lost: list[bool] = []
    life.owner.on_lost = lambda: lost.append(True)
    shutil.rmtree(state)
    faster = Process(state)
    life.care()
    assert (life.owner.is_held, lost) == (False, [True])
    assert not life.owner.take()
    faster.die()
    assert life.owner.take()


def test_who_has_released_the_lock_misses_nothing_that_its_successor_replaces(
    state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    life = Process(state)
    life.ledger.add(target("c1"), A)
    life.owner.release(())
    after = Process(state)
    (state / "journal").unlink()
    after.care()
    caplog.clear()
    life.care()
    assert (life.fault, caplog.records) == ("", [])


def test_a_record_that_the_disk_has_torn_spoils_none_of_another_adapter_that_writes_behind_it(state: Path) -> None:
    """Neither those of the owner, nor those of the one before, whose chains go on."""
    before = Process(state)
    for id_ in ("c1", "c2"):
        before.ledger.add(target(id_), A)
    (under_way,) = before.ledger.begin_deletes("c1")
    before.owner.release(["c1", "c3"])
    after = Process(state)
    with full(state):
        after.ledger.add(target("c4"), A)
    before.ledger.end_delete("c1", under_way)
    with full(state):
        before.ledger.add(target("c5"), A)  # this one is lost: only the owner can write the journal anew
    after.ledger.add(target("c6"), A)
    before.ledger.add(target("c3"), A)
    before.die()
    after.ledger.read_again()
    assert sorted(after.ledger.ids()) == ["c2", "c3", "c4", "c6"]
    after.care()
    assert after_a_kill(state, after) == {id_: ["a"] for id_ in ("c2", "c3", "c4", "c6")}


# The bridge


@pytest.fixture
def serving(node: Node) -> Iterator[tuple[Node, Path]]:
    """A node whose bridge has run a create."""
    state = node.folder / "state"
    owner = Held(str(state))
    node.build(lock=owner)
    node.plugins(a="answer")
    assert owner.take()
    node.take_over([], [])
    node.wait(node.create("c1"))
    yield node, state
    node.delete("c1")
    node.idle()
    node.bridge.release()
    owner.die()
    node.bridge.ledger.keep_in(None)


def test_what_an_event_finds_wrong_a_timer_sees_to_without_events_and_none_runs_while_nothing_is_wrong(
    serving: tuple[Node, Path],
) -> None:
    node, state = serving
    assert node.loop.is_idle
    shutil.rmtree(state)
    state.touch()
    node.bridge.keep_state()
    assert node.bridge.state_fault.startswith(f"{state}: ")
    state.unlink()
    node.loop.advance(2 * RETRY)
    assert node.bridge.state_fault == ""
    assert b'"created":"c1"' in (state / "journal").read_bytes()
    assert node.loop.is_idle


def test_what_a_delete_asks_with_is_not_what_the_ledger_keeps(
    serving: tuple[Node, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pid may be another process's here; it may also be one that is only hidden from this adapter."""
    node, state = serving
    known = node.bridge.ledger.target("c1")
    assert known is not None
    known.started = 5
    monkeypatch.setattr("adapter.host.cgroup.start_time", lambda _: 0)
    (node.folder / "a").rename(node.folder / "away")
    node.wait(node.delete("c1"))
    (state / "journal").unlink()
    node.bridge.keep_state()  # it is written anew
    assert b'"pid":22,"started":5' in (state / "journal").read_bytes()
    (node.folder / "away").rename(node.folder / "a")
    node.wait(node.delete("c1"))
    assert "pid" not in node.requests("a")[-1]
