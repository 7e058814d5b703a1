"""Programs that are started before their event: when they are started, and when they are used."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from v010_adapter.errors import PluginError
from v010_adapter.host import paths
from v010_adapter.programs.process import RunOutcome

from ..rig.loop import SteppedLoop
from ..rig.processes import children, gone
from ..rig.programs import Fifo, Programs
from ..rig.waiting import until
from .conftest import GOOD, Stage

STRIKES = 3


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


def test_what_a_program_that_stood_by_has_started_lives_on_after_its_result(stage: Stage) -> None:
    gate = stage.fifo("gate")
    program = stage.plugin(script=f"read -r line; (read line < {gate}; echo >{{0}}/done) & echo '{{{{}}}}'")
    stage.open()
    assert stage.event(program).stdout == b"{}\n"
    gate.put()
    until((stage.folder / "done").exists, "the child works on")


def test_a_program_that_two_hooks_have_stands_by_once_and_a_run_counts_for_the_hook_whose_it_is(stage: Stage) -> None:
    program = stage.plugin()
    stage.wanted.append((program, 1))
    stage.open()
    process = stage.event(program._replace(name="other hook"))
    stage.runner.count_time(process, RunOutcome.DONE)
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
    assert caplog.messages == []
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
    stage.open(0)
    assert stage.standby.describe() == {"missing": {"waiting": 0, "off": "not found in /opt/nri/bin"}}


def test_the_status_has_how_many_wait_and_why_there_are_not_more(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    program = stage.plugin()
    stage.open()
    stage.wanted[:] = [(program, 2)]
    with monkeypatch.context() as full:
        full.setattr(os, "posix_spawn", Mock(side_effect=BlockingIOError(11, "no process is left")))
        assert stage.standby.claim(program._replace(path="/other"), stage.ended.append, print) is None
        stage.ready()
    assert stage.standby.describe() == {"plugin": {"waiting": 1, "off": "no process is left"}}


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
    assert caplog.messages == ["no more than 2 processes stand by: there are 23 descriptors"]
    stage.standby.close()
    stage.ready(0)


def test_nothing_inherits_the_pipes_of_what_stands_by(stage: Stage, gate: Fifo) -> None:
    """Else a program that works on would keep the stdin of the others open."""

    def pipes_of(pid: int) -> set[str]:
        targets = set()
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                targets.add(str(fd.readlink()))
        return {target for target in targets if target.startswith("pipe:")}

    strange = pipes_of(os.getpid())
    hello = f"echo $$ > {gate}; {GOOD}"
    program = stage.plugin(script=hello)
    stage.plugin("later", script=hello)
    pids = stage.open(2)
    for _ in pids:
        gate.get()
    pipes = [pipes_of(pid) - strange for pid in pids]
    assert [len(of_one) for of_one in pipes] == [3, 3]
    assert not pipes[0] & pipes[1]
    stage.event(program)


# Processes that end or write before their request serve no event

ENDED = "it has ended before its request: exit code "


def test_a_process_that_dies_while_it_waits_is_replaced(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    program = stage.plugin()
    for number in range(STRIKES + 2):
        (pid,) = stage.ready() if number else stage.open()
        os.kill(pid, signal.SIGKILL)
        stage.loop.until(lambda pid=pid: pid not in children())  # type: ignore[misc]
        assert stage.event(program).pid != pid
        assert stage.event(program).status == 0  # one that has stood by
    reason = "it has ended before its request: killed by signal 9"
    assert caplog.messages == [f"plugin: a process that stood by is of no use: {reason}"]
    assert stage.seen == ["{}"] * 2 * (STRIKES + 2)


@pytest.mark.parametrize(
    ("script", "reasons"),
    [
        ("exit 3", [f"{ENDED}3"]),
        ("exit $(wc -l <{0}/seen)", [f"{ENDED}1", f"{ENDED}2", f"{ENDED}3"]),
        ("echo hello; exec cat", ["it has written to stdout or stderr before its request"]),
        ("echo hello >&2; exec cat", ["it has written to stdout or stderr before its request"]),
    ],
)
def test_after_three_in_a_row_there_is_no_stand_by_until_the_program_changes(
    stage: Stage, script: str, reasons: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The last reason is the one that counts."""
    program = stage.plugin(script=f"echo start >> {{0}}/seen; {script}")
    stage.standby.open()
    stage.loop.until(lambda: stage.standby.describe() == {"plugin": {"waiting": 0, "off": reasons[-1]}})
    stage.ready(0)
    assert stage.seen == ["start"] * STRIKES
    stage.event(program)
    stage.ready(0)
    stage.loop.advance(1000)
    stage.ready(0)
    assert [line for line in caplog.messages if "stderr:" not in line] == [
        *(f"plugin: a process that stood by is of no use: {reason}" for reason in reasons),
        f"plugin: stand-by is off until the program changes, or SIGHUP; events start it: {reasons[-1]}",
    ]
    stage.programs.shell("plugin", GOOD.format(stage.folder))
    stage.event(program)
    stage.ready()


