"""clearcfs against cgroup trees made of ordinary files, and against the kernel's own where that is allowed."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from .plugins import run, sample

V1, V2 = "cpu.cfs_quota_us", "cpu.max"


def request(root: Path, path: object, *, state: str = "create", **changes: Any) -> dict[str, Any]:
    made = sample(f"{state}-container", cgroupRoot=str(root), allow="everything") | changes
    made["spec"]["cgroupsPath"] = path
    return made


def quota_file(directory: Path, name: str = V1, content: str = "50000") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / name
    file.write_text(content + "\n")
    return file


PODX = "kubepods{0}/kubepods-burstable{0}/kubepods-burstable-podx{0}"
PLACES = {  # of a cgroup's path
    "/pods/c1": "pods/c1",
    "kubepods-burstable-podx.slice:cri-containerd:c1": f"{PODX}/cri-containerd-c1.scope",
    "system.slice:docker:c1": "system{0}/docker-c1.scope",
    ":crio:c1": "system{0}/crio-c1.scope",
    "-.slice:crio:c1": "crio-c1.scope",
    "a.slice:ignored:a-b.slice": "a{0}/a-b{0}",
}


VERSIONS = {"cpu": (V1, "50000", "-1"), "cpu,cpuacct": (V1, "50000", "-1"), "": (V2, "50000 20000", "max 20000")}


def test_the_quota_goes_wherever_the_cgroup_lies_as_metadata_says(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for (mount, (name, quota, cleared)), (path, place) in product(VERSIONS.items(), PLACES.items()):
        with subtests.test(path, mount=mount):
            root = tmp_path / f"of-{mount}"
            file = quota_file(root / mount / place.format(".slice"), name, quota)
            answer = run("clearcfs", request(root, path))
            assert file.read_text() == f"{cleared}\n"
            assert answer.metadata == {"cleared": str(file), "was": quota, "now": cleared}
            written = file.stat().st_mtime_ns
            answer = run("clearcfs", request(root, path))  # now no quota is set, and nothing is written
            assert answer.metadata == {"skipped": "no quota is set", "file": str(file)}
            assert file.stat().st_mtime_ns == written


def test_a_path_never_leads_out_of_the_hierarchy(tmp_path: Path) -> None:
    victims = [quota_file(tmp_path / place) for place in ("victim", "root/victim")]
    for path in ("../victim", "/../victim", "/../../cpu/../victim"):
        file = quota_file(tmp_path / "root/cpu/victim")
        assert run("clearcfs", request(tmp_path / "root", path)).metadata["cleared"] == str(file)
        assert [victim.read_text() for victim in victims] == ["50000\n"] * 2, path


def test_what_cannot_be_cleared_is_an_error_that_names_it_but_of_a_sandbox_without_process(tmp_path: Path) -> None:
    looked = ", ".join(f"{tmp_path}{place}" for place in ("/cpu,cpuacct", "/cpu", ""))
    made = request(tmp_path, "/c1", id="s", sandboxID="s")
    for each in (made, request(tmp_path, "/c1"), request(tmp_path, "/c1", pid=0)):
        reason = f"cgroup /c1 has no CPU quota to clear: looked under {looked}"
        run("clearcfs", each).is_error("clearcfs", reason)
    del made["pid"]
    assert run("clearcfs", made).metadata == {"skipped": "the sandbox has no process and no cgroup"}
    file = tmp_path / "cpu/c1" / V1
    file.mkdir(parents=True)
    run("clearcfs", request(tmp_path, "/c1")).is_error("clearcfs", f"cannot clear {file}: Is a directory")
    for spec in (None, {}, {"cgroupsPath": ""}, {"cgroupsPath": None}):
        made = request(tmp_path, "") | {"spec": spec}
        run("clearcfs", made).is_error("clearcfs", "the request has no spec.cgroupsPath")
    for path in ("/c1\0", "/\ud800", "/" + "x" * 5000, ["/c1"]):
        answer = run("clearcfs", request(tmp_path, path))
        answer.is_error("clearcfs", answer.result["error"])
