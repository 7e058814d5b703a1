"""The running command as a process, with the runtime's end of its trunk and its log.

Nothing here sleeps or measures. What must come is waited for with one generous limit.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from nri import api
from nri.events import PLUGIN, RUNTIME
from nri.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, Request

from .forks import MAIN, forks
from .processes import children_of
from .waiting import LIMIT, limit

COMMAND = Path(sys.executable).with_name("v010-adapter")
WITH_VARIABLES = [sys.executable, str(COMMAND)]
"""The command by an interpreter that obeys Python's variables. The command itself makes it ignore them."""
CODE = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
IGNORING = [sys.executable, "-c", CODE]
"""Executes a command that inherits that SIGCHLD is ignored."""
LATE = 0.25  # seconds of a call that shall not be done in time, in tests with the mark `deadline`
OVER = 1e-9  # seconds of a call whose time is over as it comes
# What makes a daemon note which lines it runs; set under `make coverage`.
MEASURED = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_PROCESS_")}


class Daemon:
    """The command as a process, and the runtime's end of its trunk."""

    def __init__(
        self, pid: int, trunk: socket.socket | None, stderr: int, reap: Callable[[int], int], is_guarded: bool
    ) -> None:
        """`trunk` is None as long as an external plugin has not connected; `stderr` the reading end of a pipe or -1."""
        self.pid = pid
        self.trunk = trunk
        self.connection = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
        self.runtime: subprocess.Popen[bytes] | None = None  # the process that passes for the runtime, if not this one
        self.guard = 0  # the guard's pid, after the registration of an adapter that was launched
        self.exit_code: int | None = None
        self.log: list[str] = []  # the lines it has written to stderr so far
        self.calls: list[Request] = []  # what it has asked of the runtime so far
        self.replies: dict[int, Reply] = {}  # what it has answered so far
        self.configured = api.ConfigureResponse()  # what it has answered to Configure
        self._reap = reap
        self._is_guarded = is_guarded
        self._pidfd = os.pidfd_open(pid)
        self._stderr = stderr
        self._rest = b""

    # ---- waiting

    def until(self, done: Callable[[], Any], what: str, *, read_trunk: bool = True) -> None:
        """Reads the trunk and the log until `done()`."""

        def missing() -> str:
            return f"never came: {what}; the log:\n" + "\n".join(self.log)

        with limit(missing):
            while not done():
                fds = [fd for fd in (self._stderr, self._trunk_fd() if read_trunk else -1) if fd >= 0]
                if self.exit_code is None:
                    fds.append(self._pidfd)
                assert fds, missing()
                self._read(select.select(fds, [], [])[0])

    def _read(self, ready: list[int]) -> None:
        # What a process has said before its end is read before its end is seen.
        if self._stderr in ready:
            self._read_log()
        elif self._trunk_fd() in ready:
            self._read_trunk()
        else:
            self.exit_code = self._reap(self.pid)

    def _trunk_fd(self) -> int:
        return -1 if self.trunk is None else self.trunk.fileno()

    def _read_log(self) -> None:
        chunk = os.read(self._stderr, 1 << 16)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self.log += [line.decode() for line in lines]
        if not chunk:
            os.close(self._stderr)
            self._stderr = -1

    def _read_trunk(self) -> None:
        assert self.trunk is not None
        data = b""
        with contextlib.suppress(ConnectionResetError):  # it went with bytes of ours unread
            data = self.trunk.recv(1 << 16)
        for event in self.connection.receive_data(data):
            if isinstance(event, Request):
                self.calls.append(event)
            else:
                assert event.stream_id not in self.replies, "two answers to one call"
                self.replies[event.stream_id] = event
        if not data:
            self.trunk.close()

    def logged(self, *texts: str) -> str:
        """Waits for a line of the log that has all these texts in it, and returns it: the first one, old or new."""

        def found() -> list[str]:
            return [line for line in self.log if all(text in line for text in texts)]

        self.until(found, f"a line with {texts}", read_trunk=False)
        return found()[0]

    def ended(self) -> int:
        """Waits for the end of the process; returns its exit code, minus the signal that killed it."""
        self.until(lambda: self.exit_code is not None and self._stderr < 0, "the end of the daemon")
        assert self.exit_code is not None
        return self.exit_code

    def is_running(self) -> bool:
        return not select.select([self._pidfd], [], [], 0)[0]

    def dropped(self) -> None:
        """Waits until the daemon has closed the trunk."""
        self.until(lambda: self._trunk_fd() < 0, "the end of the trunk")

    # ---- the runtime's part

    def send_bytes(self, data: bytes) -> None:
        """Writes bytes to the trunk, whatever they are."""
        assert self.trunk is not None
        self.trunk.sendall(data)

    def send(self, call: str | Message, timeout: float = LIMIT, service: str = PLUGIN) -> int:
        """Calls the plugin: with a request, or a method's name and nothing. Returns the stream id of the call."""
        (stream_id,) = self.send_together(call, timeout=timeout, service=service)
        return stream_id

    def send_together(self, *calls: str | Message, timeout: float = LIMIT, service: str = PLUGIN) -> list[int]:
        """Sends calls in one piece; returns their stream ids."""
        ids = []
        for call in calls:
            method = (
                call if isinstance(call, str) else type(call).__name__.removesuffix("Request").removesuffix("Event")
            )
            payload = b"" if isinstance(call, str) else call.SerializeToString()
            ids.append(self.connection.call(service, method, payload, timeout))
        self.send_bytes(self.connection.data_to_send())
        return ids

    def reply(self, stream_id: int) -> Reply:
        """Waits for the answer to a call."""
        self.until(lambda: stream_id in self.replies or self._trunk_fd() < 0, f"the answer to call {stream_id}")
        assert stream_id in self.replies, "the trunk was closed instead of an answer; the log:\n" + "\n".join(self.log)
        return self.replies[stream_id]

    def call(self, call: str | Message, timeout: float = LIMIT) -> Reply:
        """Calls the plugin and waits for its answer."""
        return self.reply(self.send(call, timeout))

    def serves(self, *calls: str | Message, timeout: float = LIMIT) -> None:
        """Calls the plugin once after the other; each call succeeds."""
        for call in calls:
            reply = self.call(call, timeout)
            assert reply[1:3] == (Code.OK, ""), f"{call}: {reply}"

    def created(self, request: Message) -> api.ContainerAdjustment:
        """Plays a creation, which succeeds; returns what is adjusted."""
        reply = self.call(request)
        assert reply.code == Code.OK, reply.message
        return api.CreateContainerResponse.FromString(reply.payload).adjust

    def request(self) -> Request:
        """Waits for the plugin's next call."""
        self.until(lambda: self.calls, "a call of the plugin's")
        return self.calls.pop(0)

    def answer(self, request: Request, code: int = Code.OK, text: str = "") -> None:
        """Answers a call of the plugin's, all of which have empty responses."""
        if code:
            self.connection.fail(request.stream_id, code, text)
        else:
            self.connection.respond(request.stream_id, b"")
        self.send_bytes(self.connection.data_to_send())

    def registration(self) -> api.RegisterPluginRequest:
        """Waits for the registration and accepts it."""
        request = self.request()
        if self._is_guarded and not self.guard:
            (self.guard,) = children_of(self.pid)
        assert (request.service, request.method) == (RUNTIME, "RegisterPlugin")
        self.answer(request)
        return api.RegisterPluginRequest.FromString(request.payload)

    def configure(
        self, config: str = "", name: str = "test", version: str = "v1.0.0", nri: str = "v0.12.5", timeout: int = 60_000
    ) -> None:
        """Configures the plugin, which accepts; `timeout` are the milliseconds of a call that names none."""
        told = api.ConfigureRequest(config=config, runtime_name=name, runtime_version=version, NRI_version=nri)
        told.registration_timeout, told.request_timeout = 60_000, timeout
        reply = self.call(told)
        assert reply.code == Code.OK, reply.message
        self.configured = api.ConfigureResponse.FromString(reply.payload)

    def handshake(self, config: str = "", told: Message | None = None, **runtime: Any) -> Daemon:
        """Accepts, configures and synchronises the plugin, as a runtime that has nothing unless `told`."""
        self.registration()
        self.configure(config, **runtime)
        self.serves(told or api.SynchronizeRequest())
        return self

    def accept(self, listener: socket.socket) -> Daemon:
        """Accepts the daemon's next connection in place of the one before; returns the daemon."""
        self.trunk, _ = listener.accept()
        self.trunk.settimeout(LIMIT)
        self.connection = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
        self.calls.clear()
        self.replies.clear()
        return self

    def hang_up(self) -> None:
        """Closes the trunk."""
        assert self.trunk is not None
        self.trunk.close()

    def end_runtime(self) -> None:
        """Ends the process that passes for the runtime, and closes the trunk."""
        if self.runtime is not None:
            self.runtime.kill()
            self.runtime.wait()
        if self.trunk is not None:
            self.trunk.close()

    # ---- the process

    def signal(self, number: int) -> None:
        signal.pidfd_send_signal(self._pidfd, number)

    def end(self) -> None:
        """Asks it to end, and waits until it has."""
        self.signal(signal.SIGTERM)
        assert self.ended() == 0

    def terminate(self) -> None:
        """Asks it to end, and waits until it has heard that."""
        self.signal(signal.SIGTERM)
        self.logged("INFO ending on SIGTERM")

    def kill(self) -> None:
        """Kills all of its processes, and the programs that these run; waits for the end."""
        kill_tree(self.pid)
        self.ended()

    @property
    def server(self) -> int:
        """The pid of the process that serves."""
        if not self._is_guarded:
            return self.pid
        (pid,) = children_of(self.guard)
        return pid

    def children(self) -> dict[int, str]:
        """The server's children, zombies included: their state by their pid."""
        return children_of(self.server)

    def close(self) -> None:
        """Ends the process the hard way if it has not ended; its log is complete then."""
        if self.exit_code is None and MEASURED:  # it notes them at an orderly end only
            self.signal(signal.SIGTERM)
            select.select([self._pidfd], [], [], LIMIT / 10)
        try:
            # Plugins on their way to a gate that is gone would wait for ever.
            for root in (self.pid if self.exit_code is None else 0, self.guard):
                if root:
                    kill_tree(root)
            self.end_runtime()
            self.until(lambda: self.exit_code is not None, "the end of a process that was killed")
            # A plugin left behind, which has our stderr, must not hold us up.
            while self._stderr >= 0 and select.select([self._stderr], [], [], 0)[0]:
                self._read_log()
        finally:
            if self._stderr >= 0:
                os.close(self._stderr)
            os.close(self._pidfd)


