"""The command `status` and what it asks: how a running adapter is."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from nri.wire import Code

from ..rig.daemon import COMMAND, Daemon
from ..rig.machine import Machine, start, stop
from ..rig.waiting import limit, running, until
from .conftest import Ask

JSON = "-o", "json"


def without_runtime(node: Machine, *words: str | Path) -> Daemon:
    """Starts an adapter for which there is no runtime; it can be asked."""
    daemon = node.external("-socket", node.path / "no.sock", *words)
    daemon.logged("keeps trying to join")
    until(lambda: sockets(node), "there is no status socket")
    daemon.signal(signal.SIGHUP)
    daemon.logged("SIGHUP: the configuration has been read again")  # it listens by now
    return daemon


def joined(node: Machine) -> Daemon:
    daemon = node.launch()
    daemon.serves("CreateContainer")  # its status socket is there by now
    return daemon


def sockets(node: Machine) -> list[Path]:
    return list((node.path / "state").glob("status-*"))


def test_it_shows_the_runtime_what_is_owed_and_the_runs_of_programs(node: Machine, asked: Ask) -> None:
    node.plugin("bad", 'echo \'{"error": "broken\\u001b[31m"}\'')
    node.configure("good", "bad")
    daemon = joined(node)
    assert daemon.call(start("c1")).code == Code.UNKNOWN
    told = asked(*JSON)
    adapter = told.adapter
    assert (told.code, adapter["faults"]) == (0, [])
    assert (adapter["pid"], adapter["serves"], adapter["owed"], adapter["state"]) == (daemon.server, True, 1, "joined")
    assert adapter["started"] <= adapter["joined"] <= time.time()
    assert adapter["runtime"] == {"name": "test", "version": "v1.0.0", "nri": "0.12.5"}
    assert {name: sum(event["times"]["counts"]) for name, event in adapter["events"].items()} == {
        **dict.fromkeys(("Configure", "Synchronize", "CreateContainer", "StartContainer"), 1)
    }
    good, bad = (adapter["programs"][name] for name in ("good", "bad"))
    assert good["runs"] == bad["failures"] == 1
    assert good["failed_at"] == 0 < adapter["started"] <= bad["failed_at"]
    assert (list(good["times"]), list(bad["times"])) == (["done"], ["failed"])
    assert 0 < good["p50"] <= good["p99"] <= adapter["events"]["StartContainer"]["p99"]
    text = asked().stdout
    assert re.search(r"^  good +1 +0 +0 +0 +<[0-9.]+ +<[0-9.]+$", text, re.MULTILINE)
    assert "serves the events" in text
    assert "broken" in text
    assert "\x1b" not in text
    daemon.serves(stop("c1"))
    assert asked(*JSON).adapter["owed"] == 0


def test_with_watch_it_looks_again_until_it_is_interrupted(node: Machine, asked: Ask) -> None:
    node.configure("good")
    daemon = joined(node)
    command = [str(COMMAND), "status", "-watch", "-directory", str(node.path / "state")]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        with limit("it does not look again"):
            assert next(line for line in watching.stdout if "CreateContainer" in line)
            daemon.serves(start("c1"))
            assert next(line for line in watching.stdout if line.startswith("  good "))
        watching.send_signal(signal.SIGINT)
        with limit("it does not end"):
            rest = watching.communicate()
    assert (watching.returncode, rest[1]) == (130, "v010-adapter: interrupted\n")


def test_a_broken_conf_json_is_a_fault_that_says_which_version_is_in_force(node: Machine, asked: Ask) -> None:
    node.write_conf("{")
    daemon = node.launch(unheard=1)
    assert daemon.call(start("c1")).code == Code.UNKNOWN
    told = asked(*JSON)
    unknown, broken = sorted(told.adapter["faults"], key=lambda fault: "unheard: unknown key" not in fault)
    assert (told.code, "unheard: unknown key" in unknown) == (1, True)
    assert broken.startswith(f"{node.conf_json}:1:2: unexpected end; no plugin can run")
    assert "FAULT" in asked().stdout
    node.configure("good")
    daemon.serves(start("c2"))
    node.write_conf("{")
    daemon.serves(start("c3"))
    assert (
        f"{node.conf_json}:1:2: unexpected end; the last good version stays in force" in asked(*JSON).adapter["faults"]
    )


def test_an_adapter_without_a_runtime_does_not_claim_that_another_serves(node: Machine, asked: Ask) -> None:
    daemon = without_runtime(node)
    text = asked().stdout
    first = text.splitlines()[0]
    assert (f"pid {daemon.server}, since" in first, first.endswith(": serves no events")) == (True, True)
    assert "runtime " not in text.partition("FAULT")[0]
    assert f"FAULT    not joined with a runtime: no runtime at {node.path}/no.sock: No such file or directory" in text


def test_the_socket_of_a_killed_adapter_is_removed_and_that_of_another_stays(node: Machine, asked: Ask) -> None:
    first, waiting = joined(node), joined(node)
    told = json.loads(asked(*JSON).stdout)["adapters"]
    assert sorted(adapter["serves"] for adapter in told) == [False, True]
    waiting.end()
    first.kill()
    second = joined(node)
    assert asked(*JSON).adapter["pid"] == second.server
    assert len(sockets(node)) == 1
    second.end()
    assert sockets(node) == []


def test_the_state_directory_may_have_a_long_path_and_only_root_may_ask(node: Machine, asked: Ask) -> None:
    node.shared_state = f"{'long' * 30}/{'longer' * 30}"
    node.launch().serves("CreateContainer")
    done = asked("-directory", str(node.path / node.shared_state))
    assert (done.code, done.stderr) == (0, "")
    [path] = (node.path / node.shared_state).glob("status-*")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_tells_what_stands_by_and_which_hooks_were_injected(node: Machine, asked: Ask) -> None:
    hooks = {"enabled": True, "directories": [str(node.hook("all", "/bin/true", "poststop"))]}
    daemon = node.launch({"plugins": {"good": {"standby": 1}}}, hooks=hooks)
    node.configure("good")
    daemon.serves("CreateContainer", start("c1"))
    told = asked(*JSON).adapter
    assert ([*told["standby"]], [*told["hooks"].values()]) == (["good"], [1])
    assert re.search(r"^  good +[01]( +off: .*)?$", asked().stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "script",
    {
        "echoed": "cat; exit 1",
        "echoed after a word": "echo got; cat",
        "to stderr": "cat >&2; exit 1",
        "traced": "set -x; read -r line; exit 1",
        "of another type": "read -r line; printf '[%s]' \"$line\"",
    }.values(),
)
def test_a_secret_of_conf_json_that_a_plugin_prints_is_in_no_answer_no_status_and_no_usual_log(
    node: Machine, asked: Ask, script: str
) -> None:
    """A pod's author reads the answer, and others than root the log. At the level debug, it is in the log."""
    node.plugin("leaks", f"{script}\n")
    node.write_conf(json.dumps({"version": "0.1", "plugins": [{"type": "leaks", "conf": {"token": "s3cret"}}]}))
    for level in ("info", "debug"):
        daemon = node.launch(log={"level": level})
        reply = daemon.call(start("c1"))
        daemon.call(stop("c1"))
        daemon.logged("delete of container default/web/c1 (c1)") if reply.code != Code.OK else None
        told = [reply.message, asked(*JSON).stdout, asked().stdout]
        assert not any("s3cret" in text for text in told), told
        daemon.end()
        assert any("s3cret" in line for line in daemon.log) is (level == "debug")


