"""Programs that are started before their event: when they are used and replaced, and that no request is lost."""

from __future__ import annotations

import logging
import os
import select
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adapter import paths
from adapter.job.runner import Runner
from adapter.job.standby import STRIKES, Standby
from adapter.process import PATIENCE, Process, Program

from ..processes import Fifo, Programs, SteppedLoop, children, impatience

GOOD = 'IFS= read -r line || {{ echo empty >> {0}/seen; exit 1; }}; echo "$line" >> {0}/seen; echo "{{}}"'
"""A plugin that notes what it has read, also an empty stdin."""


class Stage:
    """A runner with stand-by, and the programs that are to stand by."""

    def __init__(self, loop: SteppedLoop, programs: Programs) -> None:
        self.loop = loop
        self.folder = programs.folder
        self.programs = programs
        self.wanted: list[tuple[Program, int]] = []
        self.runner = Runner(loop)
        self.standby = self.runner.standby = Standby(loop, 300, lambda: self.wanted)
        self.ended: list[Process] = []

    def plugin(self, name: str = "plugin", script: str = GOOD, number: int = 1, path: str = "") -> Program:
        """Makes a plugin, `number` processes of which are to stand by."""
        path = path or self.programs.shell(name, script.format(self.folder))
        program = Program(name, path, (name, "invoke"), {"PATH": f"{self.folder}:/usr/bin:/bin"})
        self.wanted.append((program, number))
        return program

    def ready(self, number: int = 1) -> list[int]:
        """Waits until so many processes stand by, and no others are there; returns their pids."""
        self.loop.until(lambda: len(self.waiting()) == number == len(children()), f"{number} wait; {children()} are")
        self.loop.settle()
        assert len(self.waiting()) == number
        return self.waiting()

    def open(self, number: int = 1) -> list[int]:
        self.standby.open()
        return self.ready(number)

    def waiting(self) -> list[int]:
        return [process.pid for crew in self.standby._crews.values() for process in crew.waiting]

    def begin(self, program: Program, request: bytes = b"{}\n") -> Process:
        """Lets an event come that runs the program."""
        self.standby.event_came()
        process = self.runner.spawn(program, self.ended.append)
        process.feed(request)
        return process

    def finish(self, process: Process) -> bytes:
        """Waits for the program, and answers the event."""
        self.loop.advance(PATIENCE)
        self.loop.until(lambda: process in self.ended, "the program does not end")
        self.standby.answered()
        return process.stdout

    def event(self, program: Program, request: bytes = b"{}\n") -> Process:
        process = self.begin(program, request)
        self.finish(process)
        return process

    @property
    def seen(self) -> list[str]:
        """What programs have read."""
        path = self.folder / "seen"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def stage(
    loop: SteppedLoop, programs: Programs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Stage]:
    monkeypatch.setattr(paths, "SETTLED", -1)  # the programs of tests are young
    caplog.set_level(logging.INFO)
    made = Stage(loop, programs)
    yield made
    made.standby.close()
    loop.until(lambda: not children(), "programs are left")
    loop.settle()


@pytest.fixture
def gate(programs: Programs, stage: Stage) -> Iterator[Fifo]:
    fifo = programs.fifo("gate")
    yield fifo
    fifo.close()


def wait_for_end(pidfd: int) -> None:
    with impatience("a process does not end"):
        select.select([pidfd], [], [])
    os.close(pidfd)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_an_event_gets_a_process_that_was_there_before_it(stage: Stage) -> None:
    program = stage.plugin()
    (first,) = stage.open()
    process = stage.event(program, b'{"id":"a"}\n')
    assert (process.pid, process.status, process.stdout) == (first, 0, b"{}\n")
    (second,) = stage.ready()
    assert stage.event(program, b'{"id":"b"}\n').pid == second
    assert stage.seen == ['{"id":"a"}', '{"id":"b"}']
    assert stage.runner.accounts["plugin"].runs == 2


def test_it_gets_the_whole_request_and_the_end_of_its_stdin(stage: Stage) -> None:
    program = stage.plugin(script="exec cat")
    stage.open()
    request = bytes(range(256)) * 4096
    assert stage.event(program, request).stdout == request


