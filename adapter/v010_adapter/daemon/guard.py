"""The guard of an adapter that a runtime launches, or that a container has: it starts a killed server again.

A stopped server (SIGSTOP) keeps its locks and answers nothing, so the guard kills it first.

NRI kills the process that it launched when it drops the plugin (pkg/adaptation/plugin.go, stop). So that process only
forks a guard, which has a session of its own, and waits; the guard forks the server. Both fork before they import large
modules, because a runtime waits, and because both stay. The guard of a container imports all that a server needs before
it forks one (`cli.entry`), so that the next one joins at once.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import time
from contextlib import suppress

FIRST_WAIT, LONGEST_WAIT = 0.1, 10.0
"""Seconds before a killed server is started again. Each wait is twice the one before; after a LIFE, it is the first."""
LIFE = 1.0
"""Seconds. A server that has lived longer was not killed because of its start."""

IGNORED = signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM
_ENDING = {signal.SIGTERM, signal.SIGINT}
SIGNALS = {*_ENDING, signal.SIGHUP, signal.SIGCHLD}
"""Blocked in each new server, until it has its handlers."""


class Launch:
    """What a launched server, and each that follows it under the same guard, knows about its runtime."""

    def __init__(self, trunk: int) -> None:
        """Takes the descriptor of the socket that the runtime passed on. Raises OSError."""
        self.runtime = peer(trunk)
        """The runtime's pid."""
        self.pidfd = os.pidfd_open(self.runtime)
        self.killed_by = 0
        """The signal that has killed the server before. The first server has the runtime's own connection."""
        self.socket = ""
        """The path of the runtime's socket, where a server joins again."""
        self._text = os.memfd_create("configuration")

    @property
    def has_ended(self) -> bool:
        """Whether the runtime has ended."""
        try:
            signal.pidfd_send_signal(self.pidfd, 0)
        except OSError as error:
            return error.errno == errno.ESRCH
        return False

    def keep(self, text: str, socket: str) -> None:
        """Keeps the configuration text of the runtime for later servers, as an external plugin gets none."""
        self.socket = socket
        kept = text.encode()
        os.pwrite(self._text, kept, 0)  # first: a server that keeps the same text again may be killed in between
        os.truncate(self._text, len(kept))

    def text(self) -> str:
        """Returns the text that an earlier server has kept."""
        return os.pread(self._text, os.fstat(self._text).st_size, 0).decode()

    def connect(self) -> int:
        """Returns a descriptor connected to the same runtime. Raises RegistrationError."""
        import nri  # noqa: PLC0415 - a server only
        from nri.errors import RegistrationError  # noqa: PLC0415

        refusal = f"the runtime that launched the adapter (process {self.runtime}) takes no external plugins"
        try:
            trunk = nri.connect(self.socket)
        except RegistrationError as error:
            raise RegistrationError(f"{refusal}: {error}") from None
        if (other := peer(trunk)) != self.runtime:
            os.close(trunk)
            raise RegistrationError(f"{refusal}: process {other} listens at {self.socket}")
        return trunk


def guarded() -> Launch | None:
    """Forks the guard, which forks servers. Returns in each server; returns None if there cannot be a guard."""
    try:
        trunk = int(os.environ["NRI_PLUGIN_SOCKET"])
        launch = Launch(trunk)
        _prepare()
        guard = os.fork()
    except (ValueError, OverflowError, OSError):
        return None  # the command itself says what is wrong with the socket
    if guard == 0:
        os.setsid()
        _serve(launch, trunk)
        return launch
    os.close(trunk)  # only the server holds the socket: the runtime then notices the server's end
    os._exit(_end_of(guard, os.WNOHANG)[0])


def guard_container() -> None:
    """Makes this process, the first of a container, the guard of servers. Returns in each server."""
    _prepare()
    _serve(None)


def _prepare() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a runtime may ignore it, and a child inherits that
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    gc.freeze()  # a collection in the server would copy what the processes share


def _serve(launch: Launch | None, trunk: int = -1) -> None:
    """Keeps a server until one ends by itself or was asked to. Returns in each server."""
    wait = FIRST_WAIT
    while launch is None or not launch.has_ended:  # a server that is killed at its start does not see that
        started = time.monotonic()
        try:
            server = os.fork()
        except OSError:  # no memory, which may be why the server was killed
            server = -1
        if server == 0:
            return
        if server > 0:
            if trunk >= 0:
                os.close(trunk)
                trunk = -1
            code, is_done = _end_of(server, os.WNOHANG | os.WUNTRACED)
            if is_done:
                os._exit(code)
            if launch is not None:
                launch.killed_by = code - 128
            else:
                with suppress(OSError):  # nobody may read stderr
                    os.write(2, b"v010-adapter: the server was killed by signal %d\n" % (code - 128))
        if time.monotonic() - started > LIFE:
            wait = FIRST_WAIT
        if wait_for_end(wait):
            break
        wait = min(2 * wait, LONGEST_WAIT)
    os._exit(0)


def wait_for_end(wait: float) -> bool:
    """Whether a signal to end comes within so many seconds."""
    signalled = signal.sigtimedwait(_ENDING, wait)
    # Stopped and continued meanwhile, CPython returns arbitrary numbers (Modules/signalmodule.c, signal_sigtimedwait).
    return signalled is not None and signalled.si_signo in _ENDING


def _end_of(child: int, options: int) -> tuple[int, bool]:
    """Waits for a child's end, and passes signals on to it. Kills a stopped child if `options` has WUNTRACED.

    Returns the exit code (as a shell's, if a signal killed the child), and whether the end was wanted: the child has
    ended by itself, or was asked to.
    """
    was_asked = False
    while True:
        number = signal.sigwait(SIGNALS)
        if number != signal.SIGCHLD:
            was_asked = was_asked or number in _ENDING
            os.kill(child, number)
            continue
        while (changed := os.waitpid(-1, options))[0]:  # a container's orphans are reaped, too
            pid, status = changed
            if pid == child and os.WIFSTOPPED(status):
                os.kill(child, signal.SIGKILL)
            elif pid == child:
                code = os.waitstatus_to_exitcode(status)
                return (code, True) if code >= 0 else (128 - code, was_asked)


def peer(fd: int) -> int:
    """Returns the pid of the process that has made the other end of a socket, or listens there. Raises OSError."""
    import _socket  # the rest of `socket` costs 4 ms  # noqa: PLC0415

    trunk = _socket.socket(fileno=fd)
    try:
        return trunk.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED)  # the first number in it, the pid
    finally:
        trunk.detach()
