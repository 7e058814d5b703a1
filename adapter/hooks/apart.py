"""Matches hooks in a child process, where large patterns and large texts could make a turn of the loop long.

RE2 takes up to bytes times instructions steps for a text and a pattern, and cannot be interrupted. A child process can
be killed, and the loop serves others meanwhile.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress

from adapter.base.loop import Loop
from adapter.errors import Oversized
from adapter.nri import Deferred
from adapter.programs.children import children

CPU_SECONDS = 10
"""Maximum CPU time of a child whose parent has died."""


def computed(loop: Loop, compute: Callable[[], bytes], due: float, what: str) -> Deferred[bytes]:
    """Returns what a function returns in a child process, at most as many bytes as a pipe holds.

    The answer fails with Oversized, which names `what`, if it is not there at `due` on the loop's clock.
    """
    answer: Deferred[bytes] = Deferred()
    pipe: list[int] = []
    try:
        pipe += os.pipe()
        pid = children.fork()
    except OSError as error:
        for fd in pipe:
            os.close(fd)
        answer.fail(Oversized(what, f"no process: {error.strerror}"))
        return answer
    ours, theirs = pipe
    if pid == 0:
        _run(compute, theirs)
    os.close(theirs)
    pidfd = os.pidfd_open(pid)
    timer = loop.call_at(due, lambda: signal.pidfd_send_signal(pidfd, signal.SIGKILL))

    def on_exit() -> None:
        timer.cancel()
        loop.unwatch(pidfd)
        os.close(pidfd)
        status, result = children.reap(pid), b""
        with open(ours, "rb") as output:
            result = output.read()
        if status == 0:
            answer.complete(result)
        else:
            answer.fail(Oversized(what, "cannot be matched in the time of the event"))

    loop.watch(pidfd, on_exit)
    return answer


def _run(compute: Callable[[], bytes], out: int) -> None:
    """Writes the result, and ends the child. The daemon's descriptors are closed first: some hold locks."""
    status = 1
    with suppress(BaseException):
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        os.dup2(out, 0)
        for fd in map(int, os.listdir("/proc/self/fd")):
            if fd not in (0, 1, 2):
                with suppress(OSError):  # the directory itself
                    os.close(fd)
        os.write(0, compute())
        status = 0
    os._exit(status)
