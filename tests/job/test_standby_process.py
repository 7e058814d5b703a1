"""Processes that end or write before their request, or end with it unread: no request is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from adapter.job.standby import STRIKES

from ..processes import Fifo
from .stage import GOOD, Stage, said, unread


def test_a_process_that_dies_while_it_waits_is_replaced(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    program = stage.plugin()
    for number in range(STRIKES + 2):
        (pid,) = stage.ready() if number else stage.open()
        os.kill(pid, signal.SIGKILL)
        stage.loop.until(lambda pid=pid: pid not in stage.waiting())  # type: ignore[misc]
        assert stage.event(program).pid != pid
        assert stage.event(program).status == 0  # one that has stood by
    reason = "it has ended before its request: killed by signal 9"
    assert said(caplog) == [f"plugin: a process that stood by is of no use: {reason}"]
    assert stage.seen == ["{}"] * 2 * (STRIKES + 2)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "it has ended before its request: exit code 3"),
        ("echo hello; exec cat", "it has written to stdout or stderr before its request"),
        ("echo hello >&2; exec cat", "it has written to stdout or stderr before its request"),
    ],
)
def test_after_three_in_a_row_there_is_no_stand_by_until_the_program_changes(
    stage: Stage, script: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    program = stage.plugin(script=script)
    stage.standby.open()
    stage.loop.until(lambda: stage.standby.describe() == {"plugin": {"waiting": 0, "off": reason}})
    stage.ready(0)
    stage.event(program)
    stage.ready(0)
    stage.loop.advance(1000)
    stage.ready(0)
    assert [line for line in said(caplog) if "stderr:" not in line] == [
        f"plugin: a process that stood by is of no use: {reason}",
        f"plugin: stand-by is off until the program changes, or SIGHUP; events start it: {reason}",
    ]
    stage.programs.shell("plugin", GOOD.format(stage.folder))
    stage.event(program)
    stage.ready()


def test_a_process_that_has_died_unnoticed_is_not_used(stage: Stage) -> None:
    """It has died, and the loop has not seen it yet."""
    program = stage.plugin()
    (pid,) = stage.open()
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    process = stage.event(program)
    assert (process.pid != pid, unread(process)) == (True, "")


def test_a_program_that_sends_its_stderr_elsewhere_is_fit(stage: Stage) -> None:
    program = stage.plugin(script=f"exec 2>/dev/null; {GOOD}")
    (pid,) = stage.open()
    (crew,) = stage.standby._crews.values()
    stage.loop.until(lambda: crew.waiting[0]._err < 0, "stderr is not closed")
    assert stage.event(program).pid == pid


def test_a_process_that_has_written_unnoticed_is_not_used(stage: Stage, gate: Fifo) -> None:
    program = stage.plugin(script=f"read go < {gate}; echo early; echo > {stage.folder}/back; {GOOD}")
    back = stage.fifo("back")
    (pid,) = stage.open()
    gate.put()
    back.get()
    gate.put()
    process = stage.event(program)
    assert process.pid != pid
    assert process.stdout == b"early\n{}\n"


@pytest.mark.parametrize("size", [2, 1000, 1 << 20])
def test_what_nobody_has_read_goes_to_a_second_start(stage: Stage, gate: Fifo, size: int) -> None:
    program = stage.plugin(script=f"read go < {gate}; exec cat")
    (pid,) = stage.open()
    request = b"x" * size
    process = stage.begin(program, request)
    os.kill(pid, signal.SIGKILL)
    stage.loop.until(lambda: process.pid != pid)
    gate.put()
    assert stage.finish(process) == request
    assert (process.status, unread(process)) == (0, "killed by signal 9")
    assert stage.ended == [process]
    assert stage.runner.accounts["plugin"].runs == 1
    stage.ready()


def test_a_program_that_never_reads_is_started_again_and_after_three_times_not_ahead(stage: Stage) -> None:
    program = stage.plugin(script=f"read go < {stage.folder}/go; echo done")
    go = stage.fifo("go")
    for _ in range(STRIKES):
        stage.open()
        process = stage.begin(program)
        go.put()
        stage.loop.until(lambda process=process: unread(process) != "")  # type: ignore[misc]
        go.put()
        assert stage.finish(process) == b"done\n"
    reason = "it has ended without reading its request: exit code 0"
    assert stage.standby.describe()["plugin"] == {"waiting": 0, "off": reason}


def test_what_was_read_in_part_is_a_failure_as_that_of_a_fresh_program(stage: Stage) -> None:
    program = stage.plugin(script=f"head -c1 >> {stage.folder}/seen; exit 1")
    (pid,) = stage.open()
    process = stage.event(program, b"abc")
    assert (process.pid, process.status, unread(process)) == (pid, 1, "")
    assert stage.seen == ["a"]


def test_a_child_that_goes_on_reading_gets_the_rest(stage: Stage, gate: Fifo) -> None:
    child = f"read go < {stage.folder}/go; cat <&3 >> {stage.folder}/seen; echo done > {gate}"
    go = stage.fifo("go")
    program = stage.plugin(script=f"exec 3<&0; head -c1 > /dev/null; ({child}) & exit 1")
    stage.open()
    assert unread(stage.event(program, b"abc\n")) == ""
    go.put()
    gate.get()
    assert stage.seen == ["bc"]


def test_a_child_that_may_still_read_the_request_does_not_get_it_then(stage: Stage, gate: Fifo) -> None:
    child = f"echo there > {gate}; read go < {stage.folder}/go; ({GOOD}); echo done > {gate}"
    only_once = f"if mkdir {stage.folder}/once; then exec 3<&0; ({child}) <&3 >&- & exec sleep 1000; fi 2>&-"
    go = stage.fifo("go")
    program = stage.plugin(script=f"{only_once}; {GOOD}")
    (pid,) = stage.open()
    assert gate.get() == "there\n"
    process = stage.begin(program)
    os.kill(pid, signal.SIGKILL)
    stage.finish(process)
    go.put()
    assert gate.get() == "done\n"
    assert (process.pid != pid, stage.seen) == (True, ["{}", "empty"])


@pytest.mark.parametrize("kill", [False, True])
def test_what_was_left_is_not_started_again(stage: Stage, gate: Fifo, kill: bool) -> None:
    program = stage.plugin(script=f"read go < {gate}; {GOOD}")
    (pid,) = stage.open()
    process = stage.begin(program)
    stage.runner.leave(process, kill=kill)
    os.kill(pid, signal.SIGKILL)
    stage.loop.until(lambda: process.status is not None)
    assert (stage.ended, stage.seen) == ([], [])
    stage.standby.answered()
    stage.ready()


def test_a_second_start_that_fails_is_the_end(stage: Stage, gate: Fifo, caplog: pytest.LogCaptureFixture) -> None:
    program = stage.plugin(script=f"echo there > {gate}; exec sleep 1000")
    (pid,) = stage.open()
    assert gate.get() == "there\n"  # it has read its script
    process = stage.begin(program)
    Path(program.path).unlink()
    os.kill(pid, signal.SIGKILL)
    stage.finish(process)
    assert process.status == -signal.SIGKILL
    assert "plugin: stderr: (the program cannot be started: No such file or directory)" in said(caplog)
