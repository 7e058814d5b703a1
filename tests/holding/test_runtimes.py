"""Holds with runc and crun, without NRI: nothing executes before its time, and no program that runs is disturbed."""

from __future__ import annotations

import os
import random
import resource
import select
import signal
import subprocess
import sys
import syslog
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from nri import HoldEnd, Missing, NotHeld, api
from nri.holding.evidence import ASIDE, FIFO
from nri.holding.holds import Hold, Holds, OnFailure
from nri.holding.keeper import Keeper
from nri.holding.keeper import run as run_keeper

from ..rig.brief import CI
from ..rig.processes import gone, killed
from ..rig.waiting import LIMIT, limit, running, until
from .oci import Container, OciRuntime

FOR_EVER = 90.0
LATE = int(os.environ.get("LATE_HOLDS", "20" if CI else "2"))
"""How often a hold comes about when the container starts."""
LATEST = 0.3
"""Seconds between the start and the hold, at most."""


def described(container: Container) -> api.Container:
    linux = api.LinuxContainer(cgroups_path=container.cgroup)
    return api.Container(id=container.id, pid=container.pid, linux=linux)


def hold(holds: Holds, container: Container, limit: float = FOR_EVER, on_failure: OnFailure = "fail") -> Hold:
    return holds.hold(described(container), "pod", limit, on_failure, LIMIT)


def no_files(container: Container) -> bool:
    """Whether the runtime's directory of a container has no FIFO."""
    directory = container.runtime.root / container.id
    return not {path.name for path in directory.iterdir()} & {FIFO, ASIDE}


def waits_for_start(container: Container) -> None:
    """Waits for the process of the runtime's start. It may not wait at the FIFO yet: nothing tells of that."""

    def has_come() -> bool:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if b"start" in words and container.id.encode() in words and b"unshare" not in words:
                    return True
        return False

    until(has_come, "the start has come")


# ---- let go, refused, at the limit


@pytest.mark.parametrize("is_waiting", [True, False], ids=["at its start", "before its start"])
@pytest.mark.parametrize("how", ["let go", "refused"])
def test_a_container_starts_when_it_is_let_go_and_never_if_it_is_refused(
    oci: OciRuntime, holds: Holds, how: str, is_waiting: bool
) -> None:
    container = oci.create()
    held = hold(holds, container)
    if is_waiting:
        start = container.start()
        waits_for_start(container)
        assert (container.state, container.has_run, held.end, start.is_alive()) == ("created", 0, None, True)
    assert (held.let_go() if how == "let go" else held.refuse()) is HoldEnd[how.replace(" ", "_").upper()]
    code, said = (start if is_waiting else container.start()).ended()
    if how == "refused":
        assert (code != 0, container.has_run) == (True, 0)
        assert container.state == "stopped" or not is_waiting
        return
    assert (code, said) == (0, "")
    container.until_run()
    assert (container.state, container.has_run) == ("running", 1)
    until(partial(no_files, container), "nothing is left of the hold")


@pytest.mark.parametrize("on_failure", ["fail", "ignore"])
def test_the_limit_ends_a_hold_by_its_policy(oci: OciRuntime, holds: Holds, on_failure: OnFailure) -> None:
    container = oci.create()
    held = hold(holds, container, 0.2, on_failure)
    code, _ = container.start().ended()
    with limit("the end of the hold"):
        select.select([holds], [], [])
    if on_failure == "fail":
        assert (held.end, code != 0, container.has_run) == (HoldEnd.REFUSED, True, 0)
    else:
        container.until_run()
        assert (held.end, code) == (HoldEnd.LET_GO, 0)
    assert held.let_go() is held.end, "it is over"


@pytest.mark.parametrize("uid", [0, 1000])
def test_a_plugin_holds_no_container_that_it_could_not_refuse(oci: OciRuntime, tmp_path: Path, uid: int) -> None:
    """Without CAP_KILL it kills processes of its own user. A container of another one would neither start nor fail."""
    container = oci.create(uid=uid)
    words = str(tmp_path / "holds"), container.id, str(container.pid), container.cgroup, "0.2", "fail"
    plugin = [sys.executable, "-m", "tests.holding.holder", *words]
    done = subprocess.run(
        ["setpriv", "--bounding-set=-kill", *plugin], check=False, capture_output=True, text=True, timeout=LIMIT
    )
    if uid:
        assert Missing.NO_KILL.value in done.stderr
    else:
        assert done.stdout.splitlines()[1:] == ["REFUSED"]
    code, _ = container.start().ended()
    assert (code == 0) == (uid > 0)


