"""konfine: whatever containers get, now or later, the CPUs reserved for the system are not among it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .plugins import code, event, run, sample

INVOKE: Callable[[dict[str, Any]], dict[str, Any]] = code("konfine")["invoke"]


def create(online: str = "0-7", cpus: str = "", ident: str = "", **conf: Any) -> dict[str, Any]:
    """Returns a request of CreateContainer on a node with these CPUs, of a container with its own cpuset or none."""
    request = event(online=online, **({"systemReserved": [0, 1]} | conf))
    if cpus:
        request["spec"]["linux"]["resources"]["cpu"]["cpus"] = cpus
    return request | ({"id": ident} if ident else {})


def update(cpus: str = "", **conf: Any) -> dict[str, Any]:
    """Returns a request of UpdateContainer that asks for a cpuset, or for none."""
    request = sample("update-container-event", online="0-7", **({"systemReserved": [0, 1]} | conf))
    request["resources"] = {"cpu": {"shares": 2, **({"cpus": cpus} if cpus else {})}}
    return request


def cpus_of(result: dict[str, Any]) -> str:
    cpus: str = result["spec"]["linux"]["resources"]["cpu"]["cpus"]
    assert result["metadata"] == {"cpus": cpus}
    return cpus


def cpus_of_others(request: dict[str, Any]) -> dict[str, str]:
    """Runs konfine, and returns the cpusets to which its answer updates running containers."""
    updates = run("konfine", request).result["updates"]
    return {update["id"]: update["resources"]["cpu"]["cpus"] for update in updates}


CPUSETS: list[tuple[str, list[int], str]] = [
    *(("0-7", [0, 1], "2-7"), ("0-7", [], "0-7"), ("0-7", [3], "0-2,4-7"), ("0-7", [1, 3, 5], "0,2,4,6-7")),
    *(("0-7", [7, 0, 7, 100], "1-6"), ("0-1,4,6-7", [4], "0-1,6-7"), ("4,0-2,1", [0], "1-2,4"), ("0", [1], "0")),
    ("0-127", [0, 64], "1-63,65-127"),
]


def test_a_container_gets_the_nodes_cpus_or_its_own_without_the_reserved_ones() -> None:
    for cpus, reserved, left in CPUSETS:
        assert INVOKE(create(cpus, systemReserved=reserved)) == {
            "metadata": {"cpus": left},
            "spec": {"linux": {"resources": {"cpu": {"cpus": left}}}},
        }, cpus
        assert cpus_of(INVOKE(create("0-255", cpus, systemReserved=reserved))) == left, cpus
    request = create(systemReserved=[])
    del request["conf"]["online"]
    assert cpus_of(INVOKE(request)) == Path("/sys/devices/system/cpu/online").read_text().strip()


def test_an_update_that_asks_for_cpus_gets_them_without_the_reserved_ones_and_other_events_are_left_alone() -> None:
    assert cpus_of(run("konfine", update("0-3")).result) == "2-3"
    assert run("konfine", update()).metadata == {"skipped": "the cpuset does not change"}
    for name in ("StartContainer", "RunPodSandbox", "RemoveContainer"):
        assert list(INVOKE(create() | {"event": name, "conf": None})["metadata"]) == ["skipped"]
    for conf in ({}, {"state": "/nowhere"}):
        stop = create(**conf) | {"event": "StopContainer", "state": "delete"}
        assert run("konfine", stop).metadata == {"skipped": "nothing is kept of this container"}


def test_what_cannot_be_done_is_an_error_that_says_why() -> None:
    reserved: object
    for reserved in (None, "0-1", 0, {"0": 1}, ["0"], [-1], [1.5], [True], [[0]]):
        error = f"conf.systemReserved must be a list of CPUs, like [0, 1], but is {json.dumps(reserved)}"
        run("konfine", create(systemReserved=reserved)).is_error("konfine", error)
    for request, cpus in ((create("0-1"), "0-1"), (create("0-7", "1"), "1"), (update("0"), "0")):
        run("konfine", request).is_error("konfine", f"conf.systemReserved leaves none of the CPUs {cpus}")
    for cpus in ("a", "1-", "-1", "1,,2", "0-3:1", "0-999999", " 1"):
        run("konfine", create(cpus=cpus)).is_error("konfine", f"{cpus!r} is not a list of CPUs")


def test_a_change_of_the_reserved_cpus_reaches_running_containers_once(tmp_path: Path) -> None:
    state = str(tmp_path / "a/state")
    for ident, cpus in (("all", ""), ("own", "0-3"), ("far", "6-7"), ("small", "2"), ("gone", ""), ("failed", "")):
        assert cpus_of_others(create(cpus=cpus, ident=ident, state=state)) == {}
    for ident, end in (("gone", "StopContainer"), ("failed", "RemoveContainer")):
        stop = create(ident=ident, state=state) | {"event": end, "state": "delete"}
        assert run("konfine", stop).metadata == {"forgot": ident}

    changed: dict[str, Any] = {"state": state, "systemReserved": [0, 1, 2]}  # leaves `small` no CPU
    assert cpus_of_others(create(ident="new", **changed)) == {"all": "3-7", "own": "3"}
    assert cpus_of_others(create(ident="newer", **changed)) == {}


BAD_IDS: list[Any] = [
    *("", "..", ".lock", ".new", "a/b", "../../etc/cron.d/x", "a\nb", "a\0", "-x", "x" * 300, "é", None, 5, ["x"]),
]


def test_an_id_is_the_name_of_a_file_or_an_error(tmp_path: Path) -> None:
    names = {"0", "a" * 64, "my-container_1.2"}  # as runtimes have them
    for ident in names:
        run("konfine", create(ident=ident, state=str(tmp_path)))
        assert (tmp_path / ident).read_text() == "/2-7\n"
    for ident in BAD_IDS:
        for name in ("CreateContainer", "StopContainer"):
            with pytest.raises((ValueError, TypeError)):
                INVOKE(create(state=str(tmp_path)) | {"id": ident, "event": name})
    assert {path.name for path in tmp_path.rglob("*")} == {*names, ".lock"}
