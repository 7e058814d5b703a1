"""The process in a cgroup, on trees of files that stand for /sys/fs/cgroup, and which process a request names."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from nri import api, cgroup
from nri.cgroup import cgroup_paths, expand, find_pid
from nri.runtimes import Runtime

from ..rig.node import Node, a_container, a_pod
from ..rig.processes import NO_PROCESS, at_most
from ..rig.waiting import running

EXPANSIONS = [
    # cgroupfs: a path
    ("/e2e/p1/abc", "/e2e/p1/abc"),
    ("e2e/p1/abc", "/e2e/p1/abc"),
    ("/kubepods/burstable/podx/abc/", "/kubepods/burstable/podx/abc"),
    ("", "/"),
    ("/", "/"),
    ("a:b", "/a:b"),
    # systemd: slice:prefix:name (runc's ExpandSlice and getUnitName)
    ("system.slice:crio:abc", "/system.slice/crio-abc.scope"),
    (
        "kubepods-burstable-pod1_2.slice:crio:abc",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/crio-abc.scope",
    ),
    ("-.slice:crio:abc", "/crio-abc.scope"),
    (":crio:abc", "/system.slice/crio-abc.scope"),
    ("machine.slice:libpod:pod.slice", "/machine.slice/pod.slice"),
    ("machine.slice::abc", "/machine.slice/-abc.scope"),
]


def test_a_cgroups_path_is_expanded_as_runc_expands_it() -> None:
    for cgroups_path, expanded in EXPANSIONS:
        assert expand(cgroups_path) == expanded


def put(path: Path, *pids: int) -> None:
    """Makes a cgroup with these processes."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    """The root of cgroup v2."""
    (tmp_path / "cgroup.controllers").touch()
    return tmp_path


PLACES = {  # cgroups, and the process in each
    **{".": 1, "a": 2, "a/b/c": 3, "a/bb": 4, "e2e/p1/abc": 42, "tenant.slice/e2e/p1/other": 43, "[*]?": 44},
    "kubepods.slice/kubepods-pod1.slice/crio-abc.scope": 45,
    "kubepods.slice/crio-crun.scope/container": 46,
}
FOUND = {  # the path of a container's cgroup, and the process that is found
    **{"/e2e/p1/abc": 42, "kubepods-pod1.slice:crio:abc": 45, "kubepods.slice:crio:crun": 46, "/[*]?": 44, "/a": 2},
    **dict.fromkeys(("/empty", "/absent", "/e2e/p1/other", "/a/b", "/e2e/p1/a*", "/[a]"), 0),
    **dict.fromkeys(("/", "", "//", ".", "/.", "/./", "./.", "/..", "..", "/a/../..", "a/..", "/../x"), 0),
}


def test_the_process_is_found_in_its_own_cgroup_or_where_crun_puts_it_and_nowhere_else(unified: Path) -> None:
    put(unified / "fs/cgroup/empty")
    put(unified / "x", 47)
    for place, pid in PLACES.items():
        put(unified / "fs/cgroup" / place, pid)
    (unified / "fs/cgroup/cgroup.controllers").touch()
    for path, pid in FOUND.items():
        assert find_pid(path, str(unified / "fs/cgroup")) == pid, path
    assert find_pid("/a", str(unified / "no")) == 0


def test_the_process_is_found_in_a_controller_of_version_1_which_is_no_part_of_the_path(tmp_path: Path) -> None:
    put(tmp_path / "cpu")
    put(tmp_path / "memory", 41)
    put(tmp_path / "memory/e2e/p1/abc")
    put(tmp_path / "pids/e2e/p1/abc", 42)
    assert find_pid("/e2e/p1/abc", str(tmp_path)) == 42
    assert [find_pid(path, str(tmp_path)) for path in ("/memory", "/", "..")] == [0, 0, 0]


def test_of_several_processes_it_is_the_oldest_whatever_its_pid(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of which it is unknown when it started comes behind the others, but before one that has gone."""
    monkeypatch.setattr(cgroup, "start_time", {5: 300, 6: 100, 7: None, 8: 0}.__getitem__)
    for found, pids in {6: (5, 6, 7, 8), 7: (7, 8), 8: (8,)}.items():
        for order in permutations(pids):
            put(unified / "abc", *order)
            assert find_pid("/abc", str(unified)) == found