def test_it_tells_what_of_the_configuration_file_needs_a_restart(node: Machine, asked: Ask) -> None:
    config = node.file({"config": str(node.conf_json)})
    daemon = without_runtime(node, "-config", config)

    def notes() -> list[str]:
        return [note for note in asked(*JSON).adapter["notes"] if "restart" in note]

    assert notes() == []
    config.write_text(config.read_text() + "\n")
    assert notes() == [f"restart needed: {config} has changed since it was read (SIGHUP says what needs the restart)"]
    node.file({"config": str(node.conf_json), "timeout": 5})
    daemon.signal(signal.SIGHUP)
    daemon.logged("a restart is needed for legacy")
    assert notes() == [f"restart needed for legacy: {config} has other values"]
    assert "  note     restart needed for legacy" in asked().stdout


def test_links_of_conf_json_that_lead_nowhere_are_a_fault_of_the_node_and_not_of_the_socket(
    node: Machine, asked: Ask
) -> None:
    """As in a container, below whose root are the node's files."""
    link = node.path / "host" / "etc" / "nri" / "conf.json"
    link.parent.mkdir(parents=True)
    link.symlink_to("conf.json")
    node.configure("good")
    node.launch({"sandboxes": "auto"}, hostRoot=str(node.path / "host")).serves("CreateContainer")
    for _ in range(2):
        assert asked(*JSON).adapter["state"] == "joined"
    link.unlink()
    assert asked(*JSON).code == 0