def test_without_a_pid_the_process_is_found_in_its_cgroup(oci: OciRuntime, holds: Holds) -> None:
    container = oci.create()
    told = described(container)
    told.ClearField("pid")
    assert holds.hold(told, timeout=LIMIT).let_go() is HoldEnd.LET_GO
    assert container.start().ended() == (0, "")


@pytest.mark.parametrize("how", ["let_go", "refuse"])
def test_a_keeper_without_descriptors_ends_a_hold_all_the_same(oci: OciRuntime, holds: Holds, how: str) -> None:
    """To let go, it needs one, for which it waits. To refuse, it gives one up."""
    container = oci.create()
    held = hold(holds, container)
    start = container.start()
    waits_for_start(container)
    limits = resource.prlimit(holds.keeper, resource.RLIMIT_NOFILE)
    numbers = sorted(map(int, os.listdir(f"/proc/{holds.keeper}/fd")))
    assert numbers == [*range(len(numbers))], "no descriptor is free below the limit"
    resource.prlimit(holds.keeper, resource.RLIMIT_NOFILE, (len(numbers), limits[1]))
    if how == "refuse":
        assert held.refuse() is HoldEnd.REFUSED
        assert start.ended()[0] != 0
        assert container.has_run == 0
        return
    assert held.let_go() is HoldEnd.LET_GO
    resource.prlimit(holds.keeper, resource.RLIMIT_NOFILE, limits)
    assert start.ended() == (0, "")
    container.until_run()


# ---- somebody else ends it


@pytest.mark.parametrize("words", [("delete", "--force", "ID"), ("kill", "ID", "KILL")])
def test_a_container_that_is_deleted_or_killed_while_it_is_held_never_runs(
    oci: OciRuntime, holds: Holds, words: tuple[str, ...]
) -> None:
    container = oci.create()
    held = hold(holds, container)
    start = container.start()
    waits_for_start(container)
    assert oci.run(*(container.id if word == "ID" else word for word in words)).returncode == 0
    assert start.ended()[0] != 0
    until(lambda: held.end is not None, "the keeper tells of the end")
    assert (held.end, container.has_run) == (HoldEnd.GONE, 0)
    assert held.let_go() is HoldEnd.GONE


def test_a_start_that_gives_up_may_come_again(oci: OciRuntime, holds: Holds) -> None:
    """As by the deadline of a CRI call, whose runtime would then kill the container."""
    container = oci.create()
    held = hold(holds, container)
    line = [*oci.line, "start", container.id]
    with running(line, stderr=subprocess.DEVNULL, start_new_session=True) as first:
        waits_for_start(container)
        os.killpg(first.pid, signal.SIGKILL)
    assert held.let_go() is HoldEnd.LET_GO
    assert container.start().ended() == (0, "")
    container.until_run()


# ---- the plugin, the keeper, or both are killed


def said(stdout: IO[str]) -> str:
    with limit("the container is not held"):
        return stdout.readline()


