"""Runs the real command as containerd does, and plays the runtime to it: a socket, bytes, and its log.

Nothing here sleeps or measures. What must come is waited for with one generous limit; that something came too early is
proved by what still stands in its way (a `Gate`).
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from adapter.wire import Code

from .gate import Gate
from .messages import POD, container, launched, start, stop
from .process import COMMAND, LATE, OVER, SAFETY, Daemon, spawn
from .runtime import trunk_of_a_process

__all__ = [
    "COMMAND",
    "LATE",
    "OVER",
    "POD",
    "SAFETY",
    "Daemon",
    "Gate",
    "Node",
    "container",
    "launched",
    "patched",
    "slow",
    "start",
    "stop",
    "wait_for_run",
]


class Node:
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

    def state(self) -> Mapping[str, str]:
        """Names a state directory to the next daemon, as systemd does: by default one of its own."""
        return {"RUNTIME_DIRECTORY": str(self.path / (self.shared_state or f"state-{len(self.daemons)}"))}

    def spawn(
        self,
        argv: Sequence[str | Path] = (COMMAND,),
        environ: Mapping[str, str] | None = None,
        stray: Mapping[int, int] | None = None,
        stderr: str = "pipe",
        *,
        by_process: bool = False,
        fresh: bool = False,
    ) -> Daemon:
        """Starts the command as containerd does, its stderr on a pipe for us instead of /dev/null; no handshake.

        `stray` are descriptors that it finds open besides, by number; `stderr="null"` is containerd's own way.
        `fresh`: it is executed, not forked. `by_process`: the runtime is a process that the test can end
        (`end_runtime`), instead of the test's own.
        """
        ours, theirs, runtime = trunk_of_a_process() if by_process else (*socket.socketpair(), None)
        ours.settimeout(SAFETY)
        with theirs:
            fds = {3: theirs.fileno(), **(stray or {})}
            daemon = spawn(
                argv, {**self.state(), **(launched() if environ is None else environ)}, fds, ours, stderr, fresh=fresh
            )
        daemon.runtime = runtime
        self.daemons.append(daemon)
        return daemon

    def launch(self, legacy: Mapping[str, Any] | None = None, *, by_process: bool = False, **more: Any) -> Daemon:
        """Starts the command as containerd does and shakes hands; the settings come with Configure."""
        return self.spawn(by_process=by_process).handshake(self.settings(legacy, **more))

    def external(
        self,
        *arguments: str | Path,
        listener: socket.socket | None = None,
        environ: Mapping[str, str] | None = None,
        fresh: bool = False,
    ) -> Daemon:
        """Starts the command as an administrator does, and accepts its connection unless there is no listener."""
        given = {"PATH": os.defpath, **self.state(), **(environ or {})}
        daemon = spawn([COMMAND, *arguments], given, {}, None, "pipe", fresh=fresh)
        self.daemons.append(daemon)
        if listener is not None:
            daemon.accept(listener)
        return daemon

    def still_serves(self, daemon: Daemon) -> None:
        """Proves that the daemon does its work: a container's create and delete reach a plugin, and are answered."""
        self.configure("good")
        id_ = f"proof-{next(self._ids)}"
        before = len(self.requests("good"))
        for method, request in (("StartContainer", start(id_)), ("StopContainer", stop(id_))):
            reply = daemon.call(method, request)
            assert reply[1:3] == (Code.OK, ""), f"{method}: {reply}"
        assert self.runs("good")[before:] == [("create", id_), ("delete", id_)], daemon.log

    def close(self) -> None:
        for gate in self.gates:
            gate.close()
        for daemon in self.daemons:
            daemon.close()


def patched(*statements: str) -> list[str]:
    """The command with something of it changed beforehand: what no argument of the command can change."""
    code = [
        "import functools, sys",
        "from adapter import settings",
        "from adapter.cli import command_line",
        "from adapter.daemon import daemon",
        "from adapter.monitoring import logs",
        *statements,
    ]
    return [sys.executable, "-c", "\n".join([*code, "sys.exit(command_line.main([]))"])]


def slow(node: Node, gate: Gate, name: str = "slow", when: str = "*") -> None:
    """Installs a plugin that waits at a gate, at every event or only at those `when` the request contains a text."""
    waiting = f"case \"$line\" in *'{when}'*) {gate.script};; esac" if when != "*" else gate.script
    node.plugin(
        name, f"IFS= read -r line; {waiting}; printf '%s\\n' \"$line\" >>'{node.path}/{name}.requests'; echo '{{}}'"
    )


def wait_for_run(node: Node, daemon: Daemon, name: str, id_: str, state: str) -> None:
    """Waits until a chain that goes on behind its answer has run a recording plugin: the next event of that id waits.

    An event of the same id is answered only after the chains before it have ended.
    """
    assert daemon.call("StartContainer" if state == "delete" else "StopContainer", start(id_)).code == Code.OK
    assert (state, id_) in node.runs(name)
