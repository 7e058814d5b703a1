"""clearcfs against cgroup trees made of ordinary files, and against the kernel's own where that is allowed."""

from __future__ import annotations

import os
import runpy
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .plugins import SAMPLES, Answer, run, sample

V1, V2 = "cpu.cfs_quota_us", "cpu.max"
LAYOUTS = {  # where a hierarchy lies below the root, its file, a quota, and what no quota looks like
    "v1": ("cpu", V1, "50000", "-1"),
    "v1 with cpuacct": ("cpu,cpuacct", V1, "50000", "-1"),
    "v2": ("", V2, "50000 20000", "max 20000"),
}
LAYOUT = pytest.mark.parametrize(("mount", "name", "quota", "cleared"), LAYOUTS.values(), ids=list(LAYOUTS))


def request(root: Path, path: str, *, state: str = "create", **changes: Any) -> dict[str, Any]:
    made = sample(f"{state}-container", cgroupRoot=str(root), allow="everything") | changes
    made["spec"]["cgroupsPath"] = path
    return made


def quota_file(directory: Path, name: str, content: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / name
    file.write_text(content + "\n")
    return file


@LAYOUT
def test_the_quota_goes_and_the_metadata_says_what_it_was(
    tmp_path: Path, mount: str, name: str, quota: str, cleared: str
) -> None:
    file = quota_file(tmp_path / mount / "pods/c1", name, quota)
    answer = run("clearcfs", request(tmp_path, "/pods/c1"))
    assert file.read_text() == f"{cleared}\n"
    assert answer.metadata == {"cleared": str(file), "was": quota, "now": cleared}


@LAYOUT
def test_a_cgroup_without_quota_is_left_as_it_is(
    tmp_path: Path, mount: str, name: str, quota: str, cleared: str
) -> None:
    file = quota_file(tmp_path / mount / "c1", name, cleared)
    file.chmod(0o400)
    answer = run("clearcfs", request(tmp_path, "/c1"))
    assert answer.metadata == {"skipped": "no quota is set", "file": str(file)}
    assert file.read_text() == f"{cleared}\n"


PODX = "kubepods{0}/kubepods-burstable{0}/kubepods-burstable-podx{0}"


@LAYOUT
@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("kubepods-burstable-podx.slice:cri-containerd:c1", f"{PODX}/cri-containerd-c1.scope"),
        ("system.slice:docker:c1", "system{0}/docker-c1.scope"),
        (":crio:c1", "system{0}/crio-c1.scope"),
        ("-.slice:crio:c1", "crio-c1.scope"),
        ("a.slice:ignored:a-b.slice", "a{0}/a-b{0}"),
    ],
)
def test_a_cgroup_of_systemd_is_found_in_its_nested_slices(
    tmp_path: Path, mount: str, name: str, quota: str, cleared: str, path: str, place: str
) -> None:
    file = quota_file(tmp_path / mount / place.format(".slice"), name, quota)
    assert run("clearcfs", request(tmp_path, path)).metadata["cleared"] == str(file)
    assert file.read_text() == f"{cleared}\n"


@pytest.mark.parametrize("slices", ["a", "a--b.slice", "-a.slice", ".slice", "a/b"])
def test_what_is_no_slice_is_named_in_the_error(tmp_path: Path, slices: str) -> None:
    answer = run("clearcfs", request(tmp_path, f"{slices}:crio:c1"))
    assert answer.code == 1
    assert answer.result["error"] == f"spec.cgroupsPath: {slices!r} is not the name of a systemd slice"


@pytest.mark.parametrize("path", ["pods/c1", "//pods/c1/", "/pods/./c1", "/pods/x/../c1"])
def test_a_path_may_be_written_in_other_ways(tmp_path: Path, path: str) -> None:
    file = quota_file(tmp_path / "cpu/pods/c1", V1, "50000")
    run("clearcfs", request(tmp_path, path))
    assert file.read_text() == "-1\n"


def test_a_plain_path_may_hold_colons(tmp_path: Path) -> None:
    file = quota_file(tmp_path / "cpu/a:b:c", V1, "50000")
    run("clearcfs", request(tmp_path, "/a:b:c"))
    assert file.read_text() == "-1\n"


