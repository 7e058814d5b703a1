"""Programs that stand by for a running daemon: when they are there, when they are gone, and how events go with them."""

from __future__ import annotations

import json
import os
import signal

import pytest

from adapter.commands import status
from adapter.monitoring.status import ask
from adapter.nri import api
from adapter.wire import Code
from tests.processes import impatience, is_running

from .harness import COMMAND, LATE, POD, Daemon, Node, container, slow, start, stop

STANDBY = {"standby": 1}
NOTING = """cd '{0}'
IFS= read -r line
[ "$line" ] || {{ echo $$ >>empty; exit 1; }}
echo $$ >>pids
printf '%s\\n' "$line" >>good.requests
echo '{{}}'
"""


@pytest.fixture(autouse=True)
def noting(node: Node) -> None:
    """The plugin `good` notes its pid with its request, and a stdin without a request."""
    node.plugin("good", NOTING.format(node.path))
    node.configure("good")


def standing_by(daemon: Daemon, number: int = 1) -> list[int]:
    """Waits until the daemon has so many children; returns them."""
    with impatience(f"{number} processes stand by"):
        while len(found := daemon.children()) != number or "Z" in found.values():
            os.sched_yield()
    return sorted(found)


def served_by(node: Node) -> list[int]:
    """The processes of the plugin that have got a request."""
    return [int(pid) for pid in (node.path / "pids").read_text().split()]


def saw_an_empty_stdin(node: Node) -> list[int]:
    path = node.path / "empty"
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def wait_until_gone(pids: list[int]) -> None:
    with impatience(f"{pids} end"):
        while any(map(is_running, pids)):
            os.sched_yield()


def test_the_first_event_finds_a_process_and_so_does_each_that_follows(node: Node) -> None:
    daemon = node.launch(STANDBY)
    for id_ in ("c1", "c2"):
        for method, request in (("StartContainer", start(id_)), ("StopContainer", stop(id_))):
            (pid,) = standing_by(daemon)
            assert daemon.call(method, request).code == Code.OK
            assert served_by(node)[-1] == pid
    assert node.runs("good") == [(state, id_) for id_ in ("c1", "c2") for state in ("create", "delete")]


def test_without_it_nothing_is_started_ahead(node: Node) -> None:
    daemon = node.launch()
    node.still_serves(daemon)
    assert daemon.children() == {}


def test_a_plugin_has_its_own_number_of_processes(node: Node) -> None:
    node.plugin("other", node.record("other"))
    node.configure("good", "other", "absent")
    daemon = node.launch({"standby": 3, "plugins": {"other": {"standby": 0}, "absent": {"standby": 1}}})
    standing_by(daemon, 3)
    daemon.logged("registered with")
    assert not [line for line in daemon.log if "absent: " in line]


def test_a_plugin_that_conf_json_does_not_name_any_more_does_not_stand_by(node: Node) -> None:
    node.plugin("other", node.record("other"))
    node.configure("good", "other")
    daemon = node.launch(STANDBY)
    before = standing_by(daemon, 2)
    node.configure("other")
    assert daemon.call("StartContainer", start("c1")).code == Code.OK
    wait_until_gone(before)
    standing_by(daemon, 1)
    assert saw_an_empty_stdin(node) == []


def test_an_adapter_that_waits_has_none_until_it_takes_over(node: Node) -> None:
    node.shared_state = "state"
    first = node.launch(STANDBY)
    standing_by(first)
    second = node.launch(STANDBY)
    second.logged("this one waits")
    assert second.call("StartContainer", start("c1")).code == Code.OK
    assert second.children() == {}
    first.kill()
    first.ended()
    assert second.call("StartContainer", start("c2")).code == Code.OK
    standing_by(second)


