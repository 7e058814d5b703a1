"""Fixtures of the tests of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ..processes import Fifo, Programs, SteppedLoop
from .run import Run


@pytest.fixture
def shell(loop: SteppedLoop, programs: Programs) -> Callable[..., Run]:
    """Runs a shell script."""

    def run(text: str, request: bytes = b"{}") -> Run:
        return Run(loop, programs.shell("plugin", text), request)

    return run


@pytest.fixture
def said(programs: Programs, loop: SteppedLoop) -> Iterator[Fifo]:
    """The way back."""
    fifo = programs.fifo("said")
    yield fifo
    fifo.close()
