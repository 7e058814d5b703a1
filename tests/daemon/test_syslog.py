"""The logs of a daemon whose stderr is /dev/null, as a runtime leaves it."""

from __future__ import annotations

from pathlib import Path

from ..rig.daemon import Daemon
from ..rig.listeners import Receiver
from ..rig.machine import Machine, launched, patched, start


def to(path: Path) -> str:
    return f"logs.setup = functools.partial(logs.setup, syslog={str(path)!r})"


def launch(node: Machine, path: Path, **log: str) -> Daemon:
    return node.spawn(patched(to(path)), stderr="null").handshake(node.settings(log=log))


def test_its_lines_reach_syslog_under_its_name_and_pid(node: Machine, receiver: Receiver) -> None:
    node.plugin("loud", "echo 'it is done' >&2; echo '{}'")
    node.configure("loud", "missing")
    daemon = launch(node, receiver.path, level="debug")
    reply = daemon.call(start("ctr"))
    head = f"v010-adapter[{daemon.pid}]: "
    assert receiver.until("registered").startswith(f"<30>{head}registered with test v1.0.0: 0 pods, 0 containers")
    assert receiver.until("it is done") == f"<31>{head}loud: container default/web/ctr (ctr): stderr: it is done"
    assert receiver.until("plugin: missing") == f"<27>{head}create of container default/web/ctr (ctr): {reply.message}"


def test_why_it_cannot_start_and_what_is_wrong_reaches_syslog(node: Machine, receiver: Receiver) -> None:
    path = receiver.path
    config = node.path / "adapter.yaml"
    config.write_text("legacy:\n  unheardOf: 1\n")
    node.spawn(patched(f"settings.DEFAULT_PATH = {str(config)!r}", to(path)), stderr="null").registration()
    assert receiver.until("unheardOf").partition("]: ")[2].startswith(f"{config}:2: legacy.unheardOf: unknown key")
    daemon = node.spawn(patched(to(path)), launched(idx="7"), stderr="null")
    assert daemon.ended() == 2
    receiver.until("plugin index '7'")
    daemon = node.spawn(
        patched(to(path), "from v010_adapter.daemon import process_setup; process_setup.become_daemon = lambda: 1 / 0"),
        stderr="null",
    )
    receiver.until("    ZeroDivisionError")
    assert [line for line in receiver.lines if "]: a bug: division by zero" in line]
    assert daemon.ended() == 1