def kill_tree(pid: int) -> None:
    """Kills a process and then its descendants: a guard must not start a server again."""
    below = children_of(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for child in below:
        kill_tree(child)


def spawn(
    argv: Sequence[str | Path],
    environ: Mapping[str, str],
    fds: Mapping[int, int],
    trunk: socket.socket | None = None,
    stderr: str = "pipe",
    *,
    fresh: bool = False,
) -> Daemon:
    """Starts the command. What is the command itself, or code for Python, is forked unless it shall be `fresh`."""
    words, environ = [str(argument) for argument in argv], {**environ, **MEASURED}
    is_guarded = "NRI_PLUGIN_SOCKET" in environ and not any("command_line.main(" in word for word in words)
    reading, writing = os.pipe() if stderr == "pipe" else (-1, -1)
    given = dict(fds) if writing < 0 else {2: writing, **fds}
    is_code = words[:2] == [sys.executable, "-c"]
    try:
        if fresh or not (is_code or words[0] == str(COMMAND)):
            return Daemon(executed(words, environ, given), trunk, reading, reaped, is_guarded)
        code, words = (words[2], ["-c", *words[3:]]) if is_code else (MAIN, words)
        return Daemon(forks().spawn(code, words, environ, given), trunk, reading, forks().reap, is_guarded)
    finally:
        if writing >= 0:
            os.close(writing)


_RUNTIME = """
import signal, socket, sys
pair = socket.socketpair()
with socket.socket(fileno=int(sys.argv[1])) as control:
    socket.send_fds(control, [b"."], [end.fileno() for end in pair])
for end in pair:
    end.close()
signal.pause()
"""


def trunk_of_a_process() -> tuple[socket.socket, socket.socket, subprocess.Popen[bytes]]:
    """Makes the two ends of a trunk whose runtime, as the kernel knows it, is a process that a test can end."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            command = [sys.executable, "-I", "-S", "-c", _RUNTIME, str(theirs.fileno())]
            runtime = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        try:
            _, fds, _, _ = socket.recv_fds(ours, 1, 2)
            assert fds, "the process has ended"
        except BaseException:
            runtime.kill()
            runtime.wait()
            raise
    for fd in fds:
        os.set_inheritable(fd, False)
    return socket.socket(fileno=fds[0]), socket.socket(fileno=fds[1]), runtime


def executed(words: list[str], environ: Mapping[str, str], fds: Mapping[int, int]) -> int:
    # Out of the way first: one of ours may have the number of one of the child's.
    high = {number: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for number, fd in fds.items()}
    actions: list[Any] = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3) if fd not in high]
    actions += [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in high.items()]
    try:
        # Python ignores these two, a runtime does not.
        defaults = [signal.SIGPIPE, signal.SIGXFSZ]
        return os.posix_spawn(words[0], words, environ, file_actions=actions, setsigmask=[], setsigdef=defaults)
    finally:
        for fd in high.values():
            os.close(fd)


def reaped(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
