"""What the tests of the adapter under Go runtimes share: a legacy chain, and the versions of NRI."""

from __future__ import annotations

from pathlib import Path

import pytest

from .build import VERSIONS
from .harness import Chain, Host


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


@pytest.fixture
def host(shared: Host) -> Host:
    """The host that a module shares, with an empty chain."""
    shared.chain.clear()
    shared.runtime.play("calls")
    shared.runtime.play("updates")
    return shared
