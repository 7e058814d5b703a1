"""Fixtures of the sample tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from .plugins import SAMPLES

DEFAULT_DIRECTORY = "/run/nri/dump"


@pytest.fixture
def tame_dump(tmp_path: Path) -> Path:
    """A copy of `dump` whose default directory lies in the test's own folder: `default` beside it."""
    script = (SAMPLES / "dump").read_text()
    assert script.count(f'"{DEFAULT_DIRECTORY}"') == 1
    copy = tmp_path / "dump"
    copy.write_text(script.replace(f'"{DEFAULT_DIRECTORY}"', f'"{tmp_path}/default"'))
    copy.chmod(0o755)
    return copy
