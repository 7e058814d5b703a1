"""The legacy bridge in random histories of a node, a few where a person waits: the promises hold in each of them.

`histories` makes them; `judge` knows the promises. Each run has histories of its own: it prints its seed, and TEST_SEED
repeats it. `tests.turns` has histories of several adapters.
"""

from __future__ import annotations

import logging
import random

import pytest

from ..rig.brief import CI
from .histories import History
from .judge import Judge

FEW, MANY = 30, 300
"""How many are tried: where a person waits, and in CI."""
BATCHES = 4


@pytest.mark.parametrize("batch", range(BATCHES))
def test_each_create_gets_one_delete_and_each_event_one_answer_in_time(
    batch: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(f"{seed} {batch}")  # noqa: S311 - no secret
    logging.disable()
    try:
        for _ in range((MANY if CI else FEW) // BATCHES):
            number = dice.getrandbits(32)
            history = History(number, monkeypatch)
            try:
                history.play(steps=40)
                Judge(history).judge()
            except Exception as error:
                raise AssertionError(f"History({number}): {error}") from error
    finally:
        logging.disable(logging.NOTSET)
