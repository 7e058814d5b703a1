"""Fixtures: a runtime with a directory of its own, and a plugin's holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.holding.holds import Holds

from ..rig.brief import few
from .oci import RUNTIMES, OciRuntime, need


@pytest.fixture(params=few(sorted(RUNTIMES), 1))
def oci(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OciRuntime]:
    """runc or crun."""
    need(request.param)
    runtime = OciRuntime(request.param, tmp_path)
    yield runtime
    runtime.clear()


@pytest.fixture
def holds(tmp_path: Path) -> Iterator[Holds]:
    """The holds of a plugin, which ends with the test."""
    holds = Holds(str(tmp_path / "holds"))
    yield holds
    holds.close()
