"""Programs that are started before their event: when they are started, and when they are used."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

import adapter.programs.standby
from adapter.errors import PluginError
from adapter.host import paths
from adapter.programs.process import Program
from adapter.programs.runner import Outcome
from adapter.programs.standby import STRIKES

from ..processes import Fifo, Programs, SteppedLoop, children
from .stage import GOOD, Stage, said


def test_an_event_gets_a_process_that_was_there_before_it(stage: Stage) -> None:
    program = stage.plugin()
    (first,) = stage.open()
    process = stage.event(program, b'{"id":"a"}\n')
    assert (process.pid, process.status, process.stdout) == (first, 0, b"{}\n")
    (second,) = stage.ready()
    assert stage.event(program, b'{"id":"b"}\n').pid == second
    assert stage.seen == ['{"id":"a"}', '{"id":"b"}']
    assert stage.runner.accounts["plugin"].runs == 2


def test_it_gets_the_whole_request_and_the_end_of_its_stdin_and_its_time_counts_from_the_event(stage: Stage) -> None:
    program = stage.plugin(script="exec cat")
    stage.open()
    stage.loop.advance(200)
    request = bytes(range(256)) * 4096
    process = stage.begin(program, request)
    assert process.started == stage.loop.time()
    assert stage.finish(process) == request


def test_more_events_than_processes_start_fresh_ones(stage: Stage) -> None:
    program = stage.plugin(number=2)
    ready = stage.open(2)
    begun = [stage.begin(program, b"%d\n" % number) for number in range(5)]
    assert [process.pid for process in begun[:2]] == ready
    for process in begun:
        stage.finish(process)
    assert sorted(stage.seen) == ["0", "1", "2", "3", "4"]
    stage.ready(2)


def test_a_program_that_two_hooks_have_stands_by_once_and_a_run_counts_for_the_hook_whose_it_is(stage: Stage) -> None:
    program = stage.plugin()
    stage.wanted.append((program, 1))
    stage.open()
    process = stage.event(program._replace(name="other hook"))
    stage.runner.note(process, Outcome.DONE)
    assert list(stage.runner.accounts) == ["other hook"]


def test_what_is_not_wanted_is_not_started_and_another_environment_is_another_program(stage: Stage) -> None:
    program = stage.plugin()
    (pid,) = stage.open()
    assert stage.event(program._replace(environ={})).pid != pid
    assert stage.ready() == [pid]
    stage.wanted.clear()
    stage.event(program)
    stage.ready(0)


def test_a_program_that_cannot_be_started_is_left_to_its_event(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    program = stage.plugin(path=str(stage.folder / "absent"))
    stage.programs.write("bad", b"")
    bad = stage.plugin("bad", path=str(stage.folder / "bad"))
    stage.plugin("good")
    stage.open()
    for wanted in (program, bad):
        with pytest.raises(OSError, match=r"No such file|Exec format"):
            stage.runner.spawn(wanted, stage.ended.append)
    assert said(caplog) == []
    told = stage.standby.describe()
    assert told["plugin"] == {"waiting": 0, "off": f"{stage.folder}/absent: No such file or directory"}
    assert told["bad"]["off"].startswith("Exec format error")
    assert told["good"] == {"waiting": 1, "off": ""}
    stage.programs.shell("absent", GOOD.format(stage.folder))
    stage.event(program)
    stage.ready(2)
    assert stage.standby.describe()["plugin"] == {"waiting": 1, "off": ""}
    stage.standby.close()
    assert stage.standby.describe() == {}


def test_the_status_has_why_a_program_cannot_be_found_that_should_stand_by(stage: Stage) -> None:
    stage.wanted.append((PluginError("missing", "not found in /opt/nri/bin"), 1))
    stage.plugin("good")
    stage.open()
    assert stage.standby.describe() == {
        "missing": {"waiting": 0, "off": "not found in /opt/nri/bin"},
        "good": {"waiting": 1, "off": ""},
    }


def test_half_of_the_descriptors_are_for_events(
    loop: SteppedLoop, programs: Programs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(paths, "TIMESTAMP_STEP", -1)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (23, 1000))
    stage = Stage(loop, programs)
    program = stage.plugin(number=100)
    stage.open(2)
    stage.event(program)
    stage.ready(2)
    assert said(caplog) == ["no more than 2 processes stand by: there are 23 descriptors"]
    stage.standby.close()
    stage.ready(0)


def test_a_start_that_fails_is_not_tried_again_for_each_process(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptors, no memory, no pids: 100 attempts would hold up the next event."""
    tried: list[Program] = []

    def fail(_: object, program: Program, *__: object) -> None:
        tried.append(program)
        raise OSError

    monkeypatch.setattr(adapter.programs.standby, "Process", fail)
    wanted = [stage.plugin("one", number=100), stage.plugin("other", number=100)]
    stage.open(0)
    assert tried == wanted


def test_nothing_inherits_the_pipes_of_what_stands_by(stage: Stage, gate: Fifo) -> None:
    """Else a program that works on would keep the stdin of the others open."""

    def pipes_of(pid: int) -> set[str]:
        targets = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
        return {target for target in targets if target.startswith("pipe:")}

    strange = pipes_of(os.getpid())
    hello = f"echo $$ > {gate}; {GOOD}"
    program = stage.plugin(script=hello)
    stage.plugin("later", script=hello)
    pids = stage.open(2)
    there: list[str] = []
    while len(there) < len(pids):
        there += gate.get().split()
    pipes = [pipes_of(pid) - strange for pid in pids]
    assert [len(of_one) for of_one in pipes] == [3, 3]
    assert not pipes[0] & pipes[1]
    stage.event(program)


# Processes that end or write before their request serve no event


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
