"""Computes in a child process what could make a turn of the loop long: the work that a large container causes.

Python and RE2 cannot be interrupted. A child process can be killed, and the loop serves others meanwhile. The child has
a copy of all that the daemon knows; only what it returns is passed between the processes.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TypeVar

from nri import Deferred
from v010_adapter.base.loop import Loop
from v010_adapter.errors import Oversized
from v010_adapter.programs.children import children

T = TypeVar("T")

LARGE = 128 << 10
"""Bytes of a message from which on requests and results are worth a child process.

Measured: at most 0.7 µs for each byte of a message, and 10 ms for a process.
"""
CPU_SECONDS = 10
"""Maximum CPU time of a child whose parent has died."""
BUG = 2
"""The status of a child process that has written a traceback."""
RESERVE = 0.2
"""Seconds from the end of a child to the moment when the answer is due."""


def computed(loop: Loop, compute: Callable[[], T], due: float, what: str) -> Deferred[T]:
    """Returns what a function returns in a child process.

    The answer fails with Oversized, which names `what`, if it is not there a little before `due` on the loop's clock;
    with RuntimeError, which has the traceback, if the function meets a bug.
    """
    answer: Deferred[T] = Deferred()

    def on_exit() -> None:
        timer.cancel()
        loop.unwatch(pidfd)
        os.close(pidfd)
        with open(output, "rb") as file:
            status = children.reap(pid)
            if status < 0:
                answer.fail(Oversized(what, "not done in the time of the event"))
                return
            file.seek(0)
            if status == BUG:
                answer.fail(RuntimeError(file.read().decode()))
                return
            if status:
                answer.fail(Oversized(what, "the process that looks at it cannot write its result"))
                return
            result = pickle.load(file)  # noqa: S301 - only the child writes to it
        answer.complete(result)

    try:
        with ExitStack() as undo:
            output = os.memfd_create("apart")
            undo.callback(os.close, output)
            pid = children.fork()
            if pid == 0:
                _run(compute, output)
            undo.callback(children.reap, pid)
            undo.callback(os.kill, pid, signal.SIGKILL)
            pidfd = os.pidfd_open(pid)
            undo.callback(os.close, pidfd)
            loop.watch(pidfd, on_exit)
            undo.pop_all()
    except OSError as error:
        answer.fail(Oversized(what, f"no process: {error.strerror}"))
        return answer
    timer = loop.call_at(due - RESERVE, lambda: signal.pidfd_send_signal(pidfd, signal.SIGKILL))
    return answer


def _run(compute: Callable[[], object], output: int) -> None:
    """Writes the result, and ends the child. The daemon's descriptors are closed first: some hold locks."""
    status = 1
    with suppress(BaseException):
        gc.disable()  # it would look at each object of the daemon
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        os.dup2(output, 0)
        for fd in map(int, os.listdir("/proc/self/fd")):
            if fd not in (0, 1, 2):
                with suppress(OSError):  # the directory itself
                    os.close(fd)
        try:
            result, done = pickle.dumps(compute(), pickle.HIGHEST_PROTOCOL), 0
        except Exception:
            result, done = traceback.format_exc().encode(), BUG
        with open(0, "wb", closefd=False) as file:
            file.write(result)
        status = done
    os._exit(status)
