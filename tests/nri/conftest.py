"""Fixtures of the stub's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from .host import Host


@pytest.fixture
def host(short_path: Path) -> Host:
    """A runtime's place, where it does not listen yet."""
    return Host(f"{short_path}/nri.sock")
