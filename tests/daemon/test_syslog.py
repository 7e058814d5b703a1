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
            self.lines.append(self._socket.recv(1 << 20).decode())
        return found[0]

    def waiting(self) -> list[str]:
        """The lines that have come already."""
        self._socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.lines.append(self._socket.recv(1 << 20).decode())
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


def launch(node: Node, path: Path, **log: str) -> Daemon:
    command = patched(f"logs.setup = functools.partial(logs.setup, syslog={str(path)!r})")
    return node.spawn(command, stderr="null").handshake(node.settings(log=log))


def test_its_lines_reach_syslog_under_its_name_and_pid(node: Node, receiver: Receiver) -> None:
    node.plugin("loud", "echo 'it is done' >&2; echo '{}'")
    node.configure("loud", "missing")
    daemon = launch(node, receiver.path)
    reply = daemon.call("StartContainer", start("ctr"))
    head = f"v010-adapter[{daemon.pid}]: "
    assert receiver.until("registered").startswith(f"<30>{head}registered with test v1.0.0: 0 pods, 0 containers")
    assert receiver.until("it is done") == f"<30>{head}loud: stderr: it is done"
    assert receiver.until("plugin: missing") == f"<27>{head}create of container default/web/ctr (ctr): {reply.message}"


def test_as_json_they_are_for_machines(node: Node, receiver: Receiver) -> None:
    daemon = launch(node, receiver.path, format="json", level="debug")
    node.still_serves(daemon)
    line = receiver.until("create of container default/web/proof-1 (proof-1): good: done")
    data = json.loads(line.partition("]: ")[2])
    assert (data["level"], data["plugin"], data["state"], data["id"]) == ("debug", "good", "create", "proof-1")
    assert data["request"]["id"] == "proof-1"
    assert data["result"] == {}
    assert data["error"] is None


FORGED = "no\n<0>v010-adapter[1]: forged\x1b[2J\u2028"
FORGING = f"""printf 'a\\033[2J\\r<0>b\\n\\302\\233c\\n' >&2
cat <<'END'
{json.dumps({"error": FORGED})}
END"""


@pytest.mark.parametrize("format_", ["text", "json"])
def test_what_a_plugin_quotes_forges_no_line(node: Node, receiver: Receiver, format_: str) -> None:
    """A plugin's error and its stderr may quote what a pod's author has written."""
    node.plugin("quotes", FORGING)
    node.configure("quotes")
    daemon = launch(node, receiver.path, format=format_)
    assert daemon.call("StartContainer", start("ctr")).message == f"plugin: quotes: {FORGED}"
    receiver.until("create of container default/web/ctr (ctr)")
    receiver.until(r"quotes: stderr: \x9bc" if format_ == "text" else r"quotes: stderr: \u009bc")
    head = f"v010-adapter[{daemon.pid}]: "
    assert all(line.isprintable() and line[4:].startswith(head) for line in receiver.waiting())


@pytest.mark.parametrize(
    "answer",
    [
        '{"spec": {"memory": 12345678901234567890}}',
        '{"updates": [{"id": 5, "resources": 1.5}], "adjust": 7, "cgroupsPath": 1e400}',
    ],
)
def test_numbers_in_a_result_cost_no_event_at_level_debug(node: Node, receiver: Receiver, answer: str) -> None:
    node.plugin("counts", f"echo '{answer}'")
    node.configure("counts")
    daemon = launch(node, receiver.path, format="json", level="debug")
    daemon.call("StartContainer", start("ctr"))
    line = receiver.until("create of container default/web/ctr (ctr): counts: ")
    assert json.loads(line.partition("]: ")[2])["plugin"] == "counts"
    node.still_serves(daemon)


def test_without_syslog_it_serves_and_writes_its_lines_when_there_is_one(node: Node, path: Path) -> None:
    daemon = launch(node, path)
    node.still_serves(daemon)
    receiver = Receiver(path)
    try:
        receiver.until("registered")  # nothing else happens meanwhile: it looks by itself
    finally:
        receiver.stop()


def test_without_syslog_the_lines_of_many_runs_are_kept_in_order(node: Node, path: Path) -> None:
    first = 'IFS= read -r line; i=${line#*\\"id\\":\\"}; i=${i%%\\"*}'
    node.plugin(
        "loud", f'{first}; n=$((i+500)); while [ $i -lt $n ]; do echo "line $i" >&2; i=$((i+1)); done; echo {{}}'
    )
    node.configure("loud")
    daemon = launch(node, path)
    for id_ in ("0", "500", "1000"):  # a run may say 500 lines
        assert daemon.call("StartContainer", start(id_)).code == Code.OK
    receiver = Receiver(path)
    try:
        receiver.until("line 1499")
    finally:
        receiver.stop()
    said = [line.partition("loud: stderr: ")[2] for line in receiver.lines]
    assert [line for line in said if line] == [f"line {number}" for number in range(1500)]


def test_a_syslog_that_does_not_read_holds_up_no_event(node: Node, receiver: Receiver) -> None:
    node.plugin("loud", "i=0; while [ $i -lt 300 ]; do echo \"line $i\" >&2; i=$((i+1)); done; echo '{}'")
    node.configure("loud")
    daemon = launch(node, receiver.path)
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    node.still_serves(daemon)
    receiver.until("loud: stderr: line 299")
    said = [line.partition("loud: stderr: ")[2] for line in receiver.lines if "loud: stderr: " in line]
    assert said == [f"line {number}" for number in range(300)]


def test_a_restart_of_syslog_loses_no_line(node: Node, receiver: Receiver, path: Path) -> None:
    node.configure("missing")
    daemon = launch(node, path)
    receiver.until("registered")
    receiver.stop()
    assert daemon.call("StartContainer", start("between")).code == Code.UNKNOWN
    again = Receiver(path)
    try:
        assert daemon.call("StartContainer", start("after")).code == Code.UNKNOWN
        again.until("create of container default/web/after (after)")
    finally:
        again.stop()
    assert ["between" in line for line in again.lines if "create of" in line] == [True, False]


def test_what_is_wrong_with_its_configuration_reaches_syslog(node: Node, receiver: Receiver, path: Path) -> None:
    config = node.path / "adapter.yaml"
    config.write_text("legacy:\n  unheardOf: 1\n")
    statements = (
        f"settings.DEFAULT_PATH = {str(config)!r}",
        f"logs.setup = functools.partial(logs.setup, syslog={str(path)!r})",
    )
    node.spawn(patched(*statements), stderr="null").registration()
    assert receiver.until("unheardOf").partition("]: ")[2].startswith(f"{config}:2: legacy.unheardOf: unknown key")


def test_why_it_cannot_even_start_reaches_syslog(node: Node, receiver: Receiver, path: Path) -> None:
    statement = f"logs.setup = functools.partial(logs.setup, syslog={str(path)!r})"
    daemon = node.spawn(patched(statement), launched(idx="7"), stderr="null")
    assert daemon.ended() == 2
    assert any("plugin index '7'" in line for line in receiver.waiting())


def test_a_bug_at_the_start_reaches_syslog(node: Node, receiver: Receiver, path: Path) -> None:
    setup = f"logs.setup = functools.partial(logs.setup, syslog={str(path)!r})"
    daemon = node.spawn(patched(setup, "daemon.become_daemon = lambda: 1 // 0"), stderr="null")
    receiver.until("    ZeroDivisionError")
    assert receiver.lines[0].partition("]: ")[2] == "a bug: integer division or modulo by zero"
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