def test_at_sigterm_all_are_killed_and_none_sees_an_empty_stdin(node: Node) -> None:
    daemon = node.launch({"standby": 5})
    pids = standing_by(daemon, 5)
    os.kill(daemon.pid, signal.SIGTERM)
    assert daemon.ended() == 0
    wait_until_gone(pids)
    assert saw_an_empty_stdin(node) == []


def test_an_event_under_way_at_sigterm_starts_no_more(node: Node) -> None:
    gate = node.gate()
    node.plugin("slow", f"IFS= read -r line; {gate.script}; echo '{{}}'")
    node.configure("slow", "good")
    daemon = node.launch(STANDBY)
    pids = standing_by(daemon, 2)
    call = daemon.send("StartContainer", start("c1"))
    gate.arrival()
    os.kill(daemon.pid, signal.SIGTERM)
    daemon.logged("ending on SIGTERM")
    (slow,) = standing_by(daemon, 1)
    assert slow in pids
    gate.let_on()
    assert daemon.reply(call).code == Code.OK
    assert daemon.ended() == 0
    assert node.runs("good") == [("create", "c1")]
    assert saw_an_empty_stdin(node) == []


def test_events_that_come_before_its_end_leave_none_behind(node: Node) -> None:
    """A late chain holds up the end, and the adapter serves what comes meanwhile."""
    gate = node.gate()
    slow(node, gate, when="c1")
    node.configure("slow", "good")
    daemon = node.launch({"standby": 1, "onFailure": "ignore"})
    standing_by(daemon, 2)
    assert daemon.call("StartContainer", start("c1"), LATE).code == Code.OK
    gate.arrival()
    daemon.signal(signal.SIGTERM)
    daemon.logged("ending on SIGTERM")
    assert daemon.call("StartContainer", start("c2")).code == Code.OK
    waiting = standing_by(daemon, 3)  # and the late one
    gate.let_on()
    assert daemon.ended() == 0
    wait_until_gone(waiting)
    assert sorted(node.runs("good")) == [("create", "c1"), ("create", "c2")]
    assert saw_an_empty_stdin(node) == []


def test_while_an_event_is_under_way_nothing_is_started(node: Node) -> None:
    gate = node.gate()
    node.plugin("slow", f"IFS= read -r line; {gate.script}; echo '{{}}'")
    node.configure("slow", "good")
    node.shared_state = "state"
    daemon = node.launch(STANDBY)
    standing_by(daemon, 2)
    call = daemon.send("StartContainer", start("c1"))
    gate.arrival()
    (told,) = ask(str(node.path / "state"))
    assert {name: crew["waiting"] for name, crew in told["standby"].items()} == {"slow": 0, "good": 1}
    gate.let_on()
    assert daemon.reply(call).code == Code.OK
    standing_by(daemon, 2)


def test_when_the_server_is_killed_they_see_an_empty_stdin_and_make_no_create(node: Node) -> None:
    daemon = node.launch({"standby": 3}, by_process=True)
    assert daemon.call("StartContainer", start("c1")).code == Code.OK
    pids = standing_by(daemon, 3)
    os.kill(daemon.server, signal.SIGKILL)
    wait_until_gone(pids)
    assert set(saw_an_empty_stdin(node)) == set(pids)
    assert node.runs("good") == [("create", "c1")]


def test_sighup_replaces_them(node: Node) -> None:
    config = node.path / "adapter.yaml"
    config.write_text(node.settings(STANDBY))
    daemon = node.spawn([COMMAND, "-config", config]).handshake()
    (before,) = standing_by(daemon)
    os.kill(daemon.server, signal.SIGHUP)
    daemon.logged("SIGHUP")
    wait_until_gone([before])
    standing_by(daemon)
    assert saw_an_empty_stdin(node) == []


def test_a_sighup_before_the_settings_have_come_changes_nothing(node: Node) -> None:
    daemon = node.spawn()
    daemon.registration()
    os.kill(daemon.server, signal.SIGHUP)
    daemon.logged("SIGHUP")
    daemon.configure(node.settings(STANDBY))
    assert daemon.call("Synchronize", api.SynchronizeRequest()).code == Code.OK
    standing_by(daemon)


