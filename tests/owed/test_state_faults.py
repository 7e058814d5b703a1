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
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nri import api
from v010_adapter.host import private_directory
from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.request import Target
from v010_adapter.state import runtime_directory, turns_file
from v010_adapter.state.runtime_directory import RESERVE, RESERVED, ROOM

from ..rig.brief import CI
from ..rig.loop import SteppedLoop
from ..rig.processes import at_most, open_descriptors
from .conftest import Start
from .life import Life

ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.ESTALE)
CALLS = (
    *("open", "fstat", "fstatvfs", "stat", "rename", "ftruncate", "posix_fallocate", "unlink", "mkdir"),
    *("write", "pwrite", "pread", "listdir"),
)
A, B = Entry("a", 0, "0.1", None), Entry("b", 0, "0.1", b"{}")
Owed = set[tuple[str, Entry]]


class Faults:
    """Lets system calls of the modules that use the state directory fail, each with a probability."""

    def __init__(self, dice: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dice = dice
        self.share = 0.0
        failing = {name: self._failing(getattr(os, name)) for name in CALLS}
        failing |= {name: self._short(failing[name]) for name in ("write", "pwrite")}
        for module in (private_directory, runtime_directory, turns_file):
            monkeypatch.setattr(module, "os", SimpleNamespace(**{**vars(os), **failing}))

    def meets(self) -> bool:
        return self.dice.random() < self.share

    def _failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def fails(*of: Any, **how: Any) -> Any:
            if self.meets():
                number = self.dice.choice(ERRORS)
                raise OSError(number, os.strerror(number))
            return call(*of, **how)

        return fails

    def _short(self, write: Callable[..., int]) -> Callable[..., int]:
        return lambda fd, data, *at: write(fd, data[: self.dice.randrange(len(data)) if self.meets() else None], *at)


class History:
    """A process that has a state directory, and those after it."""

    def __init__(self, dice: random.Random, faults: Faults, loop: SteppedLoop, state: Path) -> None:
        self.dice, self.faults, self.loop, self.state = dice, faults, loop, state
        self.life = Life(loop, state)
        self.model: Owed = set()

    def play(self, steps: int) -> None:
        descriptors = open_descriptors()
        happenings = (self.create, self.create, self.delete, self.care, self.care, self.kill)
        for _ in range(steps):
            self.faults.share = self.dice.choice((0.0, 0.0, 0.05, 0.3, 1.0))
            self.dice.choice(happenings)()
            self.faults.share = 0.0
            assert self.owed() == self.model
        self.life.care()
        assert self.life.fault == ""
        assert len(open_descriptors()) <= len(descriptors)
        self.kill()

    def owed(self) -> Owed:
        by_key = {entry.key: entry for entry in (A, B)}
        return {(id_, by_key[key]) for id_ in self.life.ledger.ids() for key in self.life.ledger.keys(id_, 0)}

    def create(self) -> None:
        id_, entry = f"c{self.dice.randrange(5)}", self.dice.choice((A, B))
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
        self.life.care()
        is_told = self.life.fault != ""
        self.life.die()
        self.faults.share = self.dice.choice((0.0, 0.3))
        self.life = Life(self.loop, self.state)
        self.faults.share = 0.0
        self.life.care()
        self.life.care()
        assert is_told or self.owed() == self.model
        self.model = self.owed()


def test_failed_system_calls_are_told_or_harmless(
    tmp_path: Path, loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    for number in range(600 if CI else 60):
        dice = random.Random(f"{seed} {number}")  # noqa: S311 - no secret
        with monkeypatch.context() as patch:
            history = History(dice, Faults(dice, patch), loop, tmp_path / str(number))
            try:
                history.play(steps=40)
            except Exception as error:
                raise AssertionError(f"history {number}: {error!r}") from error
            finally:
                history.faults.share = 0.0
                history.life.die()


# The state directory is full, refused, removed or replaced


def target(id_: str) -> Target:
    return Target(id_, "pod", 7, api.Container(), api.PodSandbox())


def after_a_kill(start: Start) -> dict[str, list[str]]:
    """What the next process owes."""
    ledger = start().ledger
    return {id_: [entry.type for entry in ledger.begin_deletes(id_)] for id_ in sorted(ledger.ids())}


def test_what_a_full_disk_has_kept_out_is_written_when_it_can_be(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    life = start()
    for id_ in ("before", "ends"):
        life.ledger.add(target(id_), A)
    descriptors = open_descriptors()
    with at_most(20, resource.RLIMIT_FSIZE):  # no new file gets a byte
        for number in range(3):
            life.ledger.add(target(f"c{number}"), A)
            life.care()
        for id_ in ("c0", "ends"):
            life.ledger.end_delete(id_, life.ledger.begin_deletes(id_)[0])
        assert life.fault.startswith(f"{life.state}/+pod+c")
        assert life.fault.endswith(": what is owed is forgotten with this process (state.directory)")
        assert not (life.state / "+pod+ends").exists(), "to remove a file needs no room"
        assert not life.ledger.is_needed, "there is nobody who could read them"
    reserve, fault = (record.getMessage() for record in caplog.records)  # each is said once
    assert reserve.endswith(": no room is left: records take the reserve, which has room for 256")
    assert fault.endswith(": what is owed is forgotten with this process (state.directory)")
    life.care()
    assert life.fault == ""
    assert len(open_descriptors()) <= len(descriptors)
    assert after_a_kill(start) == {"before": ["a"], "c1": ["a"], "c2": ["a"]}


def no_room() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Disk:
    """A disk that others have filled: it has the room that files of the state directory give up."""

    def __init__(self, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
        self._state = life.state
        self.left = 0
        self._most = self._used()
        self.inodes = -1
        """How many are left; -1 where the file system does not count them, as btrfs: it tells 0."""
        self.names = 256
        """The names that fit into the directory before it needs a block more, as on ext4."""
        calls = {"write": self._write, "rename": self._rename, "fstatvfs": self._left}
        calls |= {"posix_fallocate": self._allocate, "open": self._open}
        monkeypatch.setattr(runtime_directory, "os", SimpleNamespace(**{**vars(os), **calls}))

    def _left(self, _: int) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=self._free() // 4096, f_frsize=4096, f_favail=max(self.inodes, 0))

    def _used(self) -> int:
        return sum((path.stat().st_size + 4095) // 4096 * 4096 for path in self._state.iterdir())

    def _free(self) -> int:
        return self._most + self.left - self._used()

    def _write(self, fd: int, text: bytes) -> int:
        written = os.write(fd, text)
        if self._free() < 0:
            os.ftruncate(fd, 0)
            raise no_room()
        return written

    def _rename(self, old: str, new: str, **how: int) -> None:
        if len(list(self._state.iterdir())) > self.names:
            if self._free() < 4096:
                raise no_room()
            self.left -= 4096
            self.names += 256
        os.rename(old, new, **how)

    def _allocate(self, fd: int, start: int, size: int) -> None:
        os.posix_fallocate(fd, start, size)
        if self._free() < 0:
            os.ftruncate(fd, start)
            raise no_room()

    def _open(self, path: str, flags: int, *of: int, **how: int) -> int:
        if flags & os.O_CREAT and self.inodes == 0:
            raise no_room()
        return os.open(path, flags, *of, **how)


def test_a_disk_that_others_have_filled_has_a_reserve_for_the_records(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = start()
    reserve = life.state / RESERVE
    assert reserve.stat().st_blocks * 512 == RESERVED
    disk = Disk(life, monkeypatch)
    ids = [f"c{number:03}" for number in range(257)]
    for id_ in ids[:80]:
        life.ledger.add(target(id_), A)
    assert life.fault == ""
    assert 0 < reserve.stat().st_size < RESERVED
    assert after_a_kill(start) == {id_: ["a"] for id_ in ids[:80]}
    life = start()
    for id_ in ids[80:]:
        life.ledger.add(target(id_), A)
    life.care()
    assert reserve.stat().st_size == 0
    assert "No space left on device" in life.fault
    disk.left = 3 * RESERVED // 2
    life.care()
    assert life.fault == ""
    life.ledger.end_delete("c000", life.ledger.begin_deletes("c000")[0])
    assert reserve.stat().st_size == 0, "it would take more than half of the room"
    disk.left = 3 * RESERVED
    life.ledger.end_delete("c001", life.ledger.begin_deletes("c001")[0])
    assert reserve.stat().st_blocks * 512 == RESERVED


def test_a_name_for_which_the_directory_needs_room_has_that_of_the_reserve(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = start()
    disk = Disk(life, monkeypatch)
    disk.names, disk.left = 0, 4096
    life.ledger.add(target("c1"), A)
    assert life.fault == ""
    assert after_a_kill(start) == {"c1": ["a"]}


def test_a_reserve_that_was_cut_is_filled_at_the_next_delete_whoever_has_cut_it(start: Start) -> None:
    life = start()
    reserve = life.state / RESERVE
    gives_up: list[Callable[[], object]] = [reserve.unlink, lambda: os.truncate(reserve, 0)]
    for give_up in gives_up:
        life.ledger.add(target("c1"), A)
        give_up()
        life.ledger.end_delete("c1", life.ledger.begin_deletes("c1")[0])
        assert reserve.stat().st_blocks * 512 == RESERVED


def test_a_reserve_that_is_too_long_is_cut_at_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    life = start()
    os.truncate(life.state / RESERVE, 32 * RESERVED)
    Disk(life, monkeypatch)
    life.ledger.add(target("c1"), A)
    assert life.fault == ""
    assert (life.state / RESERVE).stat().st_size < RESERVED


def test_no_room_is_given_up_where_inodes_are_lacking(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    life = start()
    disk = Disk(life, monkeypatch)
    disk.inodes, disk.left = 0, 2 * RESERVED
    life.ledger.add(target("c1"), A)
    assert "No space left on device" in life.fault
    assert (life.state / RESERVE).stat().st_size == RESERVED
    assert "records take" not in caplog.text


def test_who_joins_on_a_full_disk_without_a_reserve_is_told_that_it_is_full(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = start()
    reserve = life.state / RESERVE
    Disk(life, monkeypatch)
    assert turns_file.obstacle(str(life.state)) == ""
    changes: list[Callable[[], object]] = [lambda: os.truncate(reserve, ROOM - 1), reserve.unlink]
    for change in changes:
        change()
        Disk(life, monkeypatch)
        assert turns_file.obstacle(str(life.state)) == f"{life.state}: No space left on device"


def test_a_state_directory_that_could_not_be_opened_is_used_as_soon_as_it_can_be(start: Start, state: Path) -> None:
    before = start()
    for id_ in ("ends", "lasts"):
        before.ledger.add(target(id_), A)
    state.chmod(0o777)  # writable for all
    life = start()
    for id_ in ("ends", "new"):
        life.ledger.add(target(id_), A)
    life.care()
    assert "what is owed is forgotten with this process" in life.fault
    life.ledger.end_delete("ends", life.ledger.begin_deletes("ends")[0])
    state.chmod(0o700)
    life.care()
    life.care()
    assert life.fault == ""
    assert sorted(life.ledger.ids()) == ["lasts", "new"]
    assert after_a_kill(start) == {"lasts": ["a"], "new": ["a"]}


def made_anew(state: Path) -> None:
    shutil.rmtree(state)
    state.mkdir(mode=0o700)


REMOVED: dict[str, Callable[[Life], object]] = {
    "the state directory": lambda life: shutil.rmtree(life.state.parent),
    "the state directory, made anew": lambda life: made_anew(life.state.parent),
    "the directory of the runtime": lambda life: shutil.rmtree(life.state),
    "the directory of the runtime, made anew": lambda life: made_anew(life.state),
}


@pytest.mark.parametrize("is_being_read", [False, True])
@pytest.mark.parametrize("what", REMOVED)
def test_what_is_removed_is_made_again_with_all_that_is_owed(what: str, start: Start, *, is_being_read: bool) -> None:
    life = start()
    for entry in (A, B):
        life.ledger.add(target("c1"), entry)
    life.ledger.add(target("c2"), A)
    life.ledger.begin_deletes("c2")
    if is_being_read:
        life.ledger.read_all()
    REMOVED[what](life)
    life.loop.settle()
    for _ in range(2):
        assert life.ledger.ids() == ["c1"]
        life.care()
    assert life.fault == ""
    assert after_a_kill(start) == {"c1": ["a", "b"], "c2": ["a"]}, "a delete that runs is owed until it has ended"


def test_what_another_adapter_has_written_in_the_new_directory_counts(start: Start) -> None:
    life = start()
    life.ledger.add(target("c1"), A)
    shutil.rmtree(life.state.parent)
    assert life.directory.names("+", is_alone=True) == [], "that there are none is known"
    start(beside=True).ledger.add(target("c1"), B)
    life.care()
    assert after_a_kill(start) == {"c1": ["b"]}


def test_after_the_directory_was_removed_the_next_adapter_learns_what_the_one_before_knows(start: Start) -> None:
    life = start()
    life.ledger.add(target("c1"), A)
    shutil.rmtree(life.state.parent)
    after = start(beside=True)
    assert after.ledger.ids() == []
    assert not after.turns.has_others
    life.care()  # as an idle adapter does once in a second
    assert after.turns.look()
    after.ledger.refresh(target("c1"))
    assert after.ledger.begin_deletes("c1") == (A,)
