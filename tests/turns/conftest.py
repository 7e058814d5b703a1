from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from v010_adapter.events.turns import Fate, NoteState, Turn, Turns
from v010_adapter.state.runtime_directory import RuntimeDirectory

from ..rig.serving import kill


class Adapter:
    """One adapter. Open files of one process exclude each other as processes do."""

    def __init__(self, state: Path, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.turns = Turns(RuntimeDirectory(str(state), "containerd"), clock)
        self.changes: list[tuple[bool, bool]] = []
        """What the records have been told: whether others may write them, and whether the directory is a new one."""
        self.turns.on_change = lambda *change: self.changes.append(change)

    def comes(self, method: str = "StartContainer", id_: str = "c1", pod: str = "pod") -> Turn:
        """An event that comes now."""
        return self.turns.turn(method, pod, id_, self.clock(), 1e6)

    def begins(self, method: str = "StartContainer", id_: str = "c1", pod: str = "pod") -> tuple[Turn, Fate | None]:
        """The turn of an event that comes now, and its fate, None if another adapter works on the id."""
        turn = self.comes(method, id_, pod)
        return turn, self.turns.take(turn)

    def ends(self, turn: Turn, state: NoteState | None = NoteState.ANSWERED) -> None:
        self.turns.end(turn, state)
        self.turns.unlock(turn.pod, turn.id)

    def serves(
        self, method: str = "StartContainer", id_: str = "c1", state: NoteState | None = NoteState.ANSWERED
    ) -> Fate:
        turn, fate = self.begins(method, id_)
        assert fate is not None
        self.ends(turn, state)
        return fate

    def die(self) -> None:
        kill(self.turns)


Start = Callable[..., Adapter]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def start(state: Path) -> Iterator[Start]:
    """Starts an adapter beside those before; it has joined unless told otherwise."""
    started: list[Adapter] = []
    clock = map(float, count(1))

    def start_one(*, joined: bool = True) -> Adapter:
        started.append(made := Adapter(state, lambda: next(clock)))
        if joined:
            made.turns.join()
        return made

    yield start_one
    for adapter in started:
        adapter.die()
