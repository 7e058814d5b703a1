"""What programs inherit otherwise than the daemon has it, and which children are reaped."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adapter.programs import children as module
from adapter.programs import process
from adapter.programs.children import NOFILE, Children

from ..processes import SteppedLoop, children
from .run import Run

SOFT = 500
OOM_SCORE = Path("/proc/self/oom_score_adj")


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Children]:
    """The children of a daemon that starts with a low soft limit of descriptors and an OOM score of its own."""
    limits, score = resource.getrlimit(NOFILE), OOM_SCORE.read_text()
    resource.setrlimit(NOFILE, (SOFT, limits[1]))
    OOM_SCORE.write_text("321")
    made = Children()
    made.take_limits()
    monkeypatch.setattr(process, "children", made)
    yield made
    OOM_SCORE.write_text(score)
    resource.setrlimit(NOFILE, limits)


# What they inherit


def test_a_program_has_a_process_group_of_its_own(shell: Callable[..., Run]) -> None:
    """Ctrl-C at a terminal does not reach it, and its `kill 0` reaches neither the adapter nor the runtime."""
    run = shell("cat /proc/$$/stat").wait()
    group = run.stdout.rpartition(")")[2].split()[2]
    assert int(group) == run.process.pid


def test_the_daemon_may_open_what_the_hard_limit_allows_and_programs_what_the_daemon_was_given(
    own: Children, shell: Callable[..., Run], loop: SteppedLoop
) -> None:
    hard = resource.getrlimit(NOFILE)[1]
    for _ in range(2):
        assert resource.getrlimit(NOFILE) == (hard, hard)
        assert shell("ulimit -Sn; ulimit -Hn").wait().stdout == f"{SOFT}\n{hard}\n"
    with pytest.raises(OSError, match="No such file"):
        Run(loop, "/no/such/program")
    assert resource.getrlimit(NOFILE) == (hard, hard)


def test_a_daemon_with_more_descriptors_than_the_programs_limit_starts_programs_with_a_few_more(
    own: Children, shell: Callable[..., Run]
) -> None:
    """The C library hands on no descriptor beyond the limit."""
    spare = [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC) for _ in range(SOFT + 10)]
    try:
        assert SOFT + 10 < int(shell("ulimit -Sn").wait().stdout) < 2 * SOFT
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


def test_a_program_has_the_oom_score_0_whatever_the_daemon_has(own: Children, shell: Callable[..., Run]) -> None:
    """The request comes after the score."""
    assert shell("read -r line; cat /proc/self/oom_score_adj").wait().stdout == "0\n"
    assert OOM_SCORE.read_text() == "321\n"


# Who reaps them


def ended(pid: int) -> int:
    """Waits for the end of a child and leaves the zombie."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def test_children_of_others_are_reaped_and_programs_are_not_stolen(shell: Callable[..., Run]) -> None:
    """PID 1 of a container gets every orphan as a child."""
    stranger = os.posix_spawn("/bin/true", ["true"], {})
    lives = os.posix_spawn("/bin/sleep", ["sleep", "1000"], {})
    run = shell("exit 3")
    ended(stranger)
    ended(run.process.pid)
    module.children.reap_strangers()
    assert set(children()) == {run.process.pid, lives}
    assert run.wait().process.status == 3
    another = ended(os.posix_spawn("/bin/false", ["false"], {}))
    module.children.reap_strangers()
    assert another not in children()
    os.kill(lives, 9)
    ended(lives)
    module.children.reap_strangers()
    assert children() == []
    module.children.reap_strangers()  # without any child
