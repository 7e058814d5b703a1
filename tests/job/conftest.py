"""What the tests of stand-by share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from adapter.host import paths

from ..processes import Programs, SteppedLoop, children
from .stage import Stage


@pytest.fixture
def stage(
    loop: SteppedLoop, programs: Programs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Stage]:
    monkeypatch.setattr(paths, "TIMESTAMP_STEP", -1)  # the programs of tests are young
    caplog.set_level(logging.INFO)
    made = Stage(loop, programs)
    yield made
    made.standby.close()
    for fifo in made.fifos:
        fifo.close()
    loop.until(lambda: not children(), "programs are left")
    loop.settle()
