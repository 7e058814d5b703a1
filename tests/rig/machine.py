"""A node on which a test starts the real command, and the events about a pod and its containers that it plays.

Nothing here sleeps or measures. What must come is waited for with one generous limit; that something came too early is
proved by what still stands in its way (a `Gate`).
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from nri import api
from tests.rig.processes import NO_PROCESS
from tests.rig.programs import Fifo, Programs
from tests.rig.waiting import LIMIT

from .daemon import COMMAND, Daemon, spawn, trunk_of_a_process

POD = api.PodSandbox(id="pod-1", name="web", uid="u", namespace="default", labels={"app": "web"}, pid=NO_PROCESS)
POD.linux.cgroups_path = "/pods/pod-1"


def container(id_: str, annotations: Mapping[str, str] | None = None, pod: api.PodSandbox = POD) -> api.Container:
    """A container of the pod."""
    linux = api.LinuxContainer(cgroups_path=f"/pods/{id_}")
    return api.Container(id=id_, pod_sandbox_id=pod.id, name=id_, pid=NO_PROCESS, annotations=annotations, linux=linux)


def create(id_: str, annotations: Mapping[str, str] | None = None) -> api.CreateContainerRequest:
    return api.CreateContainerRequest(pod=POD, container=container(id_, annotations))


def start(
    id_: str, annotations: Mapping[str, str] | None = None, pod: api.PodSandbox = POD
) -> api.StartContainerRequest:
    return api.StartContainerRequest(pod=pod, container=container(id_, annotations, pod))


def stop(id_: str, pod: api.PodSandbox = POD) -> api.StopContainerRequest:
    return api.StopContainerRequest(pod=pod, container=container(id_, None, pod))


def listed(id_: str, state: api.ContainerState.ValueType) -> api.SynchronizeRequest:
    """What a runtime tells that has the pod with one container."""
    told = container(id_)
    told.state = state
    return api.SynchronizeRequest(pods=[POD], containers=[told])


def launched(name: str = "v010-adapter", idx: str = "00", fd: str = "3") -> dict[str, str]:
    """The whole environment of a plugin that a runtime launched."""
    return {"NRI_PLUGIN_NAME": name, "NRI_PLUGIN_IDX": idx, "NRI_PLUGIN_SOCKET": fd}


def patched(*statements: str) -> list[str]:
    """The command with something of it changed beforehand: what no argument of the command can change."""
    modules = (
        "from v010_adapter import settings; "
        "from v010_adapter.cli import command_line; from v010_adapter.daemon import daemon; "
        "from v010_adapter.state import ledger"
    )
    code = ("import functools, sys", modules, "from v010_adapter.monitoring import logs", *statements)
    return [sys.executable, "-c", "\n".join([*code, "sys.exit(command_line.main(sys.argv[1:]))"])]


SOON = "ledger.RETRY = daemon.LOOK = 0.01"
"""With this patch, a daemon soon looks again whether its state directory is there and its records can be written."""
HURRIED = 50.0
"""Seconds of a call that a daemon with the patch HURRY answers after 0.1 s: its work is late, its answer is in time."""
HURRY = f"""
from nri.plugin import Context
def made(self, method, timeout, *more, make=Context.__init__):
    make(self, method, timeout, *more)
    if timeout == {HURRIED}:
        self._reserve = self._most = timeout - 0.1
        self.be_due_earlier(0)
