"""System calls of the state directory fail at random: nothing is raised, and what is wrong is told as long as it lasts.

While nothing is told, the next process owes after a kill exactly what this one owes. Each run has histories of its own:
it prints its seed, and TEST_SEED repeats it.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from adapter.host import lock, state_directory
from adapter.host.lock import Lock
from adapter.legacy.config import Entry
from adapter.legacy.request import Target
from adapter.nri import api
from adapter.owed import journal
from adapter.owed.handover import RETRY

from ..conftest import CI
from ..processes import NO_PROCESS, open_descriptors
from .node import Node
from .owning import Held, Process

ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.ESTALE)
CALLS = ("open", "fstat", "stat", "rename", "ftruncate", "unlink", "mkdir", "write", "pwrite", "pread")
ENTRIES = (Entry("a", 0, "0.1", None), Entry("b", 0, "0.1", b"{}"))
Owed = set[tuple[str, Entry]]


class Faults:
    """Lets system calls of the modules that use the state directory fail, each with a probability."""

    def __init__(self, dice: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dice = dice
        self.share = 0.0
        failing = {name: self._failing(getattr(os, name)) for name in CALLS}
        failing |= {name: self._short(failing[name]) for name in ("write", "pwrite")}
        for module in (state_directory, lock, journal):
            monkeypatch.setattr(module, "os", SimpleNamespace(**{**vars(os), **failing}))
        monkeypatch.setattr(journal, "open", self._failing(lambda *of, **how: File(self, *of, **how)), raising=False)

    def meets(self) -> bool:
        return self.dice.random() < self.share

    def perhaps(self) -> None:
        if self.meets():
            number = self.dice.choice(ERRORS)
            raise OSError(number, os.strerror(number))

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def fails(*of: Any, **how: Any) -> Any:
            self.perhaps()
            return call(*of, **how)

        return fails

    def _short(self, write: Callable[..., int]) -> Callable[..., int]:
        return lambda fd, data, *at: write(fd, data[: self.dice.randrange(len(data)) if self.meets() else None], *at)


class File:
    """A file whose reads and writes may fail."""

    def __init__(self, faults: Faults, *of: Any, **how: Any) -> None:
        self._faults = faults
        self._file = open(*of, **how)  # noqa: SIM115 - who opens it closes it

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        for line in self._file:
            self._faults.perhaps()
            yield line

    def __getattr__(self, name: str) -> Any:
        self._faults.perhaps()
        return getattr(self._file, name)


class History:
    """A process that owns a state directory, and those after it."""

    def __init__(self, dice: random.Random, faults: Faults, state: Path) -> None:
        self.dice, self.faults, self.state = dice, faults, state
        self.life = Process(state)
        self.model: Owed = set()

    def play(self, steps: int) -> None:
        descriptors = len(open_descriptors())
        happenings = (self.create, self.create, self.delete, self.care, self.care, self.kill)
        for _ in range(steps):
            self.faults.share = self.dice.choice((0.0, 0.0, 0.05, 0.3, 1.0))
            self.dice.choice(happenings)()
            self.faults.share = 0.0
            assert self.owed() == self.model
        self.life.care()
        assert self.life.fault == ""
        assert len(open_descriptors()) == descriptors
        self.kill()

    def owed(self) -> Owed:
        by_key, owing = {entry.key: entry for entry in ENTRIES}, self.life.ledger.keys
        return {(id_, by_key[key]) for id_, key in owing()}

    def create(self) -> None:
        id_, entry = f"c{self.dice.randrange(5)}", self.dice.choice(ENTRIES)
        labels = {"x": "y" * self.dice.randrange(100)}
        self.model.add((id_, entry))
        self.life.ledger.add(Target(id_, "pod", 7, api.Container(), api.PodSandbox(labels=labels)), entry)

    def delete(self) -> None:
        for entry in self.life.ledger.begin_deletes(id_ := f"c{self.dice.randrange(5)}"):
            self.life.ledger.end_delete(id_, entry)
            self.model.discard((id_, entry))

    def care(self) -> None:
        self.life.care()

    def kill(self) -> None:
        """It may have died in the middle of a record."""
        self.life.care()
        is_told = self.life.fault != ""
        self.faults.share = 0.0
        self.life.die()
        if self.dice.random() < 0.3 and (self.state / "journal").exists():
            with (self.state / "journal").open("ab") as file:
                file.write(b'{"created":"c1","na')
        self.faults.share = self.dice.choice((0.0, 0.3))
        self.life = Process(self.state)
        self.faults.share = 0.0
        self.life.care()
        assert is_told or self.owed() == self.model
        self.model = self.owed()


def test_failed_system_calls_are_told_or_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    for number in range(600 if CI else 60):
        dice = random.Random(f"{seed} {number}")  # noqa: S311 - no secret
        with monkeypatch.context() as patch:
            history = History(dice, Faults(dice, patch), tmp_path / str(number))
            try:
                history.play(steps=40)
            except Exception as error:
                raise AssertionError(f"history {number}: {error!r}") from error
            finally:
                history.faults.share = 0.0
                history.life.die()


# The state directory is full, refused, removed or replaced

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


def test_what_a_full_disk_has_kept_out_is_written_when_it_can_be(state: Path, caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_state_directory_that_could_not_be_opened_is_used_as_soon_as_it_can_be(state: Path) -> None:
    before = Process(state)
    for id_ in ("ends", "lasts"):
        before.ledger.add(target(id_), A)
    before.die()
    state.chmod(0o777)  # writable for all
    life = Process(state)
    for id_ in ("ends", "new"):
        life.ledger.add(target(id_), A)
    life.care()
    assert "what is owed is forgotten with this process" in life.fault
    life.ledger.end_delete("ends", life.ledger.begin_deletes("ends")[0])
    state.chmod(0o700)
    life.care()
    assert life.fault == ""
    assert sorted(life.ledger.ids()) == ["lasts", "new"]
    assert after_a_kill(state, life) == {"lasts": ["a"], "new": ["a"]}


def made_anew(state: Path) -> None:
    shutil.rmtree(state)
    state.mkdir(mode=0o700)
    (state / "journal").touch(mode=0o600)


REMOVED: dict[str, Callable[[Path], object]] = {
    "the directory": shutil.rmtree,
    "the directory, made anew": made_anew,
    "the lock": lambda state: (state / "lock").unlink(),
    "the journal": lambda state: (state / "journal").unlink(),
}


@pytest.mark.parametrize("what", REMOVED)
def test_what_is_removed_is_made_anew_with_all_that_is_owed_and_no_other_is_the_owner(what: str, state: Path) -> None:
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
    node.bridge.ledger.resume_from(None)


def test_what_an_event_finds_wrong_a_timer_sees_to_and_none_runs_while_nothing_is(serving: tuple[Node, Path]) -> None:
    node, state = serving
    assert node.loop.is_idle
    shutil.rmtree(state)
    state.touch()
    node.bridge.handover.repair()
    assert node.bridge.describe()["state_fault"].startswith(f"{state}: ")
    state.unlink()
    node.loop.advance(2 * RETRY)
    assert node.bridge.describe()["state_fault"] == ""
    assert b'"created":"c1"' in (state / "journal").read_bytes()
    assert node.loop.is_idle


def test_a_delete_asks_with_less_than_is_kept(serving: tuple[Node, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The pid may be another process's here; it may also be one that is only hidden from this adapter."""
    node, state = serving
    known = node.bridge.ledger.target("c1")
    assert known is not None
    known.started = 5
    monkeypatch.setattr("adapter.host.cgroup.start_time", lambda _: 0)
    (node.folder / "a").rename(node.folder / "away")
    node.wait(node.delete("c1"))
    (state / "journal").unlink()
    node.bridge.handover.repair()  # it is written anew
    assert b'"pid":%d,"started":5' % NO_PROCESS in (state / "journal").read_bytes()
    (node.folder / "away").rename(node.folder / "a")
    node.wait(node.delete("c1"))
    assert "pid" not in node.requests("a")[-1]
