"""One run of a plugin, with real programs: what it is given, what is taken from it, and what it cannot do to us."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import pytest

from adapter.process import MAX_LINE, MAX_STDERR, MAX_STDOUT, PATIENCE, Process

from .processes import Fifo, Programs, SteppedLoop, children, is_running, open_descriptors

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "A": "<é>", "EMPTY": ""}


class Run:
    """A program that was started, and what came of it."""

    def __init__(
        self,
        loop: SteppedLoop,
        path: str,
        request: bytes = b"{}",
        environment: Mapping[str, str] = ENVIRONMENT,
        plugin: str = "konfine",
    ) -> None:
        self.loop = loop
        self.lines: list[str] = []
        self.ended = 0
        self.process = Process(loop, path, (plugin, "invoke"), environment, self._end, self.lines.append)
        self.process.feed(request)

    def _end(self, process: Process) -> None:
        assert process is self.process
        self.ended += 1

    def listen(self) -> Run:
        """Lets the time pass after which it is listened to while it runs."""
        self.loop.advance(PATIENCE)
        return self

    def wait(self) -> Run:
        """Waits for its end."""
        self.loop.until(lambda: self.ended > 0, "the program does not end")
        self.loop.settle()
        assert self.ended == 1
        return self

    @property
    def stdout(self) -> str:
        return self.process.stdout.decode()


@pytest.fixture
def shell(loop: SteppedLoop, programs: Programs) -> Callable[..., Run]:
    """Runs a shell script."""

    def run(text: str, request: bytes = b"{}") -> Run:
        return Run(loop, programs.shell("plugin", text), request)

    return run


@pytest.fixture
def gate(programs: Programs, loop: SteppedLoop) -> Iterator[Fifo]:
    """A gate at which programs wait; made after the loop, whose check of descriptors comes when it is closed again."""
    fifo = programs.fifo("gate")
    yield fifo
    fifo.close()


@pytest.fixture
def said(programs: Programs, loop: SteppedLoop) -> Iterator[Fifo]:
    """The way back."""
    fifo = programs.fifo("said")
    yield fifo
    fifo.close()


# What a plugin is given


def test_it_is_run_as_type_invoke(loop: SteppedLoop) -> None:
    """argv[0] is the type, not the path: `cat` names itself by it; its argument is a file that is not there."""
    run = Run(loop, "/bin/cat", plugin="my-type").wait()
    assert run.lines == ["my-type: invoke: No such file or directory"]


def test_a_script_gets_one_argument(shell: Callable[..., Run]) -> None:
    assert shell('echo "$#" "$@"').wait().stdout == "1 invoke\n"


def test_the_environment_is_exactly_what_was_given(shell: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NRI_PLUGIN_SOCKET", "3")
    run = shell("cat /proc/$$/environ").wait()
    assert sorted(run.stdout.split("\0")) == sorted(["PATH=/usr/bin:/bin", "A=<é>", "EMPTY=", ""])


def test_descriptors_0_to_2_are_all_it_inherits(loop: SteppedLoop, programs: Programs) -> None:
    """`ls` has one of its own, 3, for the folder it lists."""
    for fd in map(int, open_descriptors()):
        if fd > 2:
            with suppress(OSError):  # that of the listing
                os.set_inheritable(fd, False)
    run = Run(loop, programs.write("plugin", b"#!/bin/ls /proc/self/fd\n")).wait()
    assert run.stdout.split(":")[-1].split() == ["0", "1", "2", "3"]


def test_its_pipes_are_ordinary_ones(shell: Callable[..., Run]) -> None:
    """Our ends do not block; should its own not either, programs would lose what they print."""
    run = shell("for fd in 0 1 2; do grep flags /proc/$$/fdinfo/$fd; done").wait()
    flags = [int(line.split()[1], 8) for line in run.stdout.splitlines()]
    assert len(flags) == 3
    assert not any(flag & os.O_NONBLOCK for flag in flags)


def test_it_runs_where_we_run(shell: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr")
    assert shell("readlink /proc/$$/cwd").wait().stdout == "/usr\n"


@contextmanager
def odd_signals() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def test_its_signals_are_as_they_are_by_default(shell: Callable[..., Run]) -> None:
    """Python ignores SIGPIPE; `yes | head` in a plugin would go on for ever."""
    assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN
    with odd_signals():
        run = shell("exec grep -E 'Sig(Ign|Blk)' /proc/self/status").wait()
    masks = dict(line.split(":\t") for line in run.stdout.splitlines())
    assert int(masks["SigBlk"], 16) == 0
    assert int(masks["SigIgn"], 16) & ~LIBCS_OWN == 0


LIBCS_OWN = 1 << 31 | 1 << 32
"""Signals 32 and 33, which glibc ignores in what it spawns; no program can tell."""


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


@pytest.mark.parametrize("size", [MAX_STDERR + 1, 3 * MAX_STDERR])
@pytest.mark.parametrize("block", [1, 1000, 65536])
def test_stderr_is_logged_up_to_64_kib_and_read_to_its_end(shell: Callable[..., Run], size: int, block: int) -> None:
    blocks = -(-size // block)
    script = f"yes 123456789abcdef | head -c {size} | dd bs={block} count={blocks} iflag=fullblock status=none >&2"
    lines = shell(script if block > 1 else f"yes 123456789abcdef | head -c {size} >&2").listen().wait().lines
    assert lines[-1] == f"(more than {MAX_STDERR} bytes on stderr: the rest is not logged)"
    assert lines[:-1] == ["123456789abcdef"] * (MAX_STDERR // 16)


def test_exactly_64_kib_of_stderr_are_not_too_much(shell: Callable[..., Run]) -> None:
    lines = shell(f"yes 123456789abcdef | head -c {MAX_STDERR} >&2").listen().wait().lines
    assert lines == ["123456789abcdef"] * (MAX_STDERR // 16)


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


# What cannot be started


def broken_elf(programs: Programs) -> str:
    return programs.write("plugin", b"\x7fELF" + b"\0" * 100)


CANNOT = [
    (lambda programs: programs.path("absent"), "No such file or directory"),
    (lambda programs: programs.write("plugin", b"echo no shebang\n"), "Exec format error"),
    (lambda programs: programs.write("plugin", b""), "Exec format error"),
    (broken_elf, "Exec format error"),
    (lambda programs: programs.write("plugin", b"#!/no/such/interpreter\n"), "No such file or directory"),
    (lambda programs: programs.shell("plugin", "exit", mode=0o644), "Permission denied"),
    (lambda programs: str(programs.folder), "Permission denied"),
]


@pytest.mark.parametrize(("make", "reason"), CANNOT)
def test_what_cannot_be_started_is_an_error(
    loop: SteppedLoop, programs: Programs, make: Callable[[Programs], str], reason: str
) -> None:
    path = make(programs)
    with pytest.raises(OSError, match=reason):
        Run(loop, path)


# Nothing leaks; the loop's fixture looks after each test, and here after many


def test_hundreds_of_runs_leave_no_descriptor_and_no_child(loop: SteppedLoop, programs: Programs) -> None:
    good, bad = programs.shell("good", "echo '{}'; exit 1"), programs.write("bad", b"")
    before = open_descriptors()
    for _ in range(100):
        Run(loop, good).wait()
        with pytest.raises(OSError, match="Exec format error"):
            Run(loop, bad)
    assert open_descriptors() == before


@contextmanager
def at_most(descriptors: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_running_out_of_descriptors_at_any_point_is_an_error_and_leaves_nothing(
    loop: SteppedLoop, programs: Programs
) -> None:
    """The limit is on numbers: there is room for as many as are free below it."""
    path = programs.shell("plugin", "echo '{}'")
    before = open_descriptors()
    free = [number for number in range(100) if not os.path.exists(f"/proc/self/fd/{number}")]
    for room in range(7):
        with at_most(free[room]), pytest.raises(OSError, match="Too many open files"):
            Run(loop, path)
        assert open_descriptors() == before
        assert children() == []
    with at_most(free[7]):
        run = Run(loop, path)
    assert run.wait().stdout == "{}\n"


def test_a_child_that_cannot_be_watched_is_killed_and_reaped(
    loop: SteppedLoop, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def refuse(pid: int) -> int:
        asked.append(pid)
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(OSError, match="Function not implemented"):
        Run(loop, programs.shell("plugin", "exec sleep 1000"))
    [pid] = asked
    assert not is_running(pid)
