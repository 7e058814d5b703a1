"""A launched adapter under the runtime side that containerd and CRI-O have: killed or dropped, it is back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemon.process import children_of

from .build import VERSIONS
from .harness import LIFE, NAME, POD, Chain, GoRuntime, play
from .harness import launched as launched_alone
from .test_runtime import NEWER, ended, stopped


class Family:
    """A runtime that takes external plugins too, and the three processes of the adapter that it has launched."""

    def __init__(self, runtime: GoRuntime) -> None:
        self.runtime = runtime
        (self.launched,) = (plugin.pid for plugin in runtime.play("plugins").plugins)
        (self.guard,) = children_of(self.launched)
        self.pidfds = [os.pidfd_open(pid) for pid in (self.launched, self.guard, self.server)]

    @property
    def server(self) -> int:
        (pid,) = children_of(self.guard)
        return pid

    def joins_again(self, *killed: int) -> int:
        """Waits until the runtime has the adapter as an external plugin; returns the pid that the runtime knows.

        `killed` are servers that it may still know.
        """
        before = [self.launched, *killed]
        there = self.runtime.play("wait", plugin=NAME, **{"not": before})
        assert there.error == ""
        (pid,) = (plugin.pid for plugin in there.plugins if plugin.pid not in before)
        return pid


@contextmanager
def launched(chain: Chain, directory: Path, version: str) -> Iterator[Family]:
    settings = f"runtime: {{socket: {directory}/nri.sock}}\n"
    with launched_alone(chain, directory, version, settings, socket=directory / "nri.sock") as runtime:
        family = Family(runtime)
        try:
            yield family
        finally:
            for fd in family.pidfds:
                os.close(fd)


def test_a_server_that_is_killed_twice_comes_back_and_serves_the_rest_of_a_life(
    chain: Chain, tmp_path: Path, version: str
) -> None:
    chain.add("plugin")
    half = [recorded.event for recorded in LIFE].index("StopContainer")
    with launched(chain, tmp_path, version) as family:
        for recorded in LIFE[:half]:
            play(family.runtime, recorded)
        first = family.server
        os.kill(first, signal.SIGKILL)
        second = family.joins_again()
        os.kill(second, signal.SIGKILL)
        assert family.joins_again(second) == family.server
        for recorded in LIFE[half:]:
            play(family.runtime, recorded)
    assert len(chain.requests("plugin")) == 4


@pytest.mark.parametrize("version", [version for version in VERSIONS if version not in NEWER])
def test_an_adapter_that_is_dropped_for_being_late_joins_again(chain: Chain, tmp_path: Path, version: str) -> None:
    with launched(chain, tmp_path, version) as family:
        server = family.server
        with stopped(family.guard, server), family.runtime.impatient(300):
            assert family.runtime.event("RunPodSandbox", POD).names == []
            assert ended(family.pidfds[0]), "the runtime kills the process that it launched"
        assert family.joins_again() == server
        for recorded in LIFE:
            play(family.runtime, recorded)


@pytest.mark.parametrize("is_external", [False, True])
def test_nothing_outlives_the_runtime(chain: Chain, tmp_path: Path, version: str, is_external: bool) -> None:
    with launched(chain, tmp_path, version) as family:
        if is_external:
            os.kill(family.server, signal.SIGKILL)
            family.pidfds.append(os.pidfd_open(family.joins_again()))
        family.runtime.kill()
        assert all(map(ended, family.pidfds))
