"""What a program is given when it is started, and what cannot be started."""

from __future__ import annotations

import errno
import gc
import io
import os
import re
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from v010_adapter.base.loop import READ
from v010_adapter.programs import children as module
from v010_adapter.programs import process
from v010_adapter.programs.children import NOFILE, Children
from v010_adapter.programs.process import MAX_STDOUT

from ..rig.loop import SteppedLoop
from ..rig.processes import at_most, children, failing, is_running, open_descriptors
from ..rig.programs import Programs
from .conftest import Run

# What a plugin is given


def test_it_is_run_as_type_invoke_with_just_the_environment_that_was_given_where_we_run(
    loop: SteppedLoop, shell: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """argv[0] is the type, not the path: a shell names itself by it; its argument is a file that is not there."""
    (line,) = Run(loop, "/bin/sh", plugin="my-type").wait().lines
    assert re.match("my-type: .*invoke", line)
    assert shell('echo "$#" "$@"').wait().stdout == "1 invoke\n"
    monkeypatch.setenv("NRI_PLUGIN_SOCKET", "3")
    environ = shell("cat /proc/$$/environ").wait().stdout.split("\0")
    assert sorted(environ) == sorted(["PATH=/usr/bin:/bin", "A=<é>", "EMPTY=", ""])
    monkeypatch.chdir("/usr")
    assert shell("readlink /proc/$$/cwd").wait().stdout == "/usr\n"


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


def test_its_signals_are_as_they_are_by_default(shell: Callable[..., Run]) -> None:
    """Python ignores SIGPIPE; `yes | head` in a plugin would go on for ever."""
    assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    try:
        run = shell("exec grep -E 'Sig(Ign|Blk)' /proc/self/status").wait()
    finally:
        signal.signal(signal.SIGUSR1, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    masks = dict(line.split(":\t") for line in run.stdout.splitlines())
    assert int(masks["SigBlk"], 16) == 0
    assert int(masks["SigIgn"], 16) & ~LIBCS_OWN == 0


LIBCS_OWN = 1 << 31 | 1 << 32
"""Signals 32 and 33, which glibc ignores in what it spawns; no program can tell."""


# What cannot be started


def test_what_cannot_be_started_is_an_error(loop: SteppedLoop, programs: Programs) -> None:
    for content, reason in (
        (None, r"\] No such file or directory: "),
        (b"echo no shebang\n", "Exec format error: .* begins with #!"),
        (b"", "Exec format error"),
        (b"\x7fELF" + b"\0" * 100, "Exec format error"),
        (b"#!/no/such/interpreter\n", "its interpreter '/no/such/interpreter': No such"),
        (b"#!/bin/sh\r\n", r"its interpreter '/bin/sh\\r': No such file"),
    ):
        path = programs.folder / "absent" if content is None else programs.write("plugin", content)
        with pytest.raises(OSError, match=reason):
            Run(loop, path)
    for path in (programs.shell("plugin", "exit", mode=0o644), programs.folder):
        with pytest.raises(OSError, match="Permission denied"):
            Run(loop, path)


# Nothing leaks; the loop's fixture looks after each test, and here after many


def test_running_out_of_descriptors_is_an_error_and_leaves_nothing(loop: SteppedLoop, programs: Programs) -> None:
    """The limit is on numbers: there is room for as many as are free below it."""
    path = programs.shell("plugin", "echo '{}'")
    gc.collect()  # what earlier tests left may be closed at any moment, and there would be more room
    before = open_descriptors()
    free = [number for number in range(4096) if not os.path.exists(f"/proc/self/fd/{number}")]
    for room in range(7):
        with at_most(free[room]), pytest.raises(OSError, match="Too many open files"):
            Run(loop, path)
        assert open_descriptors() <= before
        assert children() == []
    with at_most(free[7]):
        run = Run(loop, path)
    assert run.wait().stdout == "{}\n"


def test_an_unwatched_child_is_killed(loop: SteppedLoop, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pidfd_open", refuse := failing(errno.ENOSYS))
    with pytest.raises(OSError, match="Function not implemented"):
        Run(loop, programs.shell("plugin", "exec sleep 1000"))
    assert not is_running(*refuse.call_args.args)
    monkeypatch.delattr(os, "pidfd_open")
    with pytest.raises(OSError, match="has no attribute 'pidfd_open'"):
        Run(loop, programs.shell("plugin", "exec sleep 1000"))


# epoll has a limit for each user (fs.epoll.max_user_watches)


class FullLoop(SteppedLoop):
    """A loop that takes so many more descriptors."""

    room = 0

    def watch(self, fd: int, callback: Callable[[], object], events: int = READ) -> None:
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= 1
        super().watch(fd, callback, events)


def test_a_program_whose_exit_or_pipes_epoll_does_not_take_is_killed(
    programs: Programs, loop: SteppedLoop, caplog: pytest.LogCaptureFixture
) -> None:
    """It would wait for ever for somebody at the other end. The loop is the one whose end looks for what is left."""
    loop.__class__ = FullLoop
    assert isinstance(loop, FullLoop)
    sleeper = programs.shell("plugin", "exec sleep 1000")
    with pytest.raises(OSError, match="No space left"):
        Run(loop, sleeper)
    assert children() == []
    for request in (b"x" * MAX_STDOUT, b"{}"):  # stdin, the others
        loop.room = 1
        run = Run(loop, sleeper, request).listen()
        assert run.wait().process.status == -signal.SIGKILL
        text = "konfine: a pipe cannot be watched: No space left on device: the program is killed"
        assert caplog.messages[0] == text
        caplog.clear()


# What it inherits otherwise than the daemon has it, and which children are reaped

OOM_SCORE = Path("/proc/self/oom_score_adj")


@pytest.fixture
def soft() -> int:
    """A low soft limit. What earlier tests have not closed may be open until it is collected."""
    return max(map(int, os.listdir("/proc/self/fd"))) + 50


@pytest.fixture
def own(soft: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Children]:
    """The children of a daemon that starts with a low soft limit of descriptors."""
    limits = resource.getrlimit(NOFILE)
    resource.setrlimit(NOFILE, (soft, limits[1]))
    made = Children()
    made.take_limits()
    monkeypatch.setattr(process, "children", made)
    yield made
    resource.setrlimit(NOFILE, limits)


def test_a_program_has_a_process_group_of_its_own(shell: Callable[..., Run]) -> None:
    """Ctrl-C at a terminal does not reach it, and its `kill 0` reaches neither the adapter nor the runtime."""
    run = shell("cat /proc/$$/stat").wait()
    group = run.stdout.rpartition(")")[2].split()[2]
    assert int(group) == run.process.pid


def test_the_hard_limit_is_for_the_daemon_alone(
    own: Children, soft: int, shell: Callable[..., Run], loop: SteppedLoop
) -> None:
    hard = resource.getrlimit(NOFILE)[1]
    for _ in range(2):
        assert resource.getrlimit(NOFILE) == (hard, hard)
        assert shell("ulimit -Sn; ulimit -Hn").wait().stdout == f"{soft}\n{hard}\n"
    with pytest.raises(OSError, match="No such file"):
        Run(loop, "/no/such/program")
    assert resource.getrlimit(NOFILE) == (hard, hard)


def test_more_descriptors_than_the_programs_limit_raise_it(own: Children, soft: int, shell: Callable[..., Run]) -> None:
    """The C library hands on no descriptor beyond the limit."""
    spare: list[int] = []
    try:
        while soft + 10 not in spare:
            spare.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
        assert soft + 10 < int(shell("ulimit -Sn").wait().stdout) < 2 * soft
    finally:
        for fd in spare:
            os.close(fd)


def test_where_the_hard_limit_cannot_be_had_everything_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hard limit beyond fs.nr_open cannot be set again."""

    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1 << 40))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    made = Children()
    made.take_limits()
    pid = made.spawn("/bin/true", ("true",), {}, ())
    assert made.reap(pid) == 0


@pytest.mark.parametrize(("told", "expected"), [("-1", "0"), ("321", "321"), ("", "321")])
def test_the_kernel_kills_a_program_that_eats_memory_and_not_the_daemon(
    told: str, expected: str, shell: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service has a score below 0, which not every root may have: it is only told so. A pod has one above."""
    before = OOM_SCORE.read_text()
    try:
        OOM_SCORE.write_text("0")
    except PermissionError:
        pytest.skip("the lowest score that this session may have is above 0")
    OOM_SCORE.write_text("321")
    try:
        own = Children()
        with monkeypatch.context() as patch:
            patch.setattr(module, "open", lambda *_: io.BytesIO(told.encode()), raising=False)
            if told:  # else it is a command, which takes no limits
                own.take_limits()
        monkeypatch.setattr(process, "children", own)
        assert shell("read -r line; cat /proc/self/oom_score_adj").wait().stdout == f"{expected}\n"
        if not (forked := own.fork()):
            signal.pause()
        score = Path(f"/proc/{forked}/oom_score_adj").read_text()
        os.kill(forked, signal.SIGKILL)
        own.reap(forked)
        assert score == f"{expected}\n"
        assert OOM_SCORE.read_text() == "321\n"
    finally:
        OOM_SCORE.write_text(before)


# Who reaps them


def ended(pid: int) -> int:
    """Waits for the end of a child and leaves the zombie."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def test_children_of_others_are_reaped_and_programs_are_not_stolen(shell: Callable[..., Run]) -> None:
    """PID 1 of a container gets every orphan as a child."""
    stranger = os.posix_spawn("/bin/true", ["true"], {})
    lives = os.posix_spawn("/bin/sleep", ["sleep", "1000"], {})
    if not (forked := module.children.fork()):
        os._exit(4)
    run = shell("exit 3")
    for pid in (stranger, forked, run.process.pid):
        ended(pid)
    module.children.reap_strangers()
    assert set(children()) == {forked, run.process.pid, lives}
    assert (module.children.reap(forked), run.wait().process.status) == (4, 3)
    another = ended(os.posix_spawn("/bin/false", ["false"], {}))
    module.children.reap_strangers()
    assert another not in children()
    os.kill(lives, 9)
    ended(lives)
    module.children.reap_strangers()
    assert children() == []
    module.children.reap_strangers()  # without any child


def test_a_process_that_gets_the_pid_of_a_program_that_was_reaped_is_a_stranger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = Children()
    pid = own.spawn("/bin/true", ("true",), {}, ())
    own.reap(pid)
    monkeypatch.setattr(os, "waitid", Mock(side_effect=[Mock(si_pid=pid), None]))
    reaped = Mock()
    monkeypatch.setattr(os, "waitpid", reaped)
    own.reap_strangers()
    reaped.assert_called_once_with(pid, 0)