def test_a_name_with_brackets_and_blanks_does_not_confuse(unified: Path) -> None:
    """The name stands in /proc/PID/stat in front of the start, as it is."""
    program = unified / ") S 1 (x"
    program.symlink_to("/bin/sleep")
    with running([program, "1000"]) as youngest:
        put(unified / "abc", youngest.pid, os.getpid())
        assert find_pid("/abc", str(unified)) == os.getpid()


def test_a_process_that_has_ended_and_is_not_reaped_does_not_count(unified: Path) -> None:
    with running(["/bin/true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        put(unified / "abc", ended.pid, (init := os.getpid()))
        assert find_pid("/abc", str(unified)) == init
        assert cgroup.start_time(ended.pid) == 0


def test_when_a_process_started_is_unknown_if_it_cannot_be_read(process: subprocess.Popen[bytes]) -> None:
    with at_most(0):
        assert cgroup.start_time(process.pid) is None
    assert cgroup.start_time(process.pid)
    assert cgroup.start_time(NO_PROCESS) == 0


def test_processes_outside_of_our_pid_namespace_do_not_count(unified: Path) -> None:
    """The kernel shows them as 0."""
    for others, pid in (((0, 0), 0), ((0, os.getpid()), os.getpid())):
        put(unified / "abc", *others)
        assert find_pid("/abc", str(unified)) == pid


# In requests: the runtime's own pid always; one that we found or watch only if it is still that process


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with running(["sleep", "1000"]) as process:
        yield process


def pids(node: Node) -> list[int | None]:
    return [request.get("pid") for request in node.requests("a")]


def kill(process: subprocess.Popen[bytes], _: pytest.MonkeyPatch) -> None:
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def reap(process: subprocess.Popen[bytes], _: pytest.MonkeyPatch) -> None:
    process.kill()
    process.wait()


def replace(_: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "start_time", lambda _: 1)


@pytest.mark.parametrize(
    ("happens", "is_told"),
    [(None, True), (kill, False), (reap, False), (replace, False)],
    ids=["lives", "ended", "reaped", "replaced"],
)
def test_a_process_that_was_found_is_told_to_the_delete_if_it_is_still_there(
    node: Node,
    process: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[..., None] | None,
    is_told: bool,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(cgroup, "find_pid", lambda path: asked.append(path) or process.pid)  # type: ignore[func-returns-value]
    node.plugins(a="answer")
    node.wait(node.create("c1", pid=0))
    if happens:
        happens(process, monkeypatch)
    node.wait(node.delete("c1"))
    assert pids(node) == [process.pid, process.pid if is_told else None]
    assert asked == ["/c1"]


def test_a_process_that_ends_as_it_is_found_is_not_told_to_the_delete_and_the_runtimes_own_is(
    node: Node, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    reap(process, monkeypatch)
    monkeypatch.setattr(cgroup, "find_pid", lambda _: process.pid)
    node.plugins(a="answer")
    node.wait(node.create("c1", pid=0), node.delete("c1"))
    node.wait(node.create("c2", pid=process.pid), node.delete("c2"))
    node.wait(node.create("c3", pid=0))
    node.wait(node.handle("StopContainer", api.StopContainerRequest(container=a_container("c3"), pod=a_pod())))
    gone = process.pid
    assert sorted(map(str, pids(node))) == sorted(map(str, [gone, None, gone, gone, gone, NO_PROCESS]))


def test_a_process_that_was_found_has_not_ended_because_it_is_unknown_when_it_started(
    node: Node, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "find_pid", lambda _: process.pid)
    node.plugins(a="answer")
    with monkeypatch.context() as passing:
        passing.setattr(cgroup, "start_time", lambda _: None)
        node.wait(node.create("c1", pid=0))
    node.wait(node.delete("c1"))
    assert pids(node) == [process.pid, process.pid]


@pytest.mark.parametrize("fields", [{"pid": 0}, {"pid": 5}, {"pid": 0, "linux": None}], ids=str)
def test_a_process_is_looked_for_where_the_runtime_tells_none_and_there_is_a_cgroup(
    node: Node, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    root = node.folder / "cgroup"
    put(root / "cpu/c1", 4242)
    real = cgroup.find_pid
    monkeypatch.setattr(cgroup, "find_pid", lambda path: real(path, str(root)))
    node.plugins(a="answer")
    node.wait(node.create("c1", **fields))
    assert pids(node) == [fields["pid"] or (None if "linux" in fields else 4242)]


@pytest.mark.parametrize("ends", ["before", "after", "never"])
def test_the_process_of_a_watched_pod_is_told_while_it_lives_and_its_end_is_the_pods_delete(
    node: Node, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """The pod's end is announced by no event after a restart of containerd."""
    if ends == "before":
        reap(process, monkeypatch)
    node.plugins(a="answer")
    node.serving.set_runtime(Runtime("containerd", "1.7.35"), pid=os.getpid())
    node.serving.synchronize([], [])
    node.wait(node.create_pod(pid=process.pid), node.create_pod("untold", pid=0))
    node.serving.on_runtime_gone()
    container = a_container("c1", pod_sandbox_id="pod", state=api.CONTAINER_RUNNING)
    node.serving.synchronize([a_pod(pid=process.pid), a_pod("untold", pid=0)], [container])
    node.loop.settle()
    if ends == "after":
        assert "a delete pod" not in node.runs
        process.kill()
    if ends == "never":
        node.wait(node.delete_pod())
    node.loop.until(lambda: "a delete pod" in node.runs, "the pod's process has ended")
    node.idle()
    assert "a delete untold" not in node.runs, "of a pod without a process nobody knows an end"
    assert node.requests("a")[-1].get("pid") == (process.pid if ends == "never" else None)


# ---- the directories of a cgroup


SYSTEMD = "kubepods-pod1.slice:cri-containerd:abc"
BELOW = {"/e2e/p1/abc": "e2e/p1/abc", SYSTEMD: "kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope"}
"""Paths as the drivers cgroupfs and systemd write them, and where they are."""


def a_subject(cgroups_path: str, kind: str) -> api.Container | api.PodSandbox:
    if kind == "pod":
        return api.PodSandbox(linux=api.LinuxPodSandbox(cgroups_path=cgroups_path))
    return api.Container(linux=api.LinuxContainer(cgroups_path=cgroups_path))


@pytest.mark.parametrize("kind", ["container", "pod"])
@pytest.mark.parametrize("cgroups_path", BELOW)
def test_the_directories_are_those_that_exist_by_controller(unified: Path, cgroups_path: str, kind: str) -> None:
    below, subject = BELOW[cgroups_path], a_subject(cgroups_path, kind)
    for root in (unified, unified / "absent"):
        assert cgroup_paths(subject, str(root)) == {}, "the runtime has not made it yet"
    assert cgroup_paths(a_subject("/", kind), str(unified)) == {}, "the root cgroup is nobody's"
    (unified / below).mkdir(parents=True)
    assert cgroup_paths(subject, str(unified)) == {"unified": f"{unified}/{below}"}
    hierarchies = unified / "v1"
    for name in ("cpu,cpuacct", "memory", "systemd", "unified"):
        (hierarchies / name / below).mkdir(parents=True)
    (hierarchies / "pids").mkdir()
    for name in ("cpu", "cpuacct"):
        (hierarchies / name).symlink_to("cpu,cpuacct")
    both = f"{hierarchies}/cpu,cpuacct/{below}"
    found = cgroup_paths(subject, str(hierarchies))
    assert {controller: os.path.realpath(path) for controller, path in found.items()} == {
        **dict.fromkeys(("cpu", "cpuacct"), both),
        **{name: f"{hierarchies}/{name}/{below}" for name in ("memory", "systemd", "unified")},
    }