def test_its_time_counts_from_the_event(stage: Stage) -> None:
    program = stage.plugin()
    stage.open()
    stage.loop.advance(200)
    assert stage.begin(program).started == stage.loop.time()


def test_the_next_one_is_started_behind_the_answer(stage: Stage, gate: Fifo) -> None:
    program = stage.plugin(script=f"IFS= read -r line; read go < {gate}")
    (pid,) = stage.open()
    process = stage.begin(program)
    stage.loop.settle()
    assert children() == [pid]
    gate.put()
    stage.loop.until(lambda: process in stage.ended)
    stage.loop.settle()
    assert children() == []
    stage.standby.answered()
    assert stage.ready() != [pid]


def test_an_event_that_comes_meanwhile_goes_before_the_rest_of_the_starts(stage: Stage) -> None:
    stage.plugin(number=3)
    stage.standby.open()
    stage.loop.until(lambda: len(stage.waiting()) == 1)
    stage.standby.event_came()
    stage.loop.settle()
    assert len(children()) == 1
    stage.standby.answered()
    stage.ready(3)


def test_a_late_chain_gets_its_process_replaced_without_another_event(stage: Stage) -> None:
    program = stage.plugin()
    stage.open()
    stage.standby.answered()
    process = stage.runner.spawn(program, stage.ended.append)
    process.feed(b"{}\n")
    stage.loop.until(lambda: process in stage.ended)
    stage.ready()


def test_more_events_than_processes_start_fresh_ones(stage: Stage) -> None:
    program = stage.plugin(number=2)
    ready = stage.open(2)
    begun = [stage.begin(program, b"%d\n" % number) for number in range(5)]
    assert [process.pid for process in begun[:2]] == ready
    for process in begun:
        stage.finish(process)
    assert sorted(stage.seen) == ["0", "1", "2", "3", "4"]
    stage.ready(2)


def test_each_program_has_its_own(stage: Stage) -> None:
    one, other = stage.plugin("one"), stage.plugin("other")
    stage.open(2)
    assert [stage.event(other).name, stage.event(one).name] == ["other", "one"]
    stage.ready(2)
    assert stage.standby.describe() == {name: {"waiting": 1, "off": ""} for name in ("one", "other")}


def test_a_program_that_two_hooks_have_stands_by_once(stage: Stage) -> None:
    program = stage.plugin()
    stage.wanted.append((program, 1))
    stage.open()


def test_what_is_not_wanted_is_not_started_and_another_environment_is_another_program(stage: Stage) -> None:
    program = stage.plugin()
    (pid,) = stage.open()
    assert stage.event(program._replace(environ={})).pid != pid
    assert stage.ready() == [pid]
    stage.wanted.clear()
    stage.event(program)
    stage.ready(0)


def test_while_nothing_is_served_nothing_stands_by(stage: Stage) -> None:
    program = stage.plugin()
    stage.event(program)
    stage.ready(0)
    stage.open()
    stage.standby.close()
    stage.ready(0)
    stage.event(program)
    stage.ready(0)
    stage.open()


