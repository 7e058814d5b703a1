"""Fixtures of the stub's tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest

from .host import Host


@pytest.fixture
def host() -> Iterator[Host]:
    """A runtime at a path that is short enough for a socket's address."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Host(f"{directory}/nri.sock")
