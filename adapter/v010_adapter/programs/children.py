"""Child processes: what they inherit from the daemon, and who reaps them."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count, repeat

DEFAULT_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
NOFILE = resource.RLIMIT_NOFILE
ENDED = os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT
"""What waitid(2) takes for any child that has ended, which it does not reap."""


class Children:
    """The children of this process. Programs that were spawned here are reaped by `reap` only."""

    def __init__(self) -> None:
        self._programs: set[int] = set()
        self._limits: tuple[int, int] | None = None
        """The limits of programs; None if programs have the daemon's."""
        self._resets_oom_score = False

    def take_limits(self) -> None:
        """Raises the daemon's limit of open descriptors; programs get the limit that the daemon has been given.

        Programs get at least 0 as oom_score_adj: containerd's own -999 would spare a plugin that eats all memory. A
        lower one than the daemon's is not written: in a pod, the kernel would kill the daemon instead of that plugin.
        """
        soft, hard = resource.getrlimit(NOFILE)
        if soft != hard:
            with suppress(OSError, ValueError):  # the hard limit is beyond fs.nr_open
                resource.setrlimit(NOFILE, (hard, hard))
                self._limits = soft, hard
        with suppress(OSError), open("/proc/self/oom_score_adj", "rb") as file:
            self._resets_oom_score = int(file.read()) < 0

    def spawn(self, path: str, argv: tuple[str, ...], environ: Mapping[str, str], descriptors: Sequence[int]) -> int:
        """Starts a program in a process group of its own; returns its pid. Raises what posix_spawn raises.

        `descriptors` become the program's descriptors from 0 on. A session of its own would put each program into a
        scheduling group of its own (sched(7), autogroup): on a busy node the program would start milliseconds later.
        """
        actions = [*zip(repeat(os.POSIX_SPAWN_DUP2), descriptors, count())]
        if self._limits is not None:  # not after the spawn: the program may have read its limit by then
            soft, hard = self._limits
            # The C library refuses descriptors beyond the limit (glibc posix/spawn_valid_fd.c).
            resource.setrlimit(NOFILE, (max(soft, max(descriptors) + 1), hard))
        try:
            pid = os.posix_spawn(
                path,
                argv,
                environ,
                file_actions=actions,
                setpgroup=0,
                setsigmask=(),
                setsigdef=DEFAULT_SIGNALS,
            )
        finally:
            if self._limits is not None:
                resource.setrlimit(NOFILE, (hard, hard))
        self._programs.add(pid)
        if self._resets_oom_score:
            _write_oom_score(pid)
        return pid

    def fork(self) -> int:
        """Forks this process; returns the child's pid, or 0 in the child. Raises OSError."""
        pid = os.fork()
        if pid:
            self._programs.add(pid)
            if self._resets_oom_score:  # its memory follows what pods' authors write
                _write_oom_score(pid)
        return pid

    def reap(self, pid: int) -> int:
        """Waits for the end of a child; returns its exit code, or minus the number of the signal that killed it."""
        self._programs.discard(pid)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def reap_strangers(self) -> None:
        """Reaps the ended children that were not spawned here, such as the orphans that PID 1 of a container gets.

        An ended program hides the children after it until it is reaped.
        """
        with suppress(ChildProcessError):
            while (ended := os.waitid(*ENDED)) is not None and ended.si_pid not in self._programs:
                os.waitpid(ended.si_pid, 0)


def _write_oom_score(pid: int) -> None:
    with suppress(OSError):  # the program has ended
        fd = os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"0")
        finally:
            os.close(fd)


children = Children()
"""The children of this process."""
