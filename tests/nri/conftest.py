"""Fixtures of the stub's tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield f"{directory}/nri.sock"