@pytest.mark.parametrize("path", ["../victim", "/../victim", "/../../cpu/../victim"])
def test_a_path_never_leads_out_of_the_hierarchy(tmp_path: Path, path: str) -> None:
    (tmp_path / "root/cpu").mkdir(parents=True)
    victims = [quota_file(tmp_path / place, V1, "50000") for place in ("victim", "root/victim")]
    quota_file(tmp_path / "root/cpu/victim", V1, "50000")
    answer = run("clearcfs", request(tmp_path / "root", path))
    assert answer.metadata["cleared"] == f"{tmp_path}/root/cpu/victim/{V1}"
    assert [victim.read_text() for victim in victims] == ["50000\n"] * 2


@pytest.mark.parametrize(
    ("labels", "annotations", "cleared"),
    [
        ({"qos.class": "ls"}, {}, True),
        ({}, {"qos.class": "ls"}, True),
        (None, {"qos.class": "ls"}, True),
        ({"qos.class": "ls"}, None, True),
        ({"qos.class": "be"}, {"qos.class": "ls"}, True),
        ({"qos.class": "ls"}, {"qos.class": "be"}, False),
        ({"qos.class": "LS"}, {}, False),
        ({"qos": "ls"}, {"class": "ls"}, False),
        ({}, {}, False),
        (None, None, False),
    ],
)
def test_only_what_is_marked_is_cleared_and_the_annotation_wins_over_the_label(
    tmp_path: Path, labels: dict[str, str] | None, annotations: dict[str, str] | None, cleared: bool
) -> None:
    file = quota_file(tmp_path / "cpu/c1", V1, "50000")
    marked = request(tmp_path, "/c1", labels=labels)
    marked["spec"]["annotations"] = annotations
    metadata = run("clearcfs", marked).metadata
    assert file.read_text() == ("-1\n" if cleared else "50000\n")
    assert cleared or metadata == {"skipped": "qos.class is not ls"}


@pytest.mark.parametrize("state", ["delete", "update", "pause", "resume"])
def test_only_creates_are_acted_upon(tmp_path: Path, state: str) -> None:
    file = quota_file(tmp_path / "cpu/c1", V1, "50000")
    answer = run("clearcfs", request(tmp_path, "/c1") | {"state": state})
    assert answer.metadata == {"skipped": "only creates matter"}
    assert file.read_text() == "50000\n"


def test_a_marked_sandbox_is_cleared_too(tmp_path: Path) -> None:
    made = sample("create-sandbox", cgroupRoot=str(tmp_path), allow="everything")
    file = quota_file(tmp_path / made["spec"]["cgroupsPath"].lstrip("/"), V2, "50000 100000")
    run("clearcfs", made)
    assert file.read_text() == "max 100000\n"


def assert_missing(answer: Answer, root: Path) -> None:
    assert answer.code == 1
    assert answer.result["metadata"] == {}
    assert answer.result["error"] == (
        f"cgroup /c1 has no CPU quota to clear: looked under {root}/cpu,cpuacct, {root}/cpu, {root}"
    )


def test_a_missing_cgroup_is_an_error_that_says_where_was_looked(tmp_path: Path) -> None:
    assert_missing(run("clearcfs", request(tmp_path, "/c1")), tmp_path)


def test_a_container_without_process_and_cgroup_is_an_error(tmp_path: Path) -> None:
    assert_missing(run("clearcfs", request(tmp_path, "/c1", pid=0)), tmp_path)


def test_a_sandbox_with_a_process_but_no_cgroup_is_an_error(tmp_path: Path) -> None:
    assert_missing(run("clearcfs", request(tmp_path, "/c1", id="s", sandboxID="s")), tmp_path)


def test_a_sandbox_without_process_may_have_no_cgroup(tmp_path: Path) -> None:
    made = request(tmp_path, "/c1", id="s", sandboxID="s")
    del made["pid"]
    assert run("clearcfs", made).metadata == {"skipped": "the sandbox has no process and no cgroup"}


