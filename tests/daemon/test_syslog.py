"""The logs of a daemon whose stderr is /dev/null, as a runtime leaves it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapter.wire import Code

from .harness import COMMAND, SAFETY, Daemon, Node, launched, patched, start, stop


class Receiver:
    """A syslog daemon of sorts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(SAFETY)
        self.lines: list[str] = []

    def until(self, text: str) -> str:
        """Reads until a line has this text; returns the line."""
        while not (found := [line for line in self.lines if text in line]):
            self.read()
        return found[0]

    def read(self) -> None:
        """Waits for a line."""
        self.lines.append(self._socket.recv(1 << 20).decode())

    def count(self, text: str) -> int:
        return len([line for line in self.lines if text in line])

    def waiting(self) -> list[str]:
        """The lines that have come already."""
        self._socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.read()
        return self.lines

    def stop(self) -> None:
        self._socket.close()
        self.path.unlink()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the daemon looks for syslog."""
    return tmp_path / "log"


@pytest.fixture
def receiver(path: Path) -> Iterator[Receiver]:
    made = Receiver(path)
    yield made
    if path.exists():
        made.stop()


def to(path: Path) -> str:
    return f"logs.setup = functools.partial(logs.setup, syslog={str(path)!r})"


def launch(node: Node, path: Path, **log: str) -> Daemon:
    return node.spawn(patched(to(path)), stderr="null").handshake(node.settings(log=log))


def test_its_lines_reach_syslog_under_its_name_and_pid(node: Node, receiver: Receiver) -> None:
    node.plugin("loud", "echo 'it is done' >&2; echo '{}'")
    node.configure("loud", "missing")
    daemon = launch(node, receiver.path)
    reply = daemon.call("StartContainer", start("ctr"))
    head = f"v010-adapter[{daemon.pid}]: "
    assert receiver.until("registered").startswith(f"<30>{head}registered with test v1.0.0: 0 pods, 0 containers")
    assert receiver.until("it is done") == f"<30>{head}loud: stderr: it is done"
    assert receiver.until("plugin: missing") == f"<27>{head}create of container default/web/ctr (ctr): {reply.message}"


def test_as_json_they_are_for_machines_whatever_numbers_a_result_has(node: Node, receiver: Receiver) -> None:
    daemon = launch(node, receiver.path, format="json", level="debug")
    node.still_serves(daemon)
    line = receiver.until("create of container default/web/proof-1 (proof-1): good: done")
    data = json.loads(line.partition("]: ")[2])
    assert (data["level"], data["plugin"], data["state"], data["id"]) == ("debug", "good", "create", "proof-1")
    assert (data["request"]["id"], data["result"], data["error"]) == ("proof-1", {}, None)
    node.plugin("counts", 'echo \'{"updates": [{"id": 5, "resources": 1.5}], "adjust": 7, "cgroupsPath": 1e400}\'')
    node.configure("counts")
    daemon.call("StartContainer", start("ctr"))
    line = receiver.until("create of container default/web/ctr (ctr): counts: ")
    assert json.loads(line.partition("]: ")[2])["plugin"] == "counts"
    node.still_serves(daemon)


def test_without_syslog_lines_are_kept_in_order_and_written_when_there_is_one(node: Node, path: Path) -> None:
    node.plugin("loud", "i=0; while [ $i -lt 500 ]; do echo \"line $i\" >&2; i=$((i+1)); done; echo '{}'")
    node.configure("loud")
    daemon = launch(node, path)
    for id_ in ("one", "two"):  # a run may say 500 lines
        assert daemon.call("StartContainer", start(id_)).code == Code.OK
    receiver = Receiver(path)
    receiver.until("line 499")  # nothing else happens meanwhile: it looks by itself
    while receiver.count("line 499") < 2:
        receiver.read()
    receiver.stop()
    said = [line.partition("loud: stderr: ")[2] for line in receiver.lines]
    assert [line for line in said if line] == [f"line {number}" for number in range(500)] * 2
    assert receiver.count("registered") == 1


def test_what_is_wrong_with_its_configuration_reaches_syslog(node: Node, receiver: Receiver, path: Path) -> None:
    config = node.path / "adapter.yaml"
    config.write_text("legacy:\n  unheardOf: 1\n")
    node.spawn(patched(f"settings.DEFAULT_PATH = {str(config)!r}", to(path)), stderr="null").registration()
    assert receiver.until("unheardOf").partition("]: ")[2].startswith(f"{config}:2: legacy.unheardOf: unknown key")


def test_why_it_cannot_even_start_reaches_syslog_also_if_it_is_a_bug(
    node: Node, receiver: Receiver, path: Path
) -> None:
    daemon = node.spawn(patched(to(path)), launched(idx="7"), stderr="null")
    assert daemon.ended() == 2
    receiver.until("plugin index '7'")
    daemon = node.spawn(patched(to(path), "daemon.become_daemon = lambda: 1 // 0"), stderr="null")
    receiver.until("    ZeroDivisionError")
    assert [line for line in receiver.lines if "]: a bug: integer division or modulo by zero" in line]
    assert daemon.ended() == 1


def private(script: str) -> list[str]:
    """A command that runs in a mount namespace of its own, after a shell script has changed what it sees."""
    return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-ec", f'{script}; exec "$0"', str(COMMAND)]


def why_no_namespace() -> str:
    if shutil.which("unshare") is None:
        return "there is no unshare"
    tried = subprocess.run([*private("mount -t tmpfs none /mnt")[:-1], "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else f"no mount namespace: {tried.stderr.decode().strip()}"


def test_the_real_command_finds_the_real_dev_log(node: Node, receiver: Receiver) -> None:
    reason = why_no_namespace()
    if reason:
        pytest.skip(reason)
    dev = node.path / "dev"
    script = (
        f"mkdir {dev}; mount -t tmpfs none {dev}; touch {dev}/null; mount --bind /dev/null {dev}/null;"
        f" ln -s {receiver.path} {dev}/log; mount --move {dev} /dev"
    )
    argv = [shutil.which("unshare") or "", *private(script)[1:]]
    daemon = node.spawn(argv, {**launched(), "PATH": os.environ["PATH"]}, stderr="null")
    daemon.handshake(node.settings())
    node.still_serves(daemon)
    receiver.until(f"v010-adapter[{daemon.server}]: registered with test v1.0.0")
    assert daemon.call("StopContainer", stop("x")).code == Code.OK
