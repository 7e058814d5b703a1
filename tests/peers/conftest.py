"""What the tests of the adapter under Go runtimes share: a legacy chain, the versions of NRI, a host for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.brief import few

from .build import VERSIONS
from .harness import Chain, Host, launched

SETTINGS = """  plugins:
    lenient: {onFailure: ignore}
    adjusting: {events: [CreateContainer]}
    asking: {events: [StartContainer]}
runtime: {reserve: 1}
"""


@pytest.fixture(scope="module", params=few(VERSIONS))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


@pytest.fixture(scope="module")
def shared(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    directory = tmp_path_factory.mktemp("host")
    chain = Chain(directory)
    with launched(chain, directory, version, SETTINGS, {"make_pods": 1, "make_containers": 1}) as runtime:
        yield Host(runtime, chain)


@pytest.fixture
def host(shared: Host) -> Host:
    """The host that a module shares, with an empty chain."""
    shared.chain.clear()
    shared.runtime.play("calls")
    shared.runtime.play("updates")
    return shared
