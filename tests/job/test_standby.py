"""Programs that are started before their event: when they are used, and when they are replaced."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import adapter.job.standby
from adapter import paths
from adapter.errors import PluginError
from adapter.job.runner import Outcome
from adapter.process import Program

from ..processes import Fifo, Programs, SteppedLoop, children
from .stage import GOOD, Stage, said, wait_for_end


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


def test_a_run_counts_for_the_hook_whose_it_is(stage: Stage) -> None:
    program = stage.plugin()
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


@pytest.mark.parametrize("is_used", [True, False])
def test_an_answer_starts_nothing_once_another_process_serves(stage: Stage, *, is_used: bool) -> None:
    program = stage.plugin()
    stage.open()
    stage.standby.event_came()
    process = stage.runner.spawn(program, stage.ended.append) if is_used else None
    stage.standby.close()
    if process is not None:
        process.feed(b"{}\n")
        stage.finish(process)
    stage.standby.answered()
    stage.ready(0)
    stage.open()


def test_an_event_that_has_used_nothing_leaves_what_follows_to_no_other_event(stage: Stage) -> None:
    program = stage.plugin()
    stage.open()
    stage.standby.event_came()
    stage.standby.answered()
    stage.runner.spawn(program, stage.ended.append).feed(b"{}\n")  # of a late chain
    stage.ready()


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
    monkeypatch.setattr(paths, "SETTLED", -1)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (29, 1000))
    stage = Stage(loop, programs)
    program = stage.plugin(number=100)
    stage.open(2)
    stage.event(program)
    stage.ready(2)
    assert said(caplog) == ["no more than 2 processes stand by: there are 29 descriptors"]
    stage.standby.close()
    stage.ready(0)


def test_a_start_that_fails_is_not_tried_again_for_each_process(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptors, no memory, no pids: 100 attempts would hold up the next event."""
    tried: list[Program] = []

    def fail(_: object, program: Program, *__: object) -> None:
        tried.append(program)
        raise OSError

    monkeypatch.setattr(adapter.job.standby, "StandbyProcess", fail)
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
        ("/bin/sh\0-x", rewrite),
        ("{0}/shell", replace_interpreter),
        ("/usr/bin/env shell", replace_interpreter),
        ("/usr/bin/env -S A=1 shell -e", replace_interpreter),
    ],
)
def test_after_a_change_of_what_is_executed_the_new_one_runs(
    stage: Stage, gate: Fifo, first_line: str, change: Callable[[Stage], None]
) -> None:
    (stage.folder / "shell").symlink_to("/bin/sh")
    script = f"#!{first_line.format(stage.folder)}\necho >{gate}\n{GOOD.format(stage.folder)}\n"
    program = stage.plugin(path=stage.programs.write("plugin", script.encode()))
    (old,) = stage.open()
    gate.get()  # it runs
    change(stage)
    assert stage.event(program).stdout == b"new\n"
    assert stage.ready() != [old]
    assert stage.seen == []  # what was replaced has not seen an empty stdin
    assert stage.event(program).stdout == b"new\n"


@pytest.mark.parametrize("first_line", ["{0}/shell", "/usr/bin/env shell"])
def test_the_interpreter_of_an_interpreter_counts(stage: Stage, gate: Fifo, first_line: str) -> None:
    own = stage.folder / "own"
    own.symlink_to("/bin/sh")
    stage.programs.write("shell", f'#!{own}\nexec /bin/sh "$@"\n'.encode())
    script = f"#!{first_line.format(stage.folder)}\necho >{gate}\n{GOOD.format(stage.folder)}\n"
    program = stage.plugin(path=stage.programs.write("plugin", script.encode()))
    (old,) = stage.open()
    gate.get()
    own.unlink()
    stage.programs.shell("own", "cat > /dev/null; echo new")
    assert stage.event(program).stdout == b"new\n"
    assert stage.ready() != [old]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("-u A shell", "its first line has `-u` for env"),
        ("-S PATH={0} shell", "its first line has `PATH={0}` for env"),
        ("-S -i {0}/shell", "its first line has `-i` for env"),
        ("-Sshell", "its first line has `-Sshell` for env"),
        ("plugin", "too many interpreters"),
        ("nothing", "nothing: not found in PATH"),
        ("-S {0}/nothing", "{0}/nothing: No such file or directory"),
    ],
)
def test_a_script_whose_env_may_start_anything_is_not_started_ahead_and_the_status_has_why(
    stage: Stage, words: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    (stage.folder / "shell").symlink_to("/bin/sh")
    script = f"#!/usr/bin/env {words.format(stage.folder)}\n{GOOD.format(stage.folder)}\n"
    stage.plugin(path=stage.programs.write("plugin", script.encode()))
    stage.open(0)
    assert stage.standby.describe()["plugin"]["off"].startswith(reason.format(stage.folder))
    assert said(caplog) == []


def test_an_interpreter_that_is_no_file_holds_nobody_up(stage: Stage, gate: Fifo) -> None:
    stage.plugin(path=stage.programs.write("plugin", f"#!{gate}\n".encode()))
    stage.plugin("good")
    stage.open()


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


def test_what_env_cannot_execute_does_not_hide_what_it_executes(stage: Stage, gate: Fifo) -> None:
    for name in ("first", "second"):
        (stage.folder / name).mkdir()
    stage.programs.write("first/shell", b"", 0o644)
    (stage.folder / "second/shell").symlink_to("/bin/sh")
    script = f"#!/usr/bin/env shell\necho >{gate}\n{GOOD.format(stage.folder)}\n"
    path = f"{stage.folder}/first:{stage.folder}/second:/usr/bin:/bin"
    program = stage.plugin(path=stage.programs.write("plugin", script.encode()))._replace(environ={"PATH": path})
    stage.wanted[:] = [(program, 1)]
    stage.open()
    gate.get()
    (stage.folder / "second/shell").unlink()
    stage.programs.shell("second/shell", "cat > /dev/null; echo new")
    assert stage.event(program).stdout == b"new\n"


def test_a_path_without_a_slash_is_no_name_to_be_searched(
    stage: Stage, gate: Fifo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A precreate hook's path may be relative; its PATH has another program of that name."""
    here = Programs(stage.folder / "here")
    here.shell("sh", f"echo > {gate}; {GOOD.format(stage.folder)}")
    monkeypatch.chdir(here.folder)
    program = stage.plugin(path="sh")
    stage.open()
    gate.get()
    here.shell("sh", "cat > /dev/null; echo new")
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


def test_a_program_from_the_future_stands_by(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock has been set back since the file was written: else it would be looked at 20 times a second."""
    monkeypatch.setattr(paths, "SETTLED", 50_000_000)
    monkeypatch.setattr(time, "time_ns", lambda now=time.time_ns: now() - 3600 * 10**9)
    stage.plugin()
    stage.open()


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
    go = stage.fifo("go")
    stage.open()
    child = os.pidfd_open(int(gate.get()))
    stage.wanted.clear()
    go.put()
    stage.ready(0)
    wait_for_end(child)
    assert stage.seen == []
