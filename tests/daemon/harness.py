"""Runs the real command as containerd does, and plays the runtime to it: a socket, bytes, and its log.

Nothing here sleeps or measures. What must come is waited for with one generous limit; that something came too early is
proved by what still stands in its way (a `Gate`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from adapter.nri import api
from adapter.nri.events import BY_EVENT, PLUGIN, RUNTIME
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, Request, mux, ttrpc
from adapter.wire.ttrpc import Type

COMMAND = Path(sys.executable).with_name("v010-adapter")
SAFETY = 30.0
"""Seconds after which whatever is waited for counts as never coming."""
LATE = 0.25
"""Seconds of a call that shall not be done in time."""

POD = api.PodSandbox(
    id="pod-1",
    name="web",
    uid="u",
    namespace="default",
    labels={"app": "web"},
    pid=4242,
    linux=api.LinuxPodSandbox(cgroups_path="/pods/pod-1"),
)


def launched(name: str = "v010-adapter", idx: str = "00", fd: str = "3") -> dict[str, str]:
    """The whole environment of a plugin that a runtime launched."""
    return {"NRI_PLUGIN_NAME": name, "NRI_PLUGIN_IDX": idx, "NRI_PLUGIN_SOCKET": fd}


def container(id_: str, annotations: Mapping[str, str] | None = None, pod: api.PodSandbox = POD) -> api.Container:
    """A container of the pod."""
    linux = api.LinuxContainer(cgroups_path=f"/pods/{id_}")
    return api.Container(id=id_, pod_sandbox_id=pod.id, name=id_, pid=77, annotations=annotations, linux=linux)


def start(id_: str, annotations: Mapping[str, str] | None = None, pod: api.PodSandbox = POD) -> Message:
    return api.StartContainerRequest(pod=pod, container=container(id_, annotations, pod))


def stop(id_: str, pod: api.PodSandbox = POD) -> Message:
    return api.StopContainerRequest(pod=pod, container=container(id_, None, pod))


class Gate:
    """Where a plugin says that it has come and waits to be let on: two FIFOs, and nobody opens the second too early."""

    def __init__(self, directory: Path, name: str) -> None:
        self._paths = [directory / f"{name}.{end}" for end in ("arrived", "open")]
        self._fds = []
        for path in self._paths:
            os.mkfifo(path)
            self._fds.append(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))

    @property
    def script(self) -> str:
        """The line of a shell script that stops there; `$$` is what `arrival` returns."""
        return f'echo $$ >"{self._paths[0]}"; read -r _ <"{self._paths[1]}"'

    def arrival(self) -> int:
        """Waits for a plugin to arrive; returns its pid. It stays blocked until `let_on`."""
        line = b""
        while not line.endswith(b"\n"):
            assert select.select([self._fds[0]], [], [], SAFETY)[0], "no plugin has arrived"
            line += os.read(self._fds[0], 1)
        return int(line)

    def nobody_has_arrived(self) -> bool:
        return not select.select([self._fds[0]], [], [], 0)[0]

    def let_on(self) -> None:
        """Lets one plugin go on."""
        os.write(self._fds[1], b"\n")

    def close(self) -> None:
        """Lets everybody go on."""
        for fd in self._fds:
            os.close(fd)


class Daemon:
    """The command as a process, and the runtime's end of its trunk."""

    def __init__(self, pid: int, trunk: socket.socket | None, stderr: int) -> None:
        """`trunk` is None as long as an external plugin has not connected; `stderr` the reading end of a pipe or -1."""
        self.pid = pid
        self.exit_code: int | None = None
        self.log: list[str] = []
        """The lines it has written to stderr so far."""
        self.calls: list[Request] = []
        """What it has asked of the runtime so far."""
        self.replies: dict[int, Reply] = {}
        """What it has answered so far, in the order of its answers."""
        self._pidfd = os.pidfd_open(pid)
        self._stderr = stderr
        self._rest = b""
        self.trunk = trunk
        self.connection = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
        self.heard: list[ttrpc.Message] = []
        """Every message of the Plugin service, those that answer no call of ours too."""
        self._frames = mux.FrameReader()
        self._messages = ttrpc.MessageReader()

    # ---- waiting

    def until(self, done: Callable[[], Any], what: str, *, read_trunk: bool = True) -> None:
        """Reads the trunk and the log until `done()`."""
        while not done():
            fds = [fd for fd in (self._stderr, self._trunk_fd() if read_trunk else -1) if fd >= 0]
            if self.exit_code is None:
                fds.append(self._pidfd)
            ready = select.select(fds, [], [], SAFETY)[0] if fds else []
            assert ready, f"never came: {what}; the log:\n" + "\n".join(self.log)
            self._serve(ready)

    def _trunk_fd(self) -> int:
        return -1 if self.trunk is None else self.trunk.fileno()

    def _serve(self, ready: Sequence[int]) -> None:
        # What a process has said before its end is read before its end is seen.
        if self._stderr in ready:
            self._read_log()
        elif self.trunk is not None and self.trunk.fileno() in ready:
            self._read_trunk()
        elif self._pidfd in ready and self.exit_code is None:
            _, status = os.waitpid(self.pid, 0)
            self.exit_code = os.waitstatus_to_exitcode(status)

    def _read_log(self) -> None:
        chunk = os.read(self._stderr, 1 << 16)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self.log += [line.decode() for line in lines]
        if not chunk:
            os.close(self._stderr)
            self._stderr = -1

    def _read_trunk(self) -> None:
        assert self.trunk is not None
        try:
            data = self.trunk.recv(1 << 16)
        except ConnectionResetError:  # it went with bytes of ours unread
            data = b""
        for conn_id, payload in self._frames.receive_data(data):
            if conn_id == PLUGIN_SERVICE:
                self.heard += self._messages.receive_data(payload)
        for event in self.connection.receive_data(data):
            if isinstance(event, Request):
                self.calls.append(event)
            else:
                assert event.stream_id not in self.replies, "two answers to one call"
                self.replies[event.stream_id] = event
        if not data:
            self.trunk.close()

    def logged(self, *texts: str) -> str:
        """Waits for a line of the log that has all these texts in it, and returns it."""

        def found() -> list[str]:
            return [line for line in self.log if all(text in line for text in texts)]

        self.until(found, f"a line with {texts}", read_trunk=False)
        return found()[0]

    def ended(self) -> int:
        """Waits for the end of the process; returns its exit code, minus the signal that killed it."""
        self.until(lambda: self.exit_code is not None and self._stderr < 0, "the end of the daemon")
        assert self.exit_code is not None
        return self.exit_code

    def forget(self) -> None:
        """Forgets what it has said and answered so far."""
        assert self.call("CreateContainer").code == Code.OK  # and with it the lines of the log before it are here
        while self._stderr >= 0 and select.select([self._stderr], [], [], 0)[0]:
            self._read_log()
        for heard in (self.log, self.replies, self.heard):
            heard.clear()

    def is_running(self) -> bool:
        return self.exit_code is None and not select.select([self._pidfd], [], [], 0)[0]

    # ---- the runtime's part

    def send(self, method: str, request: Message | bytes = b"", timeout: float = SAFETY, service: str = PLUGIN) -> int:
        """Calls the plugin; returns the stream id of the call."""
        payload = request if isinstance(request, bytes) else request.SerializeToString()
        stream_id = self.connection.call(service, method, payload, timeout)
        self.flush()
        return stream_id

    def send_together(self, *calls: tuple[str, Message, float]) -> list[int]:
        """Sends calls in one piece; they are a method, a request and seconds each. Returns their stream ids."""
        ids = [
            self.connection.call(PLUGIN, method, request.SerializeToString(), timeout)
            for method, request, timeout in calls
        ]
        self.flush()
        return ids

    def next_stream_id(self) -> int:
        """Takes the next stream id without sending anything."""
        stream_id = self.connection.call("", "", b"")
        self.connection.data_to_send()
        return stream_id

    def send_envelope(self, envelope: bytes, type_: Type = Type.REQUEST) -> int:
        """Sends a message with any content under the next stream id, and returns that."""
        stream_id = self.next_stream_id()
        self.send_message(stream_id, envelope, type_)
        return stream_id

    def send_message(self, stream_id: int, envelope: bytes, type_: Type = Type.REQUEST) -> None:
        """Sends a message with any content and stream id to the Plugin service."""
        self.send_bytes(mux.frames(PLUGIN_SERVICE, ttrpc.message(stream_id, type_, envelope)))

    def reply(self, stream_id: int) -> Reply:
        """Waits for the answer to a call."""
        self.until(lambda: stream_id in self.replies or self._trunk_fd() < 0, f"the answer to call {stream_id}")
        assert stream_id in self.replies, "the trunk was closed instead of an answer; the log:\n" + "\n".join(self.log)
        return self.replies[stream_id]

    def call(self, method: str, request: Message | bytes = b"", timeout: float = SAFETY) -> Reply:
        """Calls the plugin and waits for its answer."""
        return self.reply(self.send(method, request, timeout))

    def changed(self, event: api.Event.ValueType, pod: api.PodSandbox, of: api.Container | None = None) -> Reply:
        """Sends an event as runtimes with NRI <= 0.11 do."""
        assert event in BY_EVENT
        return self.call("StateChange", api.StateChangeEvent(event=event, pod=pod, container=of))

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
        self.flush()

    def flush(self) -> None:
        self.send_bytes(self.connection.data_to_send())

    def send_bytes(self, data: bytes) -> None:
        """Writes bytes to the trunk, whatever they are."""
        assert self.trunk is not None
        self.trunk.sendall(data)

    def registration(self) -> api.RegisterPluginRequest:
        """Waits for the registration and accepts it."""
        request = self.request()
        assert (request.service, request.method) == (RUNTIME, "RegisterPlugin")
        self.answer(request)
        return api.RegisterPluginRequest.FromString(request.payload)

    def configure(
        self, config: str = "", name: str = "test", version: str = "v1.0.0", nri: str = "v0.12.5"
    ) -> api.ConfigureResponse:
        """Configures the plugin, which accepts."""
        request = api.ConfigureRequest(
            config=config,
            runtime_name=name,
            runtime_version=version,
            registration_timeout=5000,
            request_timeout=2000,
            NRI_version=nri,
        )
        reply = self.call("Configure", request)
        assert reply.code == Code.OK, reply.message
        return api.ConfigureResponse.FromString(reply.payload)

    def handshake(self, config: str = "") -> Daemon:
        """Accepts, configures and synchronises the plugin."""
        self.registration()
        self.configure(config)
        reply = self.call("Synchronize", api.SynchronizeRequest())
        assert reply.code == Code.OK, reply.message
        return self

    def hang_up(self) -> None:
        """Closes the trunk."""
        assert self.trunk is not None
        self.trunk.close()

    def signal(self, number: int) -> None:
        signal.pidfd_send_signal(self._pidfd, number)

    # ---- looking at the process

    def descriptors(self) -> list[str]:
        return sorted(os.listdir(f"/proc/{self.pid}/fd"), key=int)

    def children(self) -> dict[int, str]:
        """Its children, zombies included: their state by their pid."""
        found = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if int(fields[1]) == self.pid:
                    found[int(entry)] = fields[0]
        return found

    def resident(self) -> int:
        """KiB of memory that it uses."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))

    def close(self) -> None:
        """Ends the process the hard way if it has not ended; its log is complete then."""
        if self.exit_code is None:
            # Plugins on their way to a gate that is gone would wait for ever.
            for pid in self.children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.signal(signal.SIGKILL)
        if self.trunk is not None:
            self.trunk.close()
        self.until(lambda: self.exit_code is not None, "the end of a process that was killed")
        if self._stderr >= 0:
            self._drain()
        os.close(self._pidfd)

    def _drain(self) -> None:
        """Reads what there is of the log; a plugin left behind must not hold us up."""
        while self._stderr >= 0 and select.select([self._stderr], [], [], 0)[0]:
            self._read_log()
        if self._stderr >= 0:
            os.close(self._stderr)


class Node:
    """A node's directories with its legacy plugins and its conf.json, and the daemons that a test starts on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bin = path / "bin"
        self.bin.mkdir()
        self.conf_json = path / "conf.json"
        self.daemons: list[Daemon] = []
        self.lasting: Daemon | None = None
        """The daemon of several tests, where they share one."""
        self.gates: list[Gate] = []
        self._ids = count(1)
        self.plugin("good", self.record("good"))
        self.configure()

    # ---- plugins

    def plugin(self, name: str, script: str, interpreter: str = "/bin/sh") -> Path:
        """Installs a plugin that is a script; put into place by renaming, so that nothing half-written ever runs."""
        path = self.bin / name
        new = path.with_suffix(".new")
        new.write_text(f"#!{interpreter}\n{script}\n")
        new.chmod(0o755)
        new.rename(path)
        return path

    def record(self, name: str, result: str = "{}") -> str:
        """The script of a plugin that notes its request for `requests` and answers `result`; it starts no process."""
        return f"IFS= read -r line; printf '%s\\n' \"$line\" >>'{self.path}/{name}.requests'; echo '{result}'"

    def requests(self, name: str) -> list[dict[str, Any]]:
        """The requests that a recording plugin has got."""
        path = self.path / f"{name}.requests"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def runs(self, name: str) -> list[tuple[str, str]]:
        """State and id of those requests."""
        return [(request["state"], request["id"]) for request in self.requests(name)]

    def gate(self, name: str = "gate") -> Gate:
        self.gates.append(Gate(self.path, name))
        return self.gates[-1]

    # ---- configuration

    def configure(self, *types: str) -> None:
        """Writes a conf.json that lists these plugins."""
        self.write_conf(json.dumps({"version": "0.1", "plugins": [{"type": type_} for type_ in types]}))

    def write_conf(self, text: str | bytes) -> None:
        """Puts a conf.json into place by renaming."""
        new = self.conf_json.with_suffix(".new")
        new.write_bytes(text.encode() if isinstance(text, str) else text)
        new.rename(self.conf_json)

    def settings(self, legacy: Mapping[str, Any] | None = None, **more: Any) -> str:
        """The adapter's own configuration for this node: legacy plugins and nothing else, unless told otherwise."""
        own = {"config": str(self.conf_json), "path": [str(self.bin)], "sandboxes": "always", **(legacy or {})}
        more = {"hooks": {"enabled": False}, **more}
        return json.dumps({"legacy": own, "hooks": {"enabled": False}, **more})

    # ---- daemons

    def spawn(
        self,
        argv: Sequence[str | Path] = (COMMAND,),
        environ: Mapping[str, str] | None = None,
        stray: Mapping[int, int] | None = None,
        stderr: str = "pipe",
    ) -> Daemon:
        """Starts the command as containerd does, its stderr on a pipe for us instead of /dev/null; no handshake.

        `stray` are descriptors that it finds open besides, by number; `stderr="null"` is containerd's own way.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(SAFETY)
        with theirs:
            fds = {3: theirs.fileno(), **(stray or {})}
            daemon = _start(argv, launched() if environ is None else environ, fds, ours, stderr)
        self.daemons.append(daemon)
        return daemon

    def launch(self, legacy: Mapping[str, Any] | None = None, **more: Any) -> Daemon:
        """Starts the command as containerd does and shakes hands; the settings come with Configure."""
        return self.spawn().handshake(self.settings(legacy, **more))

    def external(self, *arguments: str | Path, listener: socket.socket | None = None) -> Daemon:
        """Starts the command as an administrator does, and accepts its connection unless there is no listener."""
        daemon = _start([COMMAND, *arguments], {"PATH": os.defpath}, {}, None, "pipe")
        self.daemons.append(daemon)
        if listener is not None:
            daemon.trunk, _ = listener.accept()
            daemon.trunk.settimeout(SAFETY)
        return daemon

    def still_serves(self, daemon: Daemon) -> None:
        """Proves that the daemon does its work: a container's create and delete reach a plugin, and are answered."""
        self.configure("good")
        id_ = f"proof-{next(self._ids)}"
        before = len(self.requests("good"))
        for method, request in (("StartContainer", start(id_)), ("StopContainer", stop(id_))):
            reply = daemon.call(method, request)
            assert reply[1:3] == (Code.OK, ""), f"{method}: {reply}"
        assert self.runs("good")[before:] == [("create", id_), ("delete", id_)]

    def close(self) -> None:
        for gate in self.gates:
            gate.close()
        for daemon in self.daemons:
            daemon.close()


def patched(*statements: str) -> list[str]:
    """The command with something of it changed beforehand: what no argument of the command can change."""
    code = ["import functools, sys", "from adapter import cli, daemon, logs, settings", *statements]
    return [sys.executable, "-c", "\n".join([*code, "sys.exit(cli.main([]))"])]


def _start(
    argv: Sequence[str | Path],
    environ: Mapping[str, str],
    fds: Mapping[int, int],
    trunk: socket.socket | None,
    stderr: str,
) -> Daemon:
    reading, writing = os.pipe() if stderr == "pipe" else (-1, -1)
    given = dict(fds) if writing < 0 else {2: writing, **fds}
    # Out of the way first: one of ours may have the number of one of the child's.
    high = {number: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for number, fd in given.items()}
    actions: list[Any] = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3) if fd not in high]
    actions += [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in high.items()]
    try:
        pid = os.posix_spawn(
            argv[0],
            [str(argument) for argument in argv],
            dict(environ),
            file_actions=actions,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them, a runtime does not
        )
    finally:
        for fd in high.values():
            os.close(fd)
        if writing >= 0:
            os.close(writing)
    return Daemon(pid, trunk, reading)
