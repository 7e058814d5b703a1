"""System calls of the state directory fail at random: nothing is raised, and what is wrong is told as long as it lasts.

While nothing is told, the next process owes after a kill exactly what this one owes. Each run has histories of its own:
it prints its seed, and TEST_SEED repeats it.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from adapter.host import lock, state_directory
from adapter.legacy.config import Entry
from adapter.legacy.request import Target
from adapter.nri import api
from adapter.owed import journal

from ..conftest import CI
from ..processes import open_descriptors
from .owning import Process

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


def test_a_fault_of_any_system_call_forgets_nothing_without_a_word_and_asks_for_no_delete_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
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