def test_a_quota_that_cannot_be_written_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "cpu/c1" / V1
    file.mkdir(parents=True)
    assert run("clearcfs", request(tmp_path, "/c1")).result["error"] == f"cannot clear {file}: Is a directory"


@pytest.mark.parametrize("spec", [None, {}, {"cgroupsPath": ""}, {"cgroupsPath": None}])
def test_a_marked_container_without_cgroups_path_is_an_error(tmp_path: Path, spec: object) -> None:
    made = request(tmp_path, "") | {"spec": spec}
    assert run("clearcfs", made).result["error"] == "the request has no spec.cgroupsPath"


@pytest.mark.parametrize("path", ["/c1\0", "/\ud800", "/" + "x" * 5000, ["/c1"]])
def test_an_impossible_path_is_an_error_and_no_traceback(tmp_path: Path, path: str) -> None:
    answer = run("clearcfs", request(tmp_path, path))
    assert answer.code == 1
    assert answer.result["error"]
    assert answer.stderr == ""


CPU_V1 = "8 1 0:8 / /cg/cpu rw,nosuid shared:10 - cgroup cgroup rw,cpu"
MOUNTINFO = {
    "v1": ([CPU_V1], ["/cg/cpu"]),
    "v1 with cpuacct": (["8 1 0:8 / /cg/cpu,cpuacct rw - cgroup none rw,cpu,cpuacct"], ["/cg/cpu,cpuacct"]),
    "v1, other order": (["8 1 0:8 / /cg/cpu rw - cgroup none rw,cpuacct,cpu"], ["/cg/cpu"]),
    "v2": (["9 1 0:9 / /cg rw,nosuid shared:4 master:2 - cgroup2 cgroup2 rw,nsdelegate"], ["/cg"]),
    "both: v1 goes first": (["9 1 0:9 / /cg/unified rw - cgroup2 cgroup2 rw", CPU_V1], ["/cg/cpu", "/cg/unified"]),
    "a space": (["9 1 0:9 / /my\\040cgroups rw - cgroup2 cgroup2 rw"], ["/my cgroups"]),
    "other controllers": (["2 1 0:2 / /cg/cpuset rw - cgroup cgroup rw,cpuset"], []),
    "other filesystems": (["1 0 0:1 / / rw - ext4 /dev/cpu rw,cpu", "3 1 0:3 / /cg rw - tmpfs cgroup rw"], []),
}


@pytest.mark.parametrize(("mountinfo", "expected"), MOUNTINFO.values(), ids=list(MOUNTINFO))
def test_the_kernels_list_of_mounts_tells_where_cgroups_are(mountinfo: list[str], expected: list[str]) -> None:
    clearcfs = runpy.run_path(str(SAMPLES / "clearcfs"))
    assert clearcfs["cpu_mounts"](mountinfo) == expected


@pytest.fixture
def real_cgroup() -> Iterator[tuple[str, Path]]:
    """A cgroup of the kernel's with a quota: its path within the hierarchy, and the file."""
    path = f"/clearcfs-{uuid.uuid4().hex}"
    clearcfs = runpy.run_path(str(SAMPLES / "clearcfs"))
    made = []
    try:
        for mount in clearcfs["mounted_below"](None):
            os.mkdir(mount + path)
            made.append(mount + path)
        file = clearcfs["find_quota"](made, "")
        if file is None:
            pytest.skip("no cgroup hierarchy here has the cpu controller enabled")
        Path(file).write_text("50000")
        yield path, Path(file)
    except OSError as problem:
        pytest.skip(f"this user may not make cgroups here: {problem}")
    finally:
        for directory in made:
            os.rmdir(directory)


def test_a_real_cgroup_loses_its_quota(real_cgroup: tuple[str, Path]) -> None:
    path, file = real_cgroup
    made = sample("create-container", allow="everything")
    made["spec"]["cgroupsPath"] = path
    metadata = run("clearcfs", made).metadata
    assert metadata["cleared"] == str(file)
    assert metadata["was"].split()[0] == "50000"
    assert file.read_text().split()[0] in ("-1", "max")
