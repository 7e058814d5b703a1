"""The legacy bridge in thousands of random histories of a node: the promises hold in each of them.

`histories` makes them, `judge` knows the promises.
"""

from __future__ import annotations

import logging

import pytest

from .histories import History
from .judge import Judge

BATCHES = 6
HISTORIES = 50


@pytest.mark.parametrize("batch", range(BATCHES))
def test_each_create_gets_one_delete_and_each_event_one_answer_in_time(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logging.disable()
    try:
        for seed in range(batch * HISTORIES, (batch + 1) * HISTORIES):
            history = History(seed, monkeypatch)
            try:
                history.play(steps=40)
                Judge(history).judge()
            except Exception as error:
                raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        logging.disable(logging.NOTSET)
