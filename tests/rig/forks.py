"""Forks commands from a process that has imported the adapter already: the imports are most of a daemon's start.

The process is no child of the test's own, where others count children, and ends with its socket.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from tests.rig.processes import children_of
from tests.rig.waiting import LIMIT, limit

MAIN = "import sys; from v010_adapter.cli.entry import main; sys.exit(main())"
MODULES = (
    *(
        "base.gojson",
        "cli.command_line",
        "cli.entry",
        "cli.invoke",
        "events.serving",
        "daemon.daemon",
        "daemon.adapter",
    ),
    *("events.hooks", "events.precreate", "legacy.create_answer", "legacy.update_answer", "monitoring.http_server"),
    *("monitoring.logs", "monitoring.metrics", "monitoring.status", "programs.standby"),
)


class Forks:
    """The process that forks, as seen from the test."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, "-m", __name__, str(theirs.fileno())]
            subprocess.run(words, pass_fds=[theirs.fileno()], check=True, cwd=Path(__file__).parents[2])
        self._pid = self._ask({})

    def spawn(
        self, code: str, argv: Sequence[str], environ: Mapping[str, str], fds: Mapping[int, int], cwd: str = "."
    ) -> int:
        """Has a process run Python code with these descriptors and no others; returns its pid."""
        told = {"code": code, "argv": argv, "environ": dict(environ), "fds": list(fds), "cwd": cwd}
        return self._ask(told, list(fds.values()))

    def reap(self, pid: int) -> int:
        """Returns the exit code of such a process that has ended, or minus the signal that has killed it."""
        return self._ask({"pid": pid})

    def forked(self) -> dict[int, str]:
        """Returns the processes that it has forked and not reaped yet: their states by their pids."""
        return children_of(self._pid)

    def _ask(self, told: dict[str, Any], fds: Sequence[int] = ()) -> int:
        try:
            socket.send_fds(self._socket, [json.dumps(told).encode()], fds)
            return int(self._socket.recv(64))
        except BaseException:
            self._socket.close()  # nobody takes an answer that comes later for the answer to something else
            forks.cache_clear()
            raise


@cache
def forks() -> Forks:
    return Forks()


def forked() -> dict[int, str]:
    """Returns the processes of the fork server, zombies included: their states by their pids."""
    return forks().forked() if forks.cache_info().currsize else {}


def ran(words: Sequence[str], cwd: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the command to its end, as `subprocess.run` does."""
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(text.encode())
        given.seek(0)
        fds = {number: file.fileno() for number, file in enumerate((given, out, err))}
        code = _ended(forks().spawn(MAIN, ["v010-adapter", *words], os.environ, fds, str(cwd)))
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(list(words), code, out.read().decode(), err.read().decode())


def _ended(pid: int) -> int:
    """Waits for the end of a process that was forked; returns its exit code. One that does not end is killed."""
    pidfd = os.pidfd_open(pid)
    try:
        with limit("the command does not end"):
            select.select([pidfd], [], [])
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        forks().reap(pid)
        raise
    finally:
        os.close(pidfd)
    return forks().reap(pid)


def serve(asked: socket.socket) -> None:
    """Forks, and waits for what was forked, until the test goes. Returns in a forked process whose code has ended."""
    while True:
        text, fds, _, _ = socket.recv_fds(asked, 1 << 20, 20)
        if not text:
            os._exit(0)
        request = json.loads(text)
        if not request:
            asked.send(b"%d" % os.getpid())
            continue
        if "pid" in request:
            asked.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(request["pid"], 0)[1]))
            continue
        pid = os.fork()
        if pid == 0:
            asked.detach()
            become(request, fds)
            return
        asked.send(b"%d" % pid)
        for fd in fds:
            os.close(fd)


def become(request: dict[str, Any], fds: list[int]) -> None:
    """Gives the process what an exec would have given it, and runs its code."""
    high = [os.dup2(fd, 200 + index) for index, fd in enumerate(fds)]
    os.closerange(0, 200)
    for _ in range(3):
        os.open(os.devnull, os.O_RDWR)
    for fd, number in zip(high, request["fds"], strict=True):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv[:] = request["argv"]
    exec(compile(request["code"], "<forked>", "exec"), {"__name__": "__main__"})  # noqa: S102 - its trade


if __name__ == "__main__" and not os.fork():
    for module in MODULES:
        __import__(f"v010_adapter.{module}")
    holder = importlib.import_module("v010_adapter.events.holder")
    holder.ANSWER = LIMIT, LIMIT  # type: ignore[attr-defined]  # a keeper that is slow to answer decides about no test
    gc.freeze()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # whatever the test has blocked at that moment
    serve(socket.socket(fileno=int(sys.argv[1])))
