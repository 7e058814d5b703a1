"""A pid that we found or watch goes to a delete only if it is still that process; the runtime's own always goes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from adapter.host import cgroup
from adapter.nri import api
from adapter.nri.runtimes import Runtime

from .node import Node, a_container, a_pod


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


@pytest.fixture
def found(node: Node, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> subprocess.Popen[bytes]:
    """A process that the search in cgroups finds."""
    monkeypatch.setattr(cgroup, "find_pid", lambda path: process.pid)
    node.plugins(a="answer")
    return process


def pids(node: Node) -> list[int | None]:
    return [request.get("pid") for request in node.requests("a")]


def test_a_found_process_that_lives_is_told(node: Node, found: subprocess.Popen[bytes]) -> None:
    node.wait(node.create("c1", pid=0))
    node.wait(node.delete("c1"))
    assert pids(node) == [found.pid, found.pid]


@pytest.mark.parametrize("is_reaped", [False, True])
def test_a_found_process_that_has_ended_is_not(node: Node, found: subprocess.Popen[bytes], is_reaped: bool) -> None:
    node.wait(node.create("c1", pid=0))
    found.kill()
    os.waitid(os.P_PID, found.pid, os.WEXITED | os.WNOWAIT)
    if is_reaped:
        found.wait()
    node.wait(node.delete("c1"))
    assert pids(node) == [found.pid, None]


def test_another_process_with_the_pid_of_a_found_one_is_not(
    node: Node, found: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    node.wait(node.create("c1", pid=0))
    real = cgroup.start_time
    monkeypatch.setattr(cgroup, "start_time", lambda pid: real(pid) + 1)
    node.wait(node.delete("c1"))
    assert pids(node) == [found.pid, None]


def test_a_process_that_ends_as_it_is_found_is_not_told_to_the_delete(
    node: Node, found: subprocess.Popen[bytes]
) -> None:
    found.kill()
    found.wait()
    node.wait(node.create("c1", pid=0))
    node.wait(node.delete("c1"))
    assert pids(node) == [found.pid, None]


def test_the_runtimes_own_pid_is_passed_on_although_there_is_no_such_process(node: Node) -> None:
    node.plugins(a="answer")
    gone = subprocess.Popen(["true"])
    gone.wait()
    node.wait(node.create("c1", pid=gone.pid))
    node.wait(node.delete("c1"))
    assert pids(node) == [gone.pid, gone.pid]


def test_the_runtimes_pid_at_a_delete_replaces_the_one_that_was_found(
    node: Node, found: subprocess.Popen[bytes]
) -> None:
    node.wait(node.create("c1", pid=0))
    found.kill()
    found.wait()
    node.wait(node.handle("StopContainer", api.StopContainerRequest(container=a_container("c1"), pod=a_pod())))
    assert pids(node) == [found.pid, 22]


def rejoin(node: Node, pod: int) -> None:
    """Runs the creates of a pod and a container, and then a restart of containerd."""
    node.plugins(a="answer")
    node.bridge.runtime_is(Runtime("containerd", "1.7.35"))
    node.bridge.synchronize([], [])
    node.wait(node.create_pod(pid=pod))
    node.bridge.runtime_is_gone()
    container = a_container("c1", pod_sandbox_id="pod", state=api.CONTAINER_RUNNING)
    node.bridge.synchronize([a_pod(pid=pod)], [container])


def test_the_process_of_a_watched_pod_that_has_ended_is_not_told(node: Node, process: subprocess.Popen[bytes]) -> None:
    rejoin(node, process.pid)
    process.kill()
    node.loop.until(lambda: node.runs[-1] == "a delete pod", "the pod's process has ended")
    node.idle()
    assert pids(node) == [process.pid, None]


def test_the_process_of_a_watched_pod_that_lives_is_told(node: Node, process: subprocess.Popen[bytes]) -> None:
    rejoin(node, process.pid)
    node.wait(node.delete_pod())
    assert pids(node) == [process.pid, process.pid]


def test_the_process_of_a_pod_that_was_gone_before_its_watch_is_not_told(
    node: Node, process: subprocess.Popen[bytes]
) -> None:
    process.kill()
    process.wait()
    rejoin(node, process.pid)
    node.loop.until(lambda: node.runs[-1] == "a delete pod", "the pod's process has ended")
    node.idle()
    assert pids(node) == [process.pid, None]


def test_a_pod_of_which_nobody_tells_a_process_is_not_watched(node: Node) -> None:
    rejoin(node, 0)
    assert node.runs == ["a create pod"]
    node.wait(node.delete_pod())
    assert pids(node) == [None, None]
