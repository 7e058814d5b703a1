"""Fixtures of the contract's tests: no time of a real runtime decides about a test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nri.testing import Late, launch
from nri.testing.contract import ending, joining, requests, starts, watched
from nri.testing.plugin import Plugin
from tests.rig.brief import CI
from tests.rig.embedded import forked, plugins
from tests.rig.simulation import simulate
from tests.rig.waiting import LIMIT

__all__ = ["plugins", "simulate"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks plugins off, and waits longer than a slow machine needs for the end of one."""
    monkeypatch.setattr(starts, "spawn", forked)
    monkeypatch.setattr(ending, "END", LIMIT)
    monkeypatch.setattr(ending, "CONNECT", LIMIT)


@pytest.fixture(autouse=True)
def brief(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a person waits, does not play the runtime's end, which takes two processes, and plays smaller nodes."""
    if CI:
        return
    if not {"executed", "played_to_the_end"} & set(request.fixturenames):
        monkeypatch.setattr(ending, "_ends_with", lambda *_: True)
    monkeypatch.setattr(ending, "REPEATS", 10)
    monkeypatch.setattr(requests, "PER_PART", 100)
    for name, number in (("PODS", 200), ("CONTAINERS", 1000)):
        for module in (joining, requests):
            monkeypatch.setattr(module, name, number)


@pytest.fixture
def played_to_the_end() -> None:
    """Always plays the runtime's end."""


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executes plugins after all."""
    monkeypatch.setattr(starts, "spawn", launch.spawn)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No plugin is waited for while it waits for the answer to its UpdateContainers."""

    def wait(self: watched.Watched, done: Callable[[], bool], timeout: float) -> None:
        Plugin._wait(self, lambda: done() or bool(self._held), timeout)
        if not done():
            raise Late("no answer")

    monkeypatch.setattr(watched.Watched, "_wait", wait)
