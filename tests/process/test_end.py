"""How a run ends, and who is not waited for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from adapter.process import MAX_STDOUT

from ..processes import Fifo, SteppedLoop, is_running
from .run import Run

# Its end


@pytest.mark.parametrize(
    ("text", "status", "ending"),
    [
        ("exit 0", 0, "exit code 0"),
        ("exit 3", 3, "exit code 3"),
        ("exit 255", 255, "exit code 255"),
        ("kill -9 $$", -9, "killed by signal 9"),
        ("kill $$", -15, "killed by signal 15"),
        ("kill -PIPE $$", -13, "killed by signal 13"),
    ],
)
def test_how_it_ended_is_known(shell: Callable[..., Run], text: str, status: int, ending: str) -> None:
    run = shell(text)
    assert run.process.ending == "still running"
    run.wait()
    assert run.process.status == status
    assert run.process.ending == ending


def test_a_crash_with_a_core_dump_is_a_death_by_its_signal(shell: Callable[..., Run]) -> None:
    assert shell("ulimit -c unlimited; cd /proc; kill -SEGV $$").wait().process.status == -11


def test_children_that_hold_the_pipes_are_not_waited_for(shell: Callable[..., Run], gate: Fifo) -> None:
    run = shell(f"(read line < {gate}; echo late) & echo $!; echo err >&2").wait()
    child = int(run.stdout)
    assert is_running(child)
    assert run.lines == ["err"]
    gate.put()
    wait_for_end(child)
    assert run.stdout == f"{child}\n"


def test_a_child_that_prints_without_end_is_not_waited_for(shell: Callable[..., Run]) -> None:
    run = shell("yes & echo $! >&2").wait()
    assert run.process.status == 0
    wait_for_end(int(run.lines[0]))  # nobody reads any more


# Left behind


@pytest.mark.parametrize(("to", "stream"), [("", "stdout"), (">&2", "stderr")])
def test_a_program_that_was_left_and_writes_without_end_finds_its_pipe_closed(
    shell: Callable[..., Run], to: str, stream: str
) -> None:
    """Reading on would cost the adapter a processor for as long as the program lives."""
    run = shell(f"exec yes {to}").listen()
    run.process.leave()
    assert run.wait().process.status == -signal.SIGPIPE
    assert run.lines[-1] == f"(more than 1048576 bytes on {stream} from a program that was left: the pipe is closed)"
    assert sum("the pipe is closed" in line for line in run.lines) == 1


def test_a_program_that_was_left_may_write_a_mebibyte_to_each_pipe(shell: Callable[..., Run]) -> None:
    run = shell(f"head -c {MAX_STDOUT} /dev/zero; head -c {MAX_STDOUT} /dev/zero >&2").listen()
    run.process.leave()
    assert run.wait().process.status == 0
    assert not any("the pipe is closed" in line for line in run.lines)


def wait_for_end(pid: int) -> None:
    """Waits for a process that is not our child."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    watcher = SteppedLoop()
    seen: list[bool] = []
    watcher.watch(fd, lambda: seen.append(True))
    watcher.until(lambda: bool(seen), "a child does not end")
    watcher.close()
    os.close(fd)


def test_killing_it_kills_it_and_not_its_children(shell: Callable[..., Run], gate: Fifo) -> None:
    run = shell(f"(read line < {gate}) & echo $!; wait").listen()
    run.loop.until(lambda: run.stdout != "")
    child = int(run.stdout)
    run.process.kill()
    run.process.kill()
    assert run.wait().process.status == -signal.SIGKILL
    assert is_running(child)
    gate.put()
    wait_for_end(child)


def test_killing_what_has_ended_is_harmless(shell: Callable[..., Run]) -> None:
    run = shell("exit 3").wait()
    run.process.kill()
    assert run.process.status == 3


def test_when_it_ended_is_told_once_with_everything_read(shell: Callable[..., Run]) -> None:
    for _ in range(20):
        run = shell("echo out; echo err >&2").wait()
        assert (run.stdout, run.lines, run.ended) == ("out\n", ["err"], 1)