@contextmanager
def holder(
    container: Container, directory: str, limit: float, on_failure: str, *more: str, stderr: int | None = None
) -> Iterator[tuple[int, int]]:
    """A plugin's program that holds a container: its pid and that of its keeper."""
    words = [directory, container.id, str(container.pid), container.cgroup, str(limit), on_failure, *more]
    line = [sys.executable, "-m", "tests.holding.holder", *words]
    with running(line, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
        assert process.stdout is not None
        yield process.pid, int(said(process.stdout))


@pytest.mark.parametrize("on_failure", ["fail", "ignore"])
def test_the_next_plugin_ends_what_is_left_of_a_plugin_and_its_keeper(
    oci: OciRuntime, holds: Holds, on_failure: OnFailure
) -> None:
    container = oci.create()
    with holder(container, holds.directory, FOR_EVER, on_failure) as (plugin, keeper):
        os.kill(plugin, signal.SIGSTOP)
        killed(keeper)
        start = container.start()
        waits_for_start(container)
        holds.end_left()
        assert (container.state, start.is_alive()) == ("created", True), "its plugin lives"
        killed(plugin)
    assert (container.state, start.is_alive()) == ("created", True)
    holds.end_left()
    assert holds.keeper == 0
    assert (start.ended()[0] == 0) == (on_failure == "ignore")
    if on_failure == "ignore":
        container.until_run()
    assert container.has_run == int(on_failure == "ignore")
    until(lambda: os.listdir(holds.directory) == [], "no record is left")


def test_what_has_ended_under_no_keeper_is_cleared_away(oci: OciRuntime, holds: Holds) -> None:
    container = oci.create()
    held = hold(holds, container)
    start = container.start()
    waits_for_start(container)
    killed(holds.keeper, container.pid)
    assert held.let_go() is HoldEnd.GONE
    assert start.ended()[0] != 0
    assert os.listdir(holds.directory) == []


def test_the_keeper_of_a_plugin_that_was_killed_keeps_no_pipe_open(oci: OciRuntime, tmp_path: Path) -> None:
    """Who waits for the end of a plugin's output, as conmon does, waits for no start that has yet to come."""
    container = oci.create()
    reader, writer = os.pipe()
    with holder(container, str(tmp_path / "holds"), FOR_EVER, "ignore", stderr=writer) as (plugin, keeper):
        os.close(writer)
        os.kill(plugin, signal.SIGKILL)
        assert select.select([reader], [], [], LIMIT)[0], "the pipe stays open"
        assert os.read(reader, 1000) == b""
        assert Path(f"/proc/{keeper}").exists(), "the start has yet to come"
    os.close(reader)
    assert container.start().ended() == (0, "")


def test_a_bug_of_the_keeper_is_told_to_syslog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Broken(Keeper):
        def run(self) -> None:
            raise ZeroDivisionError("a bug")

    told: list[object] = []
    monkeypatch.setattr(syslog, "openlog", lambda *by: told.append(by))
    monkeypatch.setattr(syslog, "syslog", lambda _, line: told.append(line))
    with pytest.raises(ZeroDivisionError):
        run_keeper(Broken(-1, str(tmp_path), os.getpid()))
    assert (told[0], told[-1]) == (("nri-holds", syslog.LOG_PID), "ZeroDivisionError: a bug")


def test_a_plugin_that_is_killed_before_it_has_read_of_the_end_does_not_end_the_keeper(
    oci: OciRuntime, tmp_path: Path
) -> None:
    """A socket with unread messages is reset, not just closed."""
    first, second = oci.create(), oci.create()
    with holder(first, str(tmp_path / "holds"), FOR_EVER, "ignore", described(second).SerializeToString().hex()) as (
        plugin,
        keeper,
    ):
        starts = [first.start(), second.start()]
        os.kill(plugin, signal.SIGSTOP)
        os.kill(first.pid, signal.SIGKILL)
        assert starts[0].ended()[0] != 0
        os.kill(plugin, signal.SIGKILL)
        gone(keeper)
    assert starts[1].ended() == (0, "")
    second.until_run()


# ---- too late


@pytest.mark.parametrize("how", ["let_go", "refuse"])
def test_a_hold_that_comes_about_when_the_container_starts_disturbs_no_program(
    oci: OciRuntime, holds: Holds, seed: int, how: str
) -> None:
    chance = random.Random(seed)  # noqa: S311
    hold(holds, (first := oci.create())).let_go()  # the keeper runs
    first.delete()
    for number in range(LATE):
        container = oci.create()
        start = container.start()
        time.sleep(chance.uniform(0, LATEST if number % 2 else LATEST / 10))  # the point of the test
        try:
            held = hold(holds, container)
        except NotHeld as error:
            end, missing = None, error.missing
        else:
            end, missing = held.let_go() if how == "let_go" else held.refuse(), Missing.NO_FIFO
        assert missing is Missing.NO_FIFO
        code, said = start.ended()
        if end is HoldEnd.REFUSED:  # a start of crun may say that all is well
            assert code != 0 or oci.name == "crun"
            assert container.has_run == 0
        else:
            assert (code, said) == (0, ""), f"{end}: {said}"
            container.until_run()
            assert (container.state, container.has_run) == ("running", 1)
            until(partial(no_files, container), "nothing is left of the hold")
        container.delete()
