"""The process in a cgroup, on trees of files that stand for /sys/fs/cgroup."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from adapter.host import cgroup
from adapter.host.cgroup import expand, find_pid

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
    ("kubepods-pod1.slice:cri-containerd:abc", "/kubepods.slice/kubepods-pod1.slice/cri-containerd-abc.scope"),
    (
        "kubepods-burstable-pod1_2.slice:crio:abc",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/crio-abc.scope",
    ),
    ("-.slice:crio:abc", "/crio-abc.scope"),
    (":crio:abc", "/system.slice/crio-abc.scope"),
    ("machine.slice:libpod:pod.slice", "/machine.slice/pod.slice"),
    ("machine.slice::abc", "/machine.slice/-abc.scope"),
    ("machine.slice:crio:abc.scope", "/machine.slice/crio-abc.scope.scope"),
]


def test_a_cgroups_path_is_expanded_as_runc_expands_it() -> None:
    for cgroups_path, expanded in EXPANSIONS:
        assert expand(cgroups_path) == expanded


@pytest.fixture
def processes() -> Iterator[list[int]]:
    """Three processes, the oldest first, whose pids need not be in that order."""
    started = []
    for _ in range(3):
        started.append(subprocess.Popen(["sleep", "1000"]))
        wait_for_the_next_tick(started[-1].pid)
    yield [process.pid for process in started]
    for process in started:
        process.kill()
        process.wait()


def start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def wait_for_the_next_tick(pid: int) -> None:
    """A process's start is known to a hundredth of a second."""
    while True:
        with subprocess.Popen(["true"]) as probe:
            if start_of(probe.pid) > start_of(pid):
                return


def put(path: Path, *pids: int) -> None:
    """Makes a cgroup with these processes."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))


@pytest.fixture
def unified(tmp_path: Path) -> Path:
    """The root of cgroup v2."""
    (tmp_path / "cgroup.controllers").touch()
    return tmp_path


FOUND = {  # a cgroup's path, and where the process lies that is found
    "/e2e/p1/abc": "e2e/p1/abc",
    "kubepods-pod1.slice:crio:abc": "kubepods.slice/kubepods-pod1.slice/crio-abc.scope",
    "kubepods.slice:crio:crun": "kubepods.slice/crio-crun.scope/container",
}


def test_the_process_is_found_in_its_cgroup_or_where_crun_puts_it(unified: Path) -> None:
    put(unified / "kubepods.slice/crio-crun.scope")
    for pid, (path, place) in enumerate(FOUND.items(), 42):
        put(unified / place, pid)
        assert find_pid(path, str(unified)) == pid, path


def test_nothing_is_found_in_an_empty_cgroup_or_in_none_or_below_the_cgroups_of_others(unified: Path) -> None:
    put(unified / "empty")
    put(unified / "tenant.slice/e2e/p1/abc", 42)
    for path, root in (("/empty", unified), ("/absent", unified), ("/e2e/p1/abc", unified), ("/empty", unified / "no")):
        assert find_pid(path, str(root)) == 0


def test_the_process_is_found_in_a_controller_of_version_1_which_is_no_part_of_the_path(tmp_path: Path) -> None:
    put(tmp_path / "cpu")
    put(tmp_path / "memory", 41)
    put(tmp_path / "memory/e2e/p1/abc")
    put(tmp_path / "pids/e2e/p1/abc", 42)
    assert find_pid("/e2e/p1/abc", str(tmp_path)) == 42
    assert find_pid("/memory", str(tmp_path)) == 0


def test_processes_above_and_below_are_not_the_cgroups_own(unified: Path) -> None:
    for pid, place in enumerate((".", "a", "a/b/c", "a/bb"), 1):
        put(unified / place, pid)
    assert find_pid("/a/b", str(unified)) == 0
    put(unified / "a/b", 5)
    assert find_pid("/a/b", str(unified)) == 5


def test_patterns_in_a_path_are_only_characters(unified: Path) -> None:
    put(unified / "abc", 42)
    assert find_pid("/a*", str(unified)) == 0
    assert find_pid("/[a]bc", str(unified)) == 0
    put(unified / "a[*]?", 43)
    assert find_pid("/a[*]?", str(unified)) == 43


def test_of_several_processes_it_is_the_oldest(unified: Path, processes: list[int]) -> None:
    for order in permutations(processes):
        put(unified / "abc", *order)
        assert find_pid("/abc", str(unified)) == processes[0]


def test_the_oldest_need_not_have_the_lowest_pid(unified: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "start_time", {5: 300, 6: 100, 7: 200}.__getitem__)
    put(unified / "abc", 5, 6, 7)
    assert find_pid("/abc", str(unified)) == 6


def test_a_process_that_has_gone_is_not_the_oldest(unified: Path, processes: list[int]) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    put(unified / "abc", gone.pid, processes[1], processes[2])
    assert find_pid("/abc", str(unified)) == processes[1]


def test_a_name_with_brackets_and_blanks_does_not_confuse(unified: Path, processes: list[int]) -> None:
    """The name stands in /proc/PID/stat in front of the start, as it is."""
    program = unified / ") S 1 (x"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "1000"]) as youngest:
        put(unified / "abc", youngest.pid, processes[2])
        found = find_pid("/abc", str(unified))
        youngest.kill()
    assert found == processes[2]


def test_processes_outside_of_our_pid_namespace_do_not_count(unified: Path) -> None:
    """The kernel shows them as 0."""
    put(unified / "abc", 0, 0)
    assert find_pid("/abc", str(unified)) == 0
    put(unified / "abc", 0, os.getpid())
    assert find_pid("/abc", str(unified)) == os.getpid()


def test_the_root_of_a_hierarchy_and_paths_that_climb_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "fs/cgroup"
    for directory in (root, root / "a", root / "cpu", root.parent, root.parent / "x", tmp_path):
        put(directory, 1)
    for path in ("/", "", "//", ".", "/.", "/./", "./.", "/..", "..", "/a/../..", "a/..", "/../x"):
        assert find_pid(path, str(root)) == 0, path
