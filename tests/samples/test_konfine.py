"""konfine: whatever containers get, now or later, the CPUs reserved for the system are not among it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from adapter.nri import api
from adapter.oci.patch import merged
from adapter.oci.spec import adjustment

from .plugins import code, event, run, sample

INVOKE: Callable[[dict[str, Any]], dict[str, Any]] = code("konfine")["invoke"]


def create(online: str = "0-7", cpus: str = "", **conf: Any) -> dict[str, Any]:
    """Returns a request of CreateContainer on a node with these CPUs, of a container with its own cpuset or none."""
    request = event(online=online, **({"systemReserved": [0, 1]} | conf))
    if cpus:
        request["spec"]["linux"]["resources"]["cpu"]["cpus"] = cpus
    return request


def update(cpus: str = "", **conf: Any) -> dict[str, Any]:
    """Returns a request of UpdateContainer that asks for a cpuset, or for none."""
    request = sample("update-container-event", online="0-7", **({"systemReserved": [0, 1]} | conf))
    request["resources"] = {"cpu": {"shares": 2, **({"cpus": cpus} if cpus else {})}}
    return request


def cpus_of(result: dict[str, Any]) -> str:
    cpus: str = result["spec"]["linux"]["resources"]["cpu"]["cpus"]
    assert result["metadata"] == {"cpus": cpus}
    return cpus


CPUSETS = [
    ("0-7", [0, 1], "2-7"),
    ("0-7", [], "0-7"),
    ("0-7", [3], "0-2,4-7"),
    ("0-7", [1, 3, 5], "0,2,4,6-7"),
    ("0-7", [7, 0, 7, 100], "1-6"),
    ("0-1,4,6-7", [4], "0-1,6-7"),
    ("4,0-2,1", [0], "1-2,4"),
    ("0", [1], "0"),
    ("0-127", [0, 64], "1-63,65-127"),
]


def test_a_container_gets_the_nodes_cpus_or_its_own_without_the_reserved_ones() -> None:
    for cpus, reserved, left in CPUSETS:
        assert INVOKE(create(cpus, systemReserved=reserved)) == {
            "metadata": {"cpus": left},
            "spec": {"linux": {"resources": {"cpu": {"cpus": left}}}},
        }, cpus
        assert cpus_of(INVOKE(create("0-255", cpus, systemReserved=reserved))) == left, cpus


def test_without_other_word_the_nodes_cpus_are_those_that_the_kernel_has_online() -> None:
    request = create(systemReserved=[])
    del request["conf"]["online"]
    assert cpus_of(INVOKE(request)) == Path("/sys/devices/system/cpu/online").read_text().strip()


def test_the_adapter_makes_an_adjustment_of_the_answer() -> None:
    request = create()
    after = merged(request["spec"], run("konfine", request).result["spec"])
    wanted = api.ContainerAdjustment()
    wanted.linux.resources.cpu.cpus = "2-7"
    assert adjustment(request["spec"], after) == wanted


def test_an_update_that_asks_for_cpus_gets_them_without_the_reserved_ones() -> None:
    assert cpus_of(run("konfine", update("0-3")).result) == "2-3"


def test_an_update_of_something_else_is_left_alone() -> None:
    assert run("konfine", update()).metadata == {"skipped": "the cpuset does not change"}


def test_events_that_cannot_change_a_cpuset_are_left_alone() -> None:
    for name in ("StartContainer", "RunPodSandbox", "RemoveContainer"):
        assert list(INVOKE(create() | {"event": name, "conf": None})["metadata"]) == ["skipped"]


def test_reserved_cpus_that_are_no_list_of_numbers_are_an_error() -> None:
    reserved: object
    for reserved in (None, "0-1", 0, {"0": 1}, ["0"], [-1], [1.5], [True], [[0]]):
        error = f"conf.systemReserved must be a list of CPUs, like [0, 1], but is {json.dumps(reserved)}"
        run("konfine", create(systemReserved=reserved)).is_error("konfine", error)


def test_a_container_for_which_no_cpu_is_left_fails() -> None:
    for request, cpus in ((create("0-1"), "0-1"), (create("0-7", "1"), "1"), (update("0"), "0")):
        run("konfine", request).is_error("konfine", f"conf.systemReserved leaves none of the CPUs {cpus}")


def test_what_is_no_cpuset_is_an_error() -> None:
    for cpus in ("a", "1-", "-1", "1,,2", "0-3:1", "0-999999", " 1"):
        run("konfine", create(cpus=cpus)).is_error("konfine", f"{cpus!r} is not a list of CPUs")


def named(request: dict[str, Any], ident: str) -> dict[str, Any]:
    return request | {"id": ident}


def test_a_change_of_the_reserved_cpus_reaches_running_containers_once(tmp_path: Path) -> None:
    state = str(tmp_path / "a/state")
    for ident, cpus in (("all", ""), ("own", "0-3"), ("far", "6-7"), ("gone", ""), ("failed", "")):
        assert run("konfine", named(create(cpus=cpus, state=state), ident)).result["updates"] == []
    for ident, end in (("gone", "StopContainer"), ("failed", "RemoveContainer")):
        stop = named(create(state=state), ident) | {"event": end, "state": "delete"}
        assert run("konfine", stop).metadata == {"forgot": ident}

    changed: dict[str, Any] = {"state": state, "systemReserved": [0, 1, 2]}
    assert run("konfine", named(create(**changed), "new")).result["updates"] == [
        {"id": "all", "resources": {"cpu": {"cpus": "3-7"}}},
        {"id": "own", "resources": {"cpu": {"cpus": "3"}}},
    ]
    assert run("konfine", named(create(**changed), "newer")).result["updates"] == []


def test_a_change_that_would_leave_a_running_container_without_cpus_does_not_reach_it(tmp_path: Path) -> None:
    conf: dict[str, Any] = {"state": str(tmp_path)}
    run("konfine", named(create(cpus="2", **conf), "small"))
    assert run("konfine", create(systemReserved=[2], **conf)).result["updates"] == []


def test_an_update_counts_from_then_on(tmp_path: Path) -> None:
    conf: dict[str, Any] = {"state": str(tmp_path)}
    run("konfine", named(create(**conf), "one"))
    run("konfine", named(update("0-4", **conf), "one"))
    assert run("konfine", create(systemReserved=[2], **conf)).result["updates"] == [
        {"id": "one", "resources": {"cpu": {"cpus": "0-1,3-4"}}}
    ]


def test_the_container_of_the_event_itself_is_never_among_the_updates(tmp_path: Path) -> None:
    for cpus in ("", "0-4"):
        conf: dict[str, Any] = {"state": str(tmp_path / f"of{cpus}")}
        run("konfine", create(**conf))
        conf["systemReserved"] = [2]
        answer = run("konfine", update(cpus, **conf) if cpus else create(**conf))
        assert (answer.result["updates"], cpus_of(answer.result)[:3]) == ([], "0-1")


def test_a_lost_record_moves_a_container_rather_than_failing_others(tmp_path: Path) -> None:
    conf: dict[str, Any] = {"state": str(tmp_path)}
    (tmp_path / "one").touch()
    expected = [{"id": "one", "resources": {"cpu": {"cpus": "2-7"}}}]
    assert run("konfine", create(**conf)).result["updates"] == expected


BAD_IDS: list[Any] = [
    "",
    "..",
    ".lock",
    ".new",
    "a/b",
    "../../etc/cron.d/x",
    "a\nb",
    "a\0",
    "-x",
    "x" * 300,
    "é",
    None,
    5,
    ["x"],
]


def test_an_id_that_cannot_be_a_file_name_is_an_error_and_becomes_none(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    INVOKE(named(create(state=state), "known"))
    for ident in BAD_IDS:
        for name in ("CreateContainer", "StopContainer"):
            with pytest.raises((ValueError, TypeError)):
                INVOKE(named(create(state=state), ident) | {"event": name})
    assert {path.name for path in tmp_path.rglob("*")} == {"state", "known", ".lock"}


def test_the_ids_of_runtimes_are_file_names(tmp_path: Path) -> None:
    for ident in ("0", "a" * 64, "my-container_1.2"):
        run("konfine", named(create(state=str(tmp_path)), ident))
        assert (tmp_path / ident).read_text() == "/2-7\n"


def test_a_record_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """A reader that has the old file open sees the old record."""
    conf: dict[str, Any] = {"state": str(tmp_path)}
    INVOKE(named(create(**conf), "one"))
    with (tmp_path / "one").open() as before:
        INVOKE(named(create(cpus="2-3", **conf), "one"))
        assert before.read() == "/2-7\n"
    assert (tmp_path / "one").read_text() == "2-3/2-3\n"


def test_what_a_run_that_was_killed_has_left_is_no_container(tmp_path: Path) -> None:
    (tmp_path / ".new").write_text("0-")
    (tmp_path / ".lock").touch()
    assert run("konfine", create(state=str(tmp_path))).result["updates"] == []


def test_concurrent_runs_do_not_fail_and_lose_nothing(tmp_path: Path) -> None:
    """Containers come and go while the reserved CPUs change to and fro, so that every run wants every record."""

    def life(number: int) -> None:
        for reserved in ([0], [0, 1], [2], [1, 2]):
            request = named(create(state=str(tmp_path), systemReserved=reserved), f"c{number}")
            INVOKE(request)
            INVOKE(request | {"event": "StopContainer"})
        INVOKE(named(create(state=str(tmp_path)), f"kept{number}"))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(life, range(8)))  # the lock is of an opened file: of a thread's as of a process's
    finally:
        sys.setswitchinterval(interval)
    assert sorted(os.listdir(tmp_path)) == [".lock", *(f"kept{number}" for number in range(8))]


def test_the_end_of_an_unknown_container_is_nothing() -> None:
    for conf in ({}, {"state": "/nowhere"}):
        stop = create(**conf) | {"event": "StopContainer", "state": "delete"}
        assert run("konfine", stop).metadata == {"skipped": "nothing is kept of this container"}
