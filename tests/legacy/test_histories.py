"""The legacy bridge in random histories of a node, a few where a person waits: the promises hold in each of them.

`histories`, `lives` and `surges` make them; `judge` knows the promises. Each run has histories of its own: it prints
its seed, and TEST_SEED repeats it.
"""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest

from ..conftest import CI
from .histories import History
from .judge import Judge
from .lives import Lives
from .surges import Surges

KINDS: list[tuple[type[History], int, int]] = [(History, 30, 300), (Lives, 10, 100), (Surges, 4, 100)]
"""The kinds of histories, and how many of each are tried: where a person waits, and in CI."""
BATCHES = 4


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize(("kind", "few", "many"), KINDS, ids=[kind.__name__ for kind, *_ in KINDS])
def test_each_create_gets_one_delete_and_each_event_one_answer_in_time(
    kind: type[History], few: int, many: int, batch: int, seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dice = random.Random(f"{seed} {batch}")  # noqa: S311 - no secret
    logging.disable()
    try:
        for _ in range((many if CI else few) // BATCHES):
            number = dice.getrandbits(32)
            more = (tmp_path / str(number),) if issubclass(kind, Lives) else ()
            history = kind(number, monkeypatch, *more)
            try:
                history.play(steps=40)
                (history if isinstance(history, Lives) else Judge(history)).judge()
            except Exception as error:
                raise AssertionError(f"{kind.__name__}({number}): {error}") from error
    finally:
        logging.disable(logging.NOTSET)
