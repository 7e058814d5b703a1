"""The ledger through the deaths of adapters: in thousands of random histories each create has its one delete."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from .lives import Lives
from .surges import Surges

BATCHES = 4
HISTORIES = 25


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("kind", [Lives, Surges])
def test_each_create_has_one_delete_though_adapters_are_killed_and_replaced(
    kind: type[Lives], batch: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    logging.disable()
    try:
        for seed in range(batch * HISTORIES, (batch + 1) * HISTORIES):
            history = kind(seed, monkeypatch, tmp_path / str(seed))
            try:
                history.play(steps=40)
                history.judge()
            except Exception as error:
                raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        logging.disable(logging.NOTSET)