def test_a_process_that_has_died_unnoticed_is_not_used(stage: Stage) -> None:
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


def test_a_process_that_dies_with_its_request_unread_has_failed_as_a_fresh_one(stage: Stage, gate: Fifo) -> None:
    program = stage.plugin(script=f"read go < {gate}; {GOOD}")
    (pid,) = stage.open()
    process = stage.begin(program)
    os.kill(pid, signal.SIGKILL)
    assert stage.finish(process) == b""
    assert (process.pid, process.ending, stage.seen) == (pid, "killed by signal 9", [])
    stage.ready()


# They are replaced by a change of what a start executes, and by their age


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
    ],
)
def test_after_a_change_of_what_is_executed_the_new_one_runs(
    stage: Stage, gate: Fifo, first_line: str, change: Callable[[Stage], None]
) -> None:
    if "\0" in first_line and subprocess.run(["/bin/sh", "-c", 'test -n "$BASH_VERSION"'], check=False).returncode == 0:
        pytest.skip("bash takes a script whose first line has a NUL for no script")
    (stage.folder / "shell").symlink_to("/bin/sh")
    stage.programs.write("outer", f'#!{stage.folder}/shell\nexec /bin/sh "$@"\n')
    script = f"#!{first_line.format(stage.folder)}\necho >{gate}\n{GOOD.format(stage.folder)}\n"
    program = stage.plugin(path=str(stage.programs.write("plugin", script)))
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
    stage.plugin(path=str(stage.programs.write("plugin", script)))
    stage.open(0)
    assert stage.standby.describe()["plugin"]["off"].startswith(reason.format(stage.folder))
    assert caplog.messages == []


def test_a_path_without_a_slash_is_not_searched_for(stage: Stage, gate: Fifo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A precreate hook's path may be relative; its PATH has another program of that name."""
    here = Programs(stage.folder / "here")
    here.shell("sh", f"echo > {gate}; {GOOD.format(stage.folder)}")
    monkeypatch.chdir(here.folder)
    program = stage.plugin(path="sh")
    stage.open()
    gate.get()
    here.shell("sh", "cat > /dev/null; echo new")
    assert stage.event(program).stdout == b"new\n"


def test_a_program_waits_until_a_change_of_it_would_show(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "TIMESTAMP_STEP", 10**15)
    program = stage.plugin()
    os.utime(program.path, (0, 0))  # as a package's program, which is as new as its other time says
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


def test_each_process_is_replaced_at_its_own_age_and_not_used_from_then_on(stage: Stage) -> None:
    program, begun = stage.plugin(number=2), stage.loop.now
    first, second = stage.open(2)
    stage.loop.advance(100)
    assert stage.event(program).pid == first
    stage.ready(2)
    stage.loop.now = begun + 300
    assert second not in (old := stage.ready(2))
    stage.loop.now += 300
    assert stage.event(program).pid not in old, "the machine may have slept: the event comes before the timer"
    assert not {*old} & {*stage.ready(2)}


def test_a_program_that_has_left_its_process_group_is_killed_as_well(stage: Stage) -> None:
    code = "import os; os.setpgid(0, os.getpgid(os.getppid())); open('{0}/left', 'x'); os.read(0, 1)"
    stage.plugin(script=f'exec {shlex.quote(sys.executable)} -c "{code}"')
    stage.open()
    until((stage.folder / "left").exists, "the program has left its group")
    stage.wanted.clear()
    stage.standby.renew()
    stage.ready(0)


@pytest.mark.parametrize("ends_by_itself", [True, False])
def test_a_child_that_outlives_its_program_is_killed_before_the_pipe_is_closed(
    stage: Stage, gate: Fifo, *, ends_by_itself: bool
) -> None:
    stage.plugin(script=f"exec 3<&0; sh -c 'echo $$ > {gate}; {GOOD}' <&3 & read go < {stage.folder}/go; exit 1")
    go = stage.fifo("go")
    stage.open()
    child = int(gate.get())
    stage.wanted.clear()
    if ends_by_itself:
        go.put()
    else:
        stage.standby.renew()
    stage.ready(0)
    gone(child)
    assert stage.seen == []
