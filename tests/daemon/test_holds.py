"""Containers that a running daemon holds, end to end, with processes that wait for their start as runc's init does.

`tests/legacy` has every case on a stepped clock, `tests/holding` the runtimes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from nri import api
from nri.testing import Created
from nri.testing.runtime import Outcome
from nri.wire import Code

from ..rig.daemon import Daemon, kill_tree
from ..rig.machine import HURRIED, HURRY, POD, Gate, Machine, container
from ..rig.processes import gone, killed
from ..rig.sockets import listening
from ..rig.waiting import LIMIT
from .conftest import Ask

AT_ONCE = {"holdAfter": 0}

Make = Callable[..., Created]
Begin = Callable[..., tuple[Daemon, Gate, Created]]


@pytest.fixture
def created() -> Iterator[Make]:
    """Makes a created container, whose events go to a daemon."""
    with ExitStack() as stack:

        def make(daemon: Daemon, id_: str = "c1", timeout: float = LIMIT) -> Created:
            request = api.StartContainerRequest(pod=POD, container=container(id_))

            def play(request: api.StartContainerRequest) -> Outcome:
                reply = daemon.call(request, timeout)
                return Outcome("StartContainer", error=reply.message if reply.code else "")

            return stack.enter_context(Created(request, play))

        yield make


@pytest.fixture
def begun(node: Machine, created: Make) -> Begin:
    """Launches a daemon, and starts a container, which is held for the plugin `slow`."""

    def begin(when: str = "") -> tuple[Daemon, Gate, Created]:
        gate = node.slow(when=when)
        node.configure("slow")
        daemon = node.launch(AT_ONCE)
        container = created(daemon)
        assert container.start().error == ""
        gate.arrival()
        assert container.is_held
        return daemon, gate, container

    return begin


def keepers(state: Path) -> list[int]:
    """The keepers whose records are in a state directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if os.fsencode(state / "holds") in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def test_a_container_waits_for_its_plugin_and_others_do_not(begun: Begin, created: Make) -> None:
    daemon, gate, first = begun(when='"id":"c1"')
    second = created(daemon, "c2")
    assert second.start().error == ""
    assert second.runs()
    assert first.is_held
    daemon.logged("INFO create of container default/web/c1 (c1): the container is held: it waits for slow")
    gate.let_on()
    assert first.runs()
    daemon.logged("INFO create of container default/web/c1 (c1): after it was held for", "it starts")


@pytest.mark.deadline
def test_by_default_it_is_held_when_its_time_is_up(node: Machine, created: Make) -> None:
    gate = node.slow()
    node.configure("slow")
    daemon = node.launch()
    first = created(daemon, timeout=3)
    assert first.start().error == ""
    gate.arrival()
    assert first.is_held
    gate.let_on()
    assert first.runs()


def test_a_process_that_waits_for_nothing_is_not_held_and_the_log_and_status_say_why_once(
    node: Machine, asked: Ask
) -> None:
    gate = node.slow(when='"state":"create"')
    node.configure("slow")
    daemon = node.launch(AT_ONCE, patch=HURRY)
    for id_ in ("c1", "c2"):
        request = api.StartContainerRequest(pod=POD, container=container(id_))
        request.container.pid = os.getpid()
        assert daemon.call(request, HURRIED).code == Code.UNKNOWN
        pid = gate.arrival()
        gate.let_on()
        gone(pid)  # before another one comes to the gate
    text = "its process does not wait at an exec.fifo: it has started, or its runtime is neither runc nor crun"
    assert text in daemon.logged("WARNING container default/web/c1 (c1): the container cannot be held: ")
    daemon.end()
    assert len([line for line in daemon.log if text in line]) == 1
    assert keepers(node.path / "state") == []


def test_status_shows_what_is_held_since_when_and_how_holds_have_ended(begun: Begin, asked: Ask) -> None:
    daemon, gate, first = begun()
    [held] = asked("-o", "json").adapter["holds"]["held"]
    assert (held["what"], held["plugin"]) == ("create of container default/web/c1 (c1)", "slow")
    assert "create of container default/web/c1 (c1)" in asked().stdout
    gate.let_on()
    assert first.runs()
    daemon.logged("after it was held for")
    holds = asked("-o", "json").adapter["holds"]
    assert (holds["held"], sum(holds["times"]["let_go"]["counts"])) == ([], 1)


@pytest.mark.parametrize("is_launched", [False, True])
def test_an_adapter_ends_the_holds_of_one_that_was_killed_with_its_keeper_before_it_joins(
    node: Machine, begun: Begin, *, is_launched: bool
) -> None:
    node.shared_state = "state"
    daemon, _, first = begun()
    [keeper] = keepers(node.path / "state")
    os.kill(keeper, signal.SIGSTOP)  # else it would end the hold
    kill_tree(daemon.pid)
    killed(keeper)
    daemon.ended()
    assert first.is_held
    with listening(node.path / "nri.sock") as listener:
        _ = node.spawn() if is_launched else node.external(listener=listener)
        assert not first.runs()
