from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..rig.loop import SteppedLoop
from .life import Life

Start = Callable[..., Life]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def start(loop: SteppedLoop, state: Path) -> Iterator[Start]:
    """Starts a process, after the death of those before unless it is to be `beside` them."""
    started: list[Life] = []

    def start_one(runtime: str = "containerd", *, beside: bool = False) -> Life:
        if not beside:
            for life in started:
                life.die()
            started.clear()
        started.append(Life(loop, state, runtime))
        return started[-1]

    yield start_one
    for life in started:
        life.die()
