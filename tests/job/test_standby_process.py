"""Processes that end or write before their request: they serve no event."""

from __future__ import annotations

import os
import signal

import pytest

from adapter.programs.standby import STRIKES

from ..processes import Fifo, children
from .stage import GOOD, Stage, said


def test_a_process_that_dies_while_it_waits_is_replaced(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    program = stage.plugin()
    for number in range(STRIKES + 2):
        (pid,) = stage.ready() if number else stage.open()
        os.kill(pid, signal.SIGKILL)
        stage.loop.until(lambda pid=pid: pid not in children())  # type: ignore[misc]
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
    program = stage.plugin(script=f"echo start >> {{0}}/seen; {script}")
    stage.standby.open()
    stage.loop.until(lambda: stage.standby.describe() == {"plugin": {"waiting": 0, "off": reason}})
    stage.ready(0)
    assert stage.seen == ["start"] * STRIKES
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
    assert process.pid != pid
    assert process.stdout == b"{}\n"


def test_a_program_that_sends_its_stderr_elsewhere_is_fit(stage: Stage, gate: Fifo) -> None:
    program = stage.plugin(script=f"exec 2>/dev/null; echo > {gate}; {GOOD}")
    (pid,) = stage.open()
    heard: list[str] = []
    stage.loop.watch(gate.fd, lambda: heard.append(gate.get()))
    stage.loop.until(lambda: bool(heard), "stderr is not closed")
    stage.loop.unwatch(gate.fd)
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


def test_a_process_that_dies_with_its_request_unread_has_failed_as_a_fresh_one(stage: Stage, gate: Fifo) -> None:
    program = stage.plugin(script=f"read go < {gate}; {GOOD}")
    (pid,) = stage.open()
    process = stage.begin(program)
    os.kill(pid, signal.SIGKILL)
    assert stage.finish(process) == b""
    assert (process.pid, process.ending, stage.seen) == (pid, "killed by signal 9", [])
    stage.ready()