def test_a_program_that_cannot_be_started_is_left_to_its_event(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    program = stage.plugin(path=str(stage.folder / "absent"))
    stage.programs.write("bad", b"")
    stage.plugin("bad", path=str(stage.folder / "bad"))
    stage.plugin("good")
    stage.open()
    for wanted in (program, stage.wanted[1][0]):
        with pytest.raises(OSError, match=r"No such file|Exec format"):
            stage.runner.spawn(wanted, stage.ended.append)
    assert said(caplog) == []
    stage.programs.shell("absent", GOOD.format(stage.folder))
    stage.event(program)
    stage.ready(2)


def test_nothing_inherits_the_pipes_of_what_stands_by(stage: Stage, gate: Fifo) -> None:
    """Else a program that works on would keep the stdin of the others open."""
    hello = f"echo $$ > {gate}; {GOOD}"
    program = stage.plugin(script=hello)
    stage.plugin("later", script=hello)
    pids = stage.open(2)
    there: list[str] = []
    while len(there) < len(pids):
        there += gate.get().split()
    opened = [{os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")} for pid in pids]
    pipes = [{target for target in targets if target.startswith("pipe:")} for targets in opened]
    assert [len(of_one) for of_one in pipes] == [3, 3]
    assert not pipes[0] & pipes[1]
    stage.event(program)


# Replacement


def rewrite(stage: Stage) -> None:
    stage.programs.shell("plugin", "cat > /dev/null; echo new")


def relink(stage: Stage) -> None:
    link = stage.folder / "plugin"
    link.rename(stage.folder / "old")
    link.symlink_to(stage.programs.shell("other", "cat > /dev/null; echo new"))


def relink_on_the_way(stage: Stage) -> None:
    stage.programs.shell("version-2", "cat > /dev/null; echo new")
    (stage.folder / "current").unlink()
    (stage.folder / "current").symlink_to("version-2")


def replace_interpreter(stage: Stage) -> None:
    (stage.folder / "shell").unlink()
    stage.programs.shell("shell", "cat > /dev/null; echo new")


@pytest.mark.parametrize(
    ("first_line", "change"),
    [
        ("/bin/sh", rewrite),
        ("/bin/sh", relink),
        ("{0}/shell", replace_interpreter),
        ("/usr/bin/env shell", replace_interpreter),
        ("/usr/bin/env -S A=1 shell -e", replace_interpreter),
    ],
)
def test_after_a_change_of_what_is_executed_the_new_one_runs(
    stage: Stage, first_line: str, change: Callable[[Stage], None]
) -> None:
    (stage.folder / "shell").symlink_to("/bin/sh")
    script = f"#!{first_line.format(stage.folder)}\n{GOOD.format(stage.folder)}\n"
    program = stage.plugin(path=stage.programs.write("plugin", script.encode()))
    (old,) = stage.open()
    change(stage)
    assert stage.event(program).stdout == b"new\n"
    assert stage.ready() != [old]
    assert stage.seen == []  # what was replaced has not seen an empty stdin
    assert stage.event(program).stdout == b"new\n"


def test_the_whole_chain_of_links_counts(stage: Stage) -> None:
    stage.programs.shell("version-1", GOOD.format(stage.folder))
    (stage.folder / "current").symlink_to("version-1")
    (stage.folder / "plugin").symlink_to("current")
    program = stage.plugin(path=str(stage.folder / "plugin"))
    stage.open()
    relink_on_the_way(stage)
    assert stage.event(program).stdout == b"new\n"


def test_an_interpreter_that_comes_earlier_in_path_counts(stage: Stage) -> None:
    script = f"#!/usr/bin/env sh\n{GOOD.format(stage.folder)}\n"
    program = stage.plugin(path=stage.programs.write("plugin", script.encode()))
    stage.open()
    stage.programs.write("sh", b"#!/bin/sh\ncat > /dev/null; echo new\n")
    assert stage.event(program).stdout == b"new\n"


def test_a_program_that_was_just_written_waits_until_a_change_would_show(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "SETTLED", 10**15)
    program = stage.plugin()
    stage.open(0)
    stage.event(program)
    stage.ready(0)
    monkeypatch.setattr(paths, "SETTLED", -1)
    stage.loop.advance(1e6)
    stage.ready()


def test_a_process_that_is_too_old_is_replaced_without_an_event(stage: Stage) -> None:
    program = stage.plugin()
    (old,) = stage.open()
    stage.loop.advance(299)
    assert stage.ready() == [old]
    stage.loop.advance(2)
    (new,) = stage.ready()
    assert new != old
    assert stage.event(program).pid == new
    assert stage.seen == ["{}"]


def test_a_process_that_is_too_old_is_not_used(stage: Stage) -> None:
    """The machine may have slept: the event comes before the timer."""
    program = stage.plugin()
    (old,) = stage.open()
    stage.loop.now += 301
    assert stage.event(program).pid != old
    assert old not in stage.ready()


def test_what_a_program_has_started_is_killed_with_it(stage: Stage, gate: Fifo) -> None:
    """A child has the stdin, too, and would see its end."""
    stage.plugin(script=f"sh -c 'echo $$ > {gate}; {GOOD}'; exit 0")
    stage.open()
    child = os.pidfd_open(int(gate.get()))
    stage.standby.close()
    stage.ready(0)
    wait_for_end(child)
    assert stage.seen == []


def test_a_child_that_outlives_its_program_is_killed_before_the_pipe_is_closed(stage: Stage, gate: Fifo) -> None:
    stage.plugin(script=f"exec 3<&0; sh -c 'echo $$ > {gate}; {GOOD}' <&3 & read go < {stage.folder}/go; exit 1")
    go = stage.programs.fifo("go")
    stage.open()
    child = os.pidfd_open(int(gate.get()))
    stage.wanted.clear()
    go.put()
    stage.ready(0)
    wait_for_end(child)
    assert stage.seen == []
    go.close()


# What spoils


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
    assert (process.pid != pid, process.unread) == (True, "")


def test_a_process_that_has_written_unnoticed_is_not_used(stage: Stage, gate: Fifo) -> None:
    program = stage.plugin(script=f"read go < {gate}; echo early; echo > {stage.folder}/back; {GOOD}")
    back = stage.programs.fifo("back")
    (pid,) = stage.open()
    gate.put()
    back.get()
    gate.put()
    process = stage.event(program)
    assert process.pid != pid
    assert process.stdout == b"early\n{}\n"
    back.close()


# A process that ends with its request unread


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
    assert (process.status, process.unread) == (0, "killed by signal 9")
    assert stage.ended == [process]
    assert stage.runner.accounts["plugin"].runs == 1
    stage.ready()


def test_a_program_that_never_reads_is_started_again_and_after_three_times_not_ahead(stage: Stage) -> None:
    program = stage.plugin(script=f"read go < {stage.folder}/go; echo done")
    go = stage.programs.fifo("go")
    for _ in range(STRIKES):
        stage.open()
        process = stage.begin(program)
        go.put()
        stage.loop.until(lambda process=process: process.unread)  # type: ignore[misc]
        go.put()
        assert stage.finish(process) == b"done\n"
    reason = "it has ended without reading its request: exit code 0"
    assert stage.standby.describe()["plugin"] == {"waiting": 0, "off": reason}
    go.close()


def test_what_was_read_in_part_is_a_failure_as_that_of_a_fresh_program(stage: Stage) -> None:
    program = stage.plugin(script=f"head -c1 >> {stage.folder}/seen; exit 1")
    (pid,) = stage.open()
    process = stage.event(program, b"abc")
    assert (process.pid, process.status, process.unread) == (pid, 1, "")
    assert stage.seen == ["a"]


def test_a_child_that_goes_on_reading_gets_the_rest(stage: Stage, gate: Fifo) -> None:
    child = f"read go < {stage.folder}/go; cat <&3 >> {stage.folder}/seen; echo done > {gate}"
    go = stage.programs.fifo("go")
    program = stage.plugin(script=f"exec 3<&0; head -c1 > /dev/null; ({child}) & exit 1")
    stage.open()
    assert stage.event(program, b"abc\n").unread == ""
    go.put()
    gate.get()
    assert stage.seen == ["bc"]
    go.close()


def test_a_child_that_may_still_read_the_request_does_not_get_it_then(stage: Stage, gate: Fifo) -> None:
    child = f"echo there > {gate}; read go < {stage.folder}/go; ({GOOD}); echo done > {gate}"
    only_once = f"if mkdir {stage.folder}/once; then exec 3<&0; ({child}) <&3 >&- & exec sleep 1000; fi 2>&-"
    go = stage.programs.fifo("go")
    program = stage.plugin(script=f"{only_once}; {GOOD}")
    (pid,) = stage.open()
    assert gate.get() == "there\n"
    process = stage.begin(program)
    os.kill(pid, signal.SIGKILL)
    stage.finish(process)
    go.put()
    assert gate.get() == "done\n"
    assert (process.pid != pid, stage.seen) == (True, ["{}", "empty"])
    go.close()


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
