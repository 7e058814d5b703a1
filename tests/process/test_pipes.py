"""A run's request, result, stderr and end, with real programs."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from v010_adapter.programs.process import _CHUNK, MAX_LINE, MAX_LINES, MAX_SIZE, MAX_STDOUT, WATCH_PIPES_AFTER, Process

from ..rig.processes import gone, is_running
from ..rig.programs import Fifo
from .conftest import Run

LINE = "x" * 255
"""A line of stderr without its end."""

# The request


def test_the_request_arrives_whole_and_ends(shell: Callable[..., Run]) -> None:
    for size in (0, 1, 65536, 65537, MAX_STDOUT):
        request = (b"0123456789abcdef" * (size // 16 + 1))[:size]
        assert shell("cat", request).listen().wait().process.stdout == request


def test_a_plugin_that_closes_its_stdin_goes_on(shell: Callable[..., Run], gate: Fifo) -> None:
    run = shell(f"head -c 5; exec <&-; echo closed; read line < {gate}; echo done", b"x" * MAX_STDOUT).listen()
    run.loop.until(lambda: "closed" in run.stdout)
    gate.put()
    assert run.wait().stdout == "xxxxxclosed\ndone\n"
    assert run.process.status == 0


# The result


def test_a_stdout_that_was_closed_early_does_no_harm(shell: Callable[..., Run], gate: Fifo, said: Fifo) -> None:
    run = shell(f"echo '{{}}'; exec >&-; echo closed > {said}; read line < {gate}; echo err >&2; read line < {gate}")
    said.get()
    for _ in range(2):  # the second look finds the end and closes the pipe
        assert run.stdout == "{}\n"
    run.listen()
    gate.put()
    run.loop.until(lambda: run.lines == ["err"], "stderr is not listened to")
    gate.put()
    assert run.wait().stdout == "{}\n"


def test_output_is_read_to_its_end_and_kept_up_to_a_mebibyte_more_than_the_request(shell: Callable[..., Run]) -> None:
    request = b"x" * 100_000
    most = MAX_STDOUT + len(request)
    for size in (most, most + 1, 5 * MAX_STDOUT):
        run = shell(f"head -c {size} /dev/zero; exec head -c {size} /dev/zero >&2", request).listen().wait()
        assert run.process.too_long == (size > most)
        assert min(size, most + 1) <= len(run.process.stdout) <= most + 65536
        assert run.process.status == 0
    # What fills the pipe is read at the end, too: it ends before it is listened to.
    assert len(shell("head -c 65536 /dev/zero").wait().process.stdout) == 65536


def test_at_the_end_no_more_is_read_than_a_pipe_holds(
    shell: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that was left behind may write as fast as it is read."""
    most, reads = MAX_STDOUT // _CHUNK, {"_out": 0, "_err": 0}

    def read(self: Process, name: str) -> int:
        reads[name] += 1
        assert reads[name] <= most
        return _CHUNK

    monkeypatch.setattr(Process, "_take", read)
    shell("exit").wait()
    assert reads == {"_out": most, "_err": most}


# stderr


def test_stderr_comes_line_by_line_while_it_runs_and_odd_bytes_are_shown(shell: Callable[..., Run], gate: Fifo) -> None:
    run = shell(
        rf"printf 'one\n\n  \n two \nthr' >&2; read line < {gate}; printf 'ee\na\377\303b \303\251' >&2"
    ).listen()
    run.loop.until(lambda: len(run.lines) == 2)
    assert run.lines == ["one", " two"]
    gate.put()
    assert run.wait().lines == ["one", " two", "three", r"a\xff\xc3b é"]


def test_a_program_is_listened_to_only_after_a_while(shell: Callable[..., Run], gate: Fifo, said: Fifo) -> None:
    """Most end before, and their pipes are read once."""
    run = shell(f"echo err >&2; echo written > {said}; read line < {gate}")
    said.get()
    run.loop.advance(WATCH_PIPES_AFTER / 2)
    shell("exit").wait()  # the loop serves another one meanwhile
    assert run.lines == []
    run.listen().loop.until(lambda: run.lines == ["err"], "stderr is not listened to")
    gate.put()
    run.wait()


def test_stderr_is_logged_up_to_limits_and_read_to_its_end(shell: Callable[..., Run]) -> None:
    """To write a line to the log takes the daemon's time, in which nobody is answered."""
    many = f"(more than {MAX_LINES} lines on stderr: the rest is not logged)"
    for listening in (True, False):

        def lines(script: str, listening: bool = listening) -> list[str]:
            run = shell(script)
            return (run.listen() if listening else run).wait().lines

        for end in ("", "echo >&2"):
            broken = lines(f"head -c {3 * MAX_LINE - 100} /dev/zero | tr '\\0' x >&2; {end}")
            assert "".join(broken) == "x" * (3 * MAX_LINE - 100)
            assert max(map(len, broken)) <= MAX_LINE
        for count in (MAX_LINES, MAX_LINES + 1, 20_000):  # of lines that are not empty
            assert lines(f"yes | sed G | head -n {2 * count} >&2") == ["y"] * MAX_LINES + [many] * (count > MAX_LINES)
    much = [f"(more than {MAX_SIZE} bytes on stderr: the rest is not logged)"]
    for size, rest in ((MAX_SIZE, []), (MAX_SIZE + 1, much), (3 * MAX_SIZE, much)):
        for block in (1000, 65536):
            blocks = f"dd bs={block} count={-(-size // block)} iflag=fullblock status=none"
            said = shell(f"yes {LINE} | head -c {size} | {blocks} >&2").listen().wait().lines
            assert said == [LINE] * (MAX_SIZE // 256) + rest


# Its end


def test_how_it_ended_is_known_and_told_once_with_everything_read(shell: Callable[..., Run]) -> None:
    for text, status, ending in (
        ("exit 0", 0, "exit code 0"),
        ("exit 255", 255, "exit code 255"),
        ("kill -9 $$", -9, "killed by signal 9"),
        ("kill -HUP $$", -1, "killed by signal 1"),
        ('ulimit -c "$(ulimit -Hc)"; cd /proc; kill -SEGV $$', -11, "killed by signal 11"),  # with a core dump
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


# Left behind


@pytest.mark.parametrize(("to", "stream"), [("", "stdout"), (">&2", "stderr")])
def test_who_was_left_and_writes_on_finds_the_pipe_closed(
    shell: Callable[..., Run], caplog: pytest.LogCaptureFixture, to: str, stream: str
) -> None:
    """Reading on would cost the adapter a processor for as long as the program lives."""
    run = shell(f"exec yes {to}").listen()
    run.process.leave(run.end)
    assert run.wait().process.status == -signal.SIGPIPE
    text = f"{run.process.name}: more than 1048576 bytes on {stream} from a program that was left: the pipe is closed"
    assert caplog.messages == [text]


def test_a_program_that_was_left_may_write_a_mebibyte_to_each_pipe(
    shell: Callable[..., Run], gate: Fifo, caplog: pytest.LogCaptureFixture
) -> None:
    flood = f"head -c {MAX_STDOUT} /dev/zero"
    run = shell(f"head -c 200000 /dev/zero; read line < {gate}; {flood}; {flood} >&2").listen()
    run.loop.until(lambda: len(run.stdout) == 200_000)
    run.process.leave(run.end)
    gate.put()
    assert run.wait().process.status == 0
    assert caplog.messages == []


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
