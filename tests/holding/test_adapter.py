"""The adapter holds containers of runc and crun while their legacy plugins run; the events are played."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from nri import api
from nri.wire import Code

from ..rig.daemon import Daemon
from ..rig.machine import POD, Machine
from ..rig.waiting import until
from .oci import Container, OciRuntime
from .test_runtimes import no_files, waits_for_start

AT_ONCE = {"holdAfter": 0}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Machine]:
    """The node of an adapter, apart from the runtime's."""
    (tmp_path / "node").mkdir()
    made = Machine(tmp_path / "node")
    yield made
    made.close()


def created(daemon: Daemon, container: Container) -> None:
    """Plays the StartContainer of a container, which succeeds."""
    request = api.StartContainerRequest(pod=POD)
    request.container.CopyFrom(api.Container(id=container.id, pod_sandbox_id=POD.id, pid=container.pid))
    request.container.linux.cgroups_path = container.cgroup
    reply = daemon.call(request)
    assert (reply.code, reply.message) == (Code.OK, "")


def test_no_program_is_executed_before_its_plugin_is_done_and_others_start_meanwhile(
    oci: OciRuntime, node: Machine
) -> None:
    first, second = oci.create(), oci.create()
    gate = node.slow(when=f'"id":"{first.id}"')
    node.configure("slow")
    daemon = node.launch(AT_ONCE)
    created(daemon, first)
    gate.arrival()
    start = first.start()
    waits_for_start(first)
    created(daemon, second)
    assert second.start().ended() == (0, "")
    second.until_run()
    assert (first.state, first.has_run, start.is_alive()) == ("created", 0, True)
    gate.let_on()
    assert start.ended() == (0, "")
    first.until_run()
    assert (first.state, first.has_run) == ("running", 1)
    until(partial(no_files, first), "nothing is left of the hold")


def test_without_a_pid_the_process_is_found_in_its_cgroup(oci: OciRuntime, node: Machine) -> None:
    gate = node.slow()
    node.configure("slow")
    daemon = node.launch(AT_ONCE)
    container = oci.create()
    pid, container.pid = container.pid, 0
    created(daemon, container)
    container.pid = pid
    gate.arrival()
    start = container.start()
    waits_for_start(container)
    assert container.has_run == 0
    gate.let_on()
    assert start.ended() == (0, "")
