"""Fixtures of the stub's tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest

from .host import Host


@pytest.fixture
def path() -> Iterator[str]:
    """A path that is short enough for a socket's address."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield f"{directory}/nri.sock"


@pytest.fixture
def host(path: str) -> Host:
    return Host(path)
