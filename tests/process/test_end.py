"""How a run ends, and who is not waited for."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from adapter.programs.process import MAX_STDOUT

from ..processes import Fifo, gone, is_running
from .run import Run

# Its end


def test_how_it_ended_is_known_and_told_once_with_everything_read(shell: Callable[..., Run]) -> None:
    for text, status, ending in (
        ("exit 0", 0, "exit code 0"),
        ("exit 255", 255, "exit code 255"),
        ("kill -9 $$", -9, "killed by signal 9"),
        ("kill -PIPE $$", -13, "killed by signal 13"),
        ("ulimit -c unlimited; cd /proc; kill -SEGV $$", -11, "killed by signal 11"),  # with a core dump
    ):
        run = shell(f"echo out; echo err >&2; {text}")
        assert run.process.ending == "still running"
        run.wait()
        run.process.kill()  # harmless by now
        assert (run.process.status, run.process.ending, run.ended) == (status, ending, 1)
        assert (run.stdout, run.lines) == ("out\n", ["err"])


def test_children_that_hold_the_pipes_are_not_waited_for(shell: Callable[..., Run], gate: Fifo) -> None:
    run = shell(f"(read line < {gate}; echo late) & echo $!; echo err >&2").wait()
    child = int(run.stdout)
    assert is_running(child)
    assert run.lines == ["err"]
    gate.put()
    gone(child)
    assert run.stdout == f"{child}\n"


def test_a_child_that_prints_without_end_is_not_waited_for(shell: Callable[..., Run]) -> None:
    run = shell("yes & echo $! >&2").wait()
    assert run.process.status == 0
    gone(int(run.lines[0]))  # nobody reads any more


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


def test_killing_it_kills_it_and_not_its_children(shell: Callable[..., Run], gate: Fifo) -> None:
    run = shell(f"(read line < {gate}) & echo $!; wait").listen()
    run.loop.until(lambda: run.stdout != "")
    child = int(run.stdout)
    run.process.kill()
    run.process.kill()
    assert run.wait().process.status == -signal.SIGKILL
    assert is_running(child)
    gate.put()
    gone(child)
