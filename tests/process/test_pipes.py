"""A run's request, result and stderr, with real programs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from adapter.process import MAX_LINE, MAX_LINES, MAX_STDERR, MAX_STDOUT

from ..processes import Fifo
from .run import Run

LINE = "x" * 255
"""A line of stderr without its end."""

# The request


@pytest.mark.parametrize("size", [0, 1, 4096, 65536, 65537, MAX_STDOUT])
def test_the_request_arrives_whole_and_ends(shell: Callable[..., Run], size: int) -> None:
    request = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    assert shell("cat", request).listen().wait().process.stdout == request


def test_a_plugin_that_never_reads_a_large_request_ends_as_any_other(shell: Callable[..., Run]) -> None:
    run = shell("echo '{}'", b"x" * MAX_STDOUT).wait()
    assert run.stdout == "{}\n"
    assert run.process.status == 0


def test_a_plugin_that_closes_its_stdin_goes_on(shell: Callable[..., Run], gate: Fifo) -> None:
    run = shell(f"head -c 5; exec <&-; echo closed; read line < {gate}; echo done", b"x" * MAX_STDOUT).listen()
    run.loop.until(lambda: "closed" in run.stdout)
    gate.put()
    assert run.wait().stdout == "xxxxxclosed\ndone\n"
    assert run.process.status == 0


def test_a_plugin_that_reads_slowly_gets_everything(shell: Callable[..., Run], gate: Fifo) -> None:
    run = shell(f"read line < {gate}; wc -c", b"x" * MAX_STDOUT)
    run.loop.settle()
    gate.put()
    assert run.listen().wait().stdout.strip() == str(MAX_STDOUT)


# The result


def test_output_in_pieces_is_put_together(shell: Callable[..., Run], gate: Fifo) -> None:
    run = shell(f"printf '{{\"plu'; read line < {gate}; printf 'gin\":1}}'").listen()
    run.loop.until(lambda: run.stdout != "")
    assert run.stdout == '{"plu'
    assert run.process.status is None
    gate.put()
    assert run.wait().stdout == '{"plugin":1}'


def test_what_it_has_printed_can_be_asked_before_it_is_listened_to(
    shell: Callable[..., Run], gate: Fifo, said: Fifo
) -> None:
    run = shell(f"echo '{{}}'; echo printed > {said}; read line < {gate}")
    said.get()
    assert run.stdout == "{}\n"
    assert run.stdout == "{}\n"
    gate.put()
    assert run.wait().stdout == "{}\n"


def test_a_stdout_that_was_closed_before_it_is_listened_to_does_no_harm(
    shell: Callable[..., Run], gate: Fifo, said: Fifo
) -> None:
    run = shell(f"echo '{{}}'; exec >&-; echo closed > {said}; read line < {gate}; echo err >&2; read line < {gate}")
    said.get()
    for _ in range(2):  # the second look finds the end and closes the pipe
        assert run.stdout == "{}\n"
    run.listen()
    gate.put()
    run.loop.until(lambda: run.lines == ["err"], "stderr is not listened to")
    gate.put()
    assert run.wait().stdout == "{}\n"


@pytest.mark.parametrize(("size", "too_long"), [(MAX_STDOUT, False), (MAX_STDOUT + 1, True), (5 * MAX_STDOUT, True)])
def test_output_is_read_to_its_end_and_kept_up_to_a_mebibyte(
    shell: Callable[..., Run], size: int, too_long: bool
) -> None:
    run = shell(f"head -c {size} /dev/zero").listen().wait()
    assert run.process.too_long == too_long
    assert min(size, MAX_STDOUT + 1) <= len(run.process.stdout) <= MAX_STDOUT + 65536
    assert run.process.status == 0


def test_output_that_fills_the_pipe_is_read_at_the_end_too(shell: Callable[..., Run]) -> None:
    """It ends before it is listened to."""
    assert len(shell("head -c 65536 /dev/zero").wait().process.stdout) == 65536


def test_stdout_and_stderr_are_kept_apart(shell: Callable[..., Run]) -> None:
    run = shell("echo out; echo err >&2; echo out").wait()
    assert run.stdout == "out\nout\n"
    assert run.lines == ["err"]


# stderr


def test_stderr_comes_line_by_line(shell: Callable[..., Run]) -> None:
    assert shell(r"printf 'one\ntwo\n\n  \n three \nlast' >&2").wait().lines == ["one", "two", " three", "last"]


def test_stderr_comes_while_it_runs(shell: Callable[..., Run], gate: Fifo) -> None:
    run = shell(f"printf 'one\\ntwo\\nthr' >&2; read line < {gate}; echo ee >&2").listen()
    run.loop.until(lambda: len(run.lines) == 2)
    assert run.lines == ["one", "two"]
    gate.put()
    assert run.wait().lines == ["one", "two", "three"]


def test_bytes_on_stderr_that_are_no_utf_8_are_shown(shell: Callable[..., Run]) -> None:
    assert shell(r"printf 'a\377\303b \303\251\n' >&2").wait().lines == [r"a\xff\xc3b é"]


@pytest.mark.parametrize("listening", [True, False])
@pytest.mark.parametrize("end", ["", "echo >&2"])
def test_a_long_line_is_broken(shell: Callable[..., Run], end: str, listening: bool) -> None:
    run = shell(f"head -c {3 * MAX_LINE - 100} /dev/zero | tr '\\0' x >&2; {end}")
    lines = (run.listen() if listening else run).wait().lines
    assert "".join(lines) == "x" * (3 * MAX_LINE - 100)
    assert max(map(len, lines)) <= MAX_LINE


@pytest.mark.parametrize("listening", [True, False])
@pytest.mark.parametrize("count", [MAX_LINES, MAX_LINES + 1, 20_000])
def test_stderr_is_logged_up_to_500_lines_that_are_not_empty(
    shell: Callable[..., Run], count: int, listening: bool
) -> None:
    """To write a line to the log takes the daemon's time, in which nobody is answered."""
    run = shell(f"yes | sed G | head -n {2 * count} >&2")
    lines = (run.listen() if listening else run).wait().lines
    rest = [f"(more than {MAX_LINES} lines on stderr: the rest is not logged)"] if count > MAX_LINES else []
    assert lines == ["y"] * MAX_LINES + rest


@pytest.mark.parametrize("size", [MAX_STDERR + 1, 3 * MAX_STDERR])
@pytest.mark.parametrize("block", [1, 1000, 65536])
def test_stderr_is_logged_up_to_64_kib_and_read_to_its_end(shell: Callable[..., Run], size: int, block: int) -> None:
    blocks = -(-size // block)
    script = f"yes {LINE} | head -c {size} | dd bs={block} count={blocks} iflag=fullblock status=none >&2"
    lines = shell(script if block > 1 else f"yes {LINE} | head -c {size} >&2").listen().wait().lines
    assert lines[-1] == f"(more than {MAX_STDERR} bytes on stderr: the rest is not logged)"
    assert lines[:-1] == [LINE] * (MAX_STDERR // 256)


def test_exactly_64_kib_of_stderr_are_not_too_much(shell: Callable[..., Run]) -> None:
    lines = shell(f"yes {LINE} | head -c {MAX_STDERR} >&2").listen().wait().lines
    assert lines == [LINE] * (MAX_STDERR // 256)
