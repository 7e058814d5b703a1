"""When programs that stand by are replaced: by a change of what a start executes, and by their age."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from adapter.host import paths

from ..processes import Fifo, Programs, gone
from .stage import GOOD, Stage, said


def rewrite(stage: Stage) -> None:
    stage.programs.shell("plugin", "cat > /dev/null; echo new")


def relink(stage: Stage) -> None:
    link = stage.folder / "plugin"
    link.rename(stage.folder / "old")
    link.symlink_to(stage.programs.shell("other", "cat > /dev/null; echo new"))


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
        ("{0}/outer", replace_interpreter),
        ("/usr/bin/env outer", replace_interpreter),
    ],
)
def test_after_a_change_of_what_is_executed_the_new_one_runs(
    stage: Stage, gate: Fifo, first_line: str, change: Callable[[Stage], None]
) -> None:
    (stage.folder / "shell").symlink_to("/bin/sh")
    stage.programs.write("outer", f'#!{stage.folder}/shell\nexec /bin/sh "$@"\n'.encode())
    script = f"#!{first_line.format(stage.folder)}\necho >{gate}\n{GOOD.format(stage.folder)}\n"
    program = stage.plugin(path=stage.programs.write("plugin", script.encode()))
    (old,) = stage.open()
    gate.get()  # it runs
    change(stage)
    assert stage.event(program).stdout == b"new\n"
    assert stage.ready() != [old]
    assert stage.seen == []  # what was replaced has not seen an empty stdin
    assert stage.event(program).stdout == b"new\n"


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
    monkeypatch.setattr(paths, "TIMESTAMP_STEP", 10**15)
    program = stage.plugin()
    stage.open(0)
    stage.event(program)
    stage.ready(0)
    monkeypatch.setattr(paths, "TIMESTAMP_STEP", -1)
    stage.loop.advance(1e6)
    stage.ready()


def test_a_program_from_the_future_stands_by(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock has been set back since the file was written: else it would be looked at 20 times a second."""
    monkeypatch.setattr(paths, "TIMESTAMP_STEP", 50_000_000)
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
    child = int(gate.get())
    stage.standby.close()
    stage.ready(0)
    gone(child)
    assert stage.seen == []


def test_a_child_that_outlives_its_program_is_killed_before_the_pipe_is_closed(stage: Stage, gate: Fifo) -> None:
    stage.plugin(script=f"exec 3<&0; sh -c 'echo $$ > {gate}; {GOOD}' <&3 & read go < {stage.folder}/go; exit 1")
    go = stage.fifo("go")
    stage.open()
    child = int(gate.get())
    stage.wanted.clear()
    go.put()
    stage.ready(0)
    gone(child)
    assert stage.seen == []