Context.__init__ = made"""


class Gate:
    """Where a plugin says that it has come and waits to be let on: two FIFOs, and nobody opens the second too early."""

    def __init__(self, directory: Path, name: str) -> None:
        self._arrived, self._open = (Fifo(directory / f"{name}.{end}") for end in ("arrived", "open"))

    @property
    def script(self) -> str:
        """The line of a shell script that stops there; `$$` is what `arrival` returns."""
        return f'echo $$ >"{self._arrived}"; read -r _ <"{self._open}"'

    def arrival(self) -> int:
        """Waits for a plugin to arrive; returns its pid. It stays blocked until `let_on`."""
        return int(self._arrived.get())

    def let_on(self) -> None:
        """Lets one plugin go on."""
        self._open.put()

    def close(self) -> None:
        """Lets everybody go on."""
        self._arrived.close()
        self._open.close()


class Machine:
    """A node's directories with its legacy plugins and its conf.json, and the daemons that a test starts on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bin = path / "bin"
        self.bin.mkdir()
        self.conf_json = path / "conf.json"
        self.daemons: list[Daemon] = []
        self.shared_state = ""
        """The state directory of all daemons to come."""
        self.gates: list[Gate] = []
        self._ids = count(1)
        self.plugin("good", self.record("good"))
        self.configure()

    # ---- plugins

    def plugin(self, name: str, script: str, interpreter: str = "/bin/sh") -> Path:
        """Installs a plugin that is a script; put into place by renaming, so that nothing half-written ever runs."""
        return Programs(self.bin).write(f"{name}.new", f"#!{interpreter}\n{script}\n").rename(self.bin / name)

    def record(self, name: str, result: str = "{}") -> str:
        """The script of a plugin that notes its request for `requests` and answers `result`; it starts no process."""
        return f"IFS= read -r line; printf '%s\\n' \"$line\" >>'{self.path}/{name}.requests'; echo '{result}'"

    def requests(self, name: str) -> list[dict[str, Any]]:
        """The requests that a recording plugin has got."""
        path = self.path / f"{name}.requests"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def runs(self, name: str = "good") -> list[tuple[str, str]]:
        """State and id of those requests."""
        return [(request["state"], request["id"]) for request in self.requests(name)]

    def slow(self, name: str = "slow", when: str = "", gate: str = "gate") -> Gate:
        """Installs a recording plugin that waits at a gate, at events only whose request contains a text."""
        self.gates.append(made := Gate(self.path, gate))
        record = self.record(name).removeprefix("IFS= read -r line; ")
        self.plugin(name, f"IFS= read -r line; case \"$line\" in *'{when}'*) {made.script};; esac; {record}")
        return made

    def hook(self, name: str, path: Path | str, *stages: str, **when: Any) -> Path:
        """Writes a hook file to `hooks.d`, for all containers unless told otherwise; returns the directory."""
        folder = self.path / "hooks.d"
        folder.mkdir(exist_ok=True)
        hook = {"path": str(path), "env": ["PATH=/usr/bin:/bin"]}
        content = {"version": "1.0.0", "hook": hook, "when": when or {"always": True}, "stages": stages}
        (folder / f"{name}.json").write_text(json.dumps(content))
        return folder

    # ---- configuration

    def configure(self, *types: str) -> None:
        """Writes a conf.json that lists these plugins."""
        self.write_conf(json.dumps({"version": "0.1", "plugins": [{"type": type_} for type_ in types]}))

    def write_conf(self, text: str) -> None:
        """Puts a conf.json into place by renaming."""
        new = self.conf_json.with_suffix(".new")
        new.write_text(text)
        new.rename(self.conf_json)

    def settings(self, legacy: Mapping[str, Any] | None = None, **more: Any) -> str:
        """The adapter's own configuration for this node: legacy plugins and nothing else, unless told otherwise."""
        own = {"config": str(self.conf_json), "path": [str(self.bin)], "sandboxes": "always", **(legacy or {})}
        return json.dumps({"legacy": own, "hooks": {"enabled": False}, **more})

    def file(self, legacy: Mapping[str, Any] | None = None, **more: Any) -> Path:
        """Writes this configuration to a file."""
        path = self.path / "adapter.yaml"
        path.write_text(self.settings(legacy, **more))
        return path

    # ---- daemons

    def state(self) -> Mapping[str, str]:
        """Names a state directory to the next daemon, as systemd does: by default one of its own."""
        return {"RUNTIME_DIRECTORY": str(self.path / (self.shared_state or f"state-{len(self.daemons)}"))}

    def spawn(
        self,
        argv: Sequence[str | Path] = (COMMAND,),
        environ: Mapping[str, str] | None = None,
        stderr: str = "pipe",
        *,
        by_process: bool = False,
        is_narrow: bool = False,
        fresh: bool = False,
    ) -> Daemon:
        """Starts the command as containerd does, its stderr on a pipe for us instead of /dev/null; no handshake.

        `stderr="null"` is containerd's own way. `fresh`: it is executed, not forked. `by_process`: the runtime is a
        process that the test can end (`end_runtime`), instead of the test's own. `is_narrow`: the trunk takes little
        that the test has not read.
        """
        ours, theirs, runtime = trunk_of_a_process() if by_process else (*socket.socketpair(), None)
        ours.settimeout(LIMIT)
        environ = {**self.state(), **(launched() if environ is None else environ)}
        with theirs:
            if is_narrow:
                theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 0)
            daemon = spawn(argv, environ, {3: theirs.fileno()}, ours, stderr, fresh=fresh)
        daemon.runtime = runtime
        return self.keep(daemon)

    def keep(self, daemon: Daemon) -> Daemon:
        """Ends it with the test."""
        self.daemons.append(daemon)
        return daemon

    def launch(
        self,
        legacy: Mapping[str, Any] | None = None,
        *,
        by_process: bool = False,
        is_narrow: bool = False,
        patch: str = "",
        **more: Any,
    ) -> Daemon:
        """Starts the command as containerd does, `patched` if told so, and shakes hands with it.

        The settings come with Configure.
        """
        argv = patched(patch) if patch else [COMMAND]
        spawned = self.spawn(argv, by_process=by_process, is_narrow=is_narrow)
        daemon = spawned.handshake(self.settings(legacy, **more))
        if self.shared_state:
            daemon.call("Nothing")  # the daemon looks who serves after its answer to Synchronize, and before this one
        return daemon

    def external(
        self,
        *arguments: str | Path,
        listener: socket.socket | None = None,
        environ: Mapping[str, str] | None = None,
        fresh: bool = False,
    ) -> Daemon:
        """Starts the command as an administrator does, and accepts its connection unless there is no listener.

        It has a file with this node's settings and the node's NRI socket, unless it is given others, or `run`.
        """
        usual: list[str | Path] = [] if "-config" in arguments else ["-config", self.file()]
        usual += [] if "-socket" in arguments or "run" in arguments else ["-socket", self.path / "nri.sock"]
        given = {"PATH": os.defpath, **self.state(), **(environ or {})}
        daemon = self.keep(spawn([COMMAND, *arguments, *usual], given, {}, fresh=fresh))
        if listener is not None:
            daemon.accept(listener)
        return daemon

    def still_serves(self, daemon: Daemon) -> None:
        """Proves that the daemon does its work: a container's create and delete reach a plugin, and are answered."""
        self.configure("good")
        id_ = f"proof-{next(self._ids)}"
        before = len(self.requests("good"))
        daemon.serves(start(id_), stop(id_))
        assert self.runs()[before:] == [("create", id_), ("delete", id_)], daemon.log

    def close(self) -> None:
        """Closes the gates and then the daemons, whichever of them fails."""
        with ExitStack() as stack:
            for daemon in reversed(self.daemons):
                stack.callback(daemon.close)
            for gate in self.gates:
                stack.callback(gate.close)
