"""Programs that stand by for a running daemon: when they are there, when they are gone, and how events go with them."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from adapter.cli import status
from adapter.monitoring.status import ask
from adapter.nri import api
from adapter.wire import Code
from tests.processes import gone

from .harness import COMMAND, LATE, OVER, POD, SAFETY, Daemon, Node, container, start, stop

STANDBY = {"standby": 1}
NOTING = """cd '{0}'
IFS= read -r line
[ "$line" ] || {{ echo $$ >>empty; exit 1; }}
echo $$ >>pids
printf '%s\\n' "$line" >>good.requests
echo '{{}}'
"""


@pytest.fixture(autouse=True)
def started(node: Node) -> Iterator[int]:
    """Where each process says that it has started. `good` notes its pid with its request, and an empty stdin."""
    os.mkfifo(node.path / "started")
    fd = os.open(node.path / "started", os.O_RDWR | os.O_NONBLOCK)
    plugin(node, "good", NOTING.format(node.path))
    node.configure("good")
    yield fd
    os.close(fd)


def plugin(node: Node, name: str, script: str) -> Path:
    return node.plugin(name, f"echo >'{node.path}/started'; {script}")


def standing_by(daemon: Daemon, started: int, number: int = 1) -> list[int]:
    """Waits until the daemon has so many children; returns them."""
    while len(found := daemon.children()) != number or "Z" in found.values():
        if "Z" in found.values():
            assert daemon.call("Nothing").code == Code.UNIMPLEMENTED  # a turn of the loop, which reaps
            continue
        with ExitStack() as stack:
            waits = [started]
            for pid in found:
                with suppress(ProcessLookupError):
                    waits.append(os.pidfd_open(pid))
                    stack.callback(os.close, waits[-1])
            ready = select.select(waits, [], [], SAFETY)[0]
            assert ready, f"{number} processes never stood by, but {found}"
        if started in ready:
            os.read(started, 4096)
    return sorted(found)


def served_by(node: Node) -> list[int]:
    """The processes of the plugin that have got a request."""
    return [int(pid) for pid in (node.path / "pids").read_text().split()]


def saw_an_empty_stdin(node: Node) -> list[int]:
    path = node.path / "empty"
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def test_the_first_event_finds_a_process_and_so_does_each_that_follows(node: Node, started: int) -> None:
    daemon = node.launch(STANDBY)
    for id_ in ("c1", "c2"):
        for method, request in (("StartContainer", start(id_)), ("StopContainer", stop(id_))):
            (pid,) = standing_by(daemon, started)
            assert daemon.call(method, request).code == Code.OK
            assert served_by(node)[-1] == pid
    assert node.runs("good") == [(state, id_) for id_ in ("c1", "c2") for state in ("create", "delete")]


def test_a_plugin_has_its_own_number_of_processes_and_none_once_conf_json_names_it_no_more(
    node: Node, started: int
) -> None:
    plugin(node, "other", node.record("other"))
    node.configure("good", "other", "absent")
    daemon = node.launch({"standby": 3, "plugins": {"other": {"standby": 1}, "absent": {"standby": 1}}})
    before = standing_by(daemon, started, 4)
    daemon.logged("registered with")
    assert not [line for line in daemon.log if "absent: " in line]
    node.configure("other")
    assert daemon.call("StartContainer", start("c1")).code == Code.OK
    gone(*before)
    standing_by(daemon, started, 1)
    assert saw_an_empty_stdin(node) == []


def test_an_adapter_that_waits_has_none_until_it_takes_over(node: Node, started: int) -> None:
    node.shared_state = "state"
    first = node.launch(STANDBY)
    standing_by(first, started)
    second = node.launch(STANDBY)
    second.logged("this one waits")
    assert second.call("StartContainer", start("c1")).code == Code.OK
    assert second.children() == {}
    first.kill()
    first.ended()
    assert second.call("StartContainer", start("c2")).code == Code.OK
    standing_by(second, started)


def test_an_event_under_way_at_sigterm_starts_no_more(node: Node, started: int) -> None:
    gate = node.gate()
    plugin(node, "slow", f"IFS= read -r line; {gate.script}; echo '{{}}'")
    node.configure("slow", "good")
    node.shared_state = "state"
    daemon = node.launch(STANDBY)
    pids = standing_by(daemon, started, 2)
    call = daemon.send("StartContainer", start("c1"))
    gate.arrival()
    (told,) = ask(str(node.path / "state"))  # while an event is under way nothing is started
    assert {name: crew["waiting"] for name, crew in told["standby"].items()} == {"slow": 0, "good": 1}
    os.kill(daemon.pid, signal.SIGTERM)
    daemon.logged("ending on SIGTERM")
    (slow,) = standing_by(daemon, started, 1)
    assert slow in pids
    gate.let_on()
    assert daemon.reply(call).code == Code.OK
    assert daemon.ended() == 0
    assert node.runs("good") == [("create", "c1")]
    assert saw_an_empty_stdin(node) == []


def test_events_that_come_before_its_end_leave_none_behind(node: Node, started: int) -> None:
    """A late chain holds up the end, and the adapter serves what comes meanwhile."""
    gate = node.gate()
    waiting_at_c1 = f'case "$line" in *c1*) {gate.script};; esac'
    plugin(node, "slow", f"IFS= read -r line; {waiting_at_c1}; echo '{{}}'")
    node.configure("slow", "good")
    daemon = node.launch({"standby": 1, "onFailure": "ignore"})
    waiting = standing_by(daemon, started, 2)
    assert daemon.call("StartContainer", start("c1"), OVER).code == Code.OK
    gate.arrival()
    daemon.signal(signal.SIGTERM)
    daemon.logged("ending on SIGTERM")
    assert daemon.call("StartContainer", start("c2")).code == Code.OK
    gate.let_on()
    assert daemon.ended() == 0
    gone(*waiting)
    assert sorted(node.runs("good")) == [("create", "c1"), ("create", "c2")]
    assert saw_an_empty_stdin(node) == []


def test_when_the_server_is_killed_they_see_an_empty_stdin_and_make_no_create(node: Node, started: int) -> None:
    daemon = node.launch({"standby": 3}, by_process=True)
    assert daemon.call("StartContainer", start("c1")).code == Code.OK
    pids = standing_by(daemon, started, 3)
    os.kill(daemon.server, signal.SIGKILL)
    gone(*pids)
    assert set(saw_an_empty_stdin(node)) == set(pids)
    assert node.runs("good") == [("create", "c1")]


def test_sighup_replaces_them(node: Node, started: int) -> None:
    config = node.path / "adapter.yaml"
    config.write_text(node.settings(STANDBY))
    daemon = node.spawn([COMMAND, "-config", config]).handshake()
    (before,) = standing_by(daemon, started)
    os.kill(daemon.server, signal.SIGHUP)
    daemon.logged("SIGHUP")
    gone(before)
    standing_by(daemon, started)
    assert saw_an_empty_stdin(node) == []


def test_a_sighup_before_the_settings_have_come_changes_nothing(node: Node, started: int) -> None:
    daemon = node.spawn()
    daemon.registration()
    os.kill(daemon.server, signal.SIGHUP)
    daemon.logged("SIGHUP")
    daemon.configure(node.settings(STANDBY))
    assert daemon.call("Synchronize", api.SynchronizeRequest()).code == Code.OK
    standing_by(daemon, started)


def test_precreate_hooks_get_them_too(node: Node, started: int) -> None:
    hooks = node.path / "hooks.d"
    hooks.mkdir()
    program = plugin(node, "edit", f"IFS= read -r line; echo $$ >>'{node.path}/pids'; printf '%s' \"$line\"")
    hook = {"version": "1.0.0", "hook": {"path": str(program)}, "when": {"always": True}, "stages": ["precreate"]}
    (hooks / "edit.json").write_text(json.dumps(hook))
    own = {"enabled": True, "directories": [str(hooks)], "precreate": True, "standby": 1}
    daemon = node.launch(hooks=own)
    before: list[int] = []
    for id_ in ("c1", "c2", "c3"):
        request = api.CreateContainerRequest(pod=POD, container=container(id_))
        assert daemon.call("CreateContainer", request).code == Code.OK
        assert not before or served_by(node)[-1:] == before
        before = standing_by(daemon, started)


@pytest.mark.deadline
def test_a_process_that_never_reads_is_answered_for_in_time(node: Node, started: int) -> None:
    plugin(node, "deaf", "echo >/dev/null; exec <&-; exec sleep 1000")
    node.configure("deaf", "good")
    daemon = node.launch({"standby": 1, "killOnTimeout": True, "onFailure": "ignore"})
    before = standing_by(daemon, started, 2)
    assert daemon.call("StartContainer", start("c1"), LATE).code == Code.OK
    daemon.logged("deaf: no result", "killed by signal 9")
    gone(*before)
    standing_by(daemon, started, 2)
    assert node.runs("good") == [("create", "c1")]


def test_the_status_tells_how_many_there_are_and_why_there_are_none(
    node: Node, started: int, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin(node, "hasty", "echo '{}'")
    plugin(node, "open", "read line; echo '{}'").chmod(0o777)
    node.configure("good", "hasty", "open")
    node.shared_state = "state"
    daemon = node.launch({**STANDBY, "onFailure": "ignore"})
    daemon.logged("hasty: stand-by is off")
    standing_by(daemon, started)
    assert daemon.call("StartContainer", start("c1")).code == Code.OK
    standing_by(daemon, started)
    (told,) = ask(str(node.path / "state"))
    reason = told["standby"]["hasty"]["off"]
    of_open = f"{node.bin}/open: {node.bin}/open is world-writable"
    assert told["standby"] == {
        "good": {"waiting": 1, "off": ""},
        "hasty": {"waiting": 0, "off": reason},
        "open": {"waiting": 0, "off": of_open},
    }
    daemon.logged(f"ERROR create of container default/web/c1 (c1): plugin: open: {of_open} (tolerated)")
    assert status.main(["-directory", str(node.path / "state")]) == 0
    shown = capsys.readouterr().out
    assert f"{'good':40}        1\n" in shown
    assert f"{'hasty':40}        0  off: {reason}" in shown