def test_the_plugins_own_events_get_them_too(node: Node) -> None:
    daemon = node.launch({"plugins": {"good": {"standby": 1, "events": ["CreateContainer"]}}})
    (pid,) = standing_by(daemon)
    request = api.CreateContainerRequest(pod=POD, container=container("c1"))
    assert daemon.call("CreateContainer", request).code == Code.OK
    assert served_by(node) == [pid]


def test_precreate_hooks_get_them_too(node: Node) -> None:
    hooks = node.path / "hooks.d"
    hooks.mkdir()
    program = node.plugin("edit", f"IFS= read -r line; echo $$ >>'{node.path}/pids'; printf '%s' \"$line\"")
    hook = {"version": "1.0.0", "hook": {"path": str(program)}, "when": {"always": True}, "stages": ["precreate"]}
    (hooks / "edit.json").write_text(json.dumps(hook))
    own = {"enabled": True, "directories": [str(hooks)], "precreate": True, "standby": 1}
    daemon = node.launch(hooks=own)
    before: list[int] = []
    for id_ in ("c1", "c2", "c3"):
        request = api.CreateContainerRequest(pod=POD, container=container(id_))
        assert daemon.call("CreateContainer", request).code == Code.OK
        assert not before or served_by(node)[-1:] == before
        before = standing_by(daemon)


@pytest.mark.parametrize("deaf", ["exec sleep 1000", "echo >/dev/null; exec <&-; exec sleep 1000"])
def test_a_process_that_never_reads_is_answered_for_in_time(node: Node, deaf: str) -> None:
    node.plugin("deaf", deaf)
    node.configure("deaf", "good")
    daemon = node.launch({"standby": 1, "killOnTimeout": True, "onFailure": "ignore"})
    before = standing_by(daemon, 2)
    assert daemon.call("StartContainer", start("c1"), LATE).code == Code.OK
    daemon.logged("deaf: no result", "killed by signal 9")
    wait_until_gone(before)
    standing_by(daemon, 2)
    assert node.runs("good") == [("create", "c1")]


def test_a_child_that_holds_the_pipes_holds_nobody_up(node: Node) -> None:
    node.plugin("leaves", "IFS= read -r line; sleep 1000 & echo $! >&2; echo '{}'")
    node.configure("leaves", "good")
    daemon = node.launch(STANDBY)
    standing_by(daemon, 2)
    assert daemon.call("StartContainer", start("c1")).code == Code.OK
    os.kill(int(daemon.logged("leaves: stderr:").split()[-1]), signal.SIGKILL)
    assert node.runs("good") == [("create", "c1")]


def test_the_status_tells_how_many_there_are_and_why_there_are_none(node: Node) -> None:
    node.plugin("hasty", "echo '{}'")
    node.plugin("open", "read line; echo '{}'").chmod(0o777)
    node.configure("good", "hasty", "open")
    node.shared_state = "state"
    daemon = node.launch({**STANDBY, "onFailure": "ignore"})
    daemon.logged("hasty: stand-by is off")
    standing_by(daemon)
    assert daemon.call("StartContainer", start("c1")).code == Code.OK
    standing_by(daemon)
    (told,) = ask(str(node.path / "state"))
    reason = told["standby"]["hasty"]["off"]
    of_open = f"{node.bin}/open: {node.bin}/open is world-writable"
    assert told["standby"] == {
        "good": {"waiting": 1, "off": ""},
        "hasty": {"waiting": 0, "off": reason},
        "open": {"waiting": 0, "off": of_open},
    }
    daemon.logged(f"ERROR create of container default/web/c1 (c1): plugin: open: {of_open} (tolerated)")
    shown = status._text(told)
    assert f"{'good':40}        1\n" in shown
    assert f"{'hasty':40}        0  off: {reason}" in shown
