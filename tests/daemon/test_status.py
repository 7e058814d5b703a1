"""The command `status` and what it asks: how a running adapter is."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from inotify_simple import INotify, flags  # type: ignore[import-untyped]

from adapter.cli import command_line as cli
from adapter.cli import status
from adapter.errors import ConfigError
from adapter.wire import Code
from tests.processes import impatience

from .harness import Node
from .messages import start, stop
from .process import COMMAND, SAFETY, Daemon

Told = Callable[[], tuple[int, list[dict[str, Any]]]]


class Asked(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Ask = Callable[..., Asked]


@pytest.fixture
def asked(node: Node, capsys: pytest.CaptureFixture[str]) -> Ask:
    (node.path / "none.yaml").write_text("")
    places = ["-directory", str(node.path / "state"), "-config", str(node.path / "none.yaml")]

    def ask(*options: str) -> Asked:
        capsys.readouterr()
        return Asked(cli.main(["status", *places, *options]), *capsys.readouterr())

    return ask


@pytest.fixture
def told(asked: Ask) -> Told:
    def tell() -> tuple[int, list[dict[str, Any]]]:
        done = asked("-o", "json")
        return done.returncode, json.loads(done.stdout)["adapters"]

    return tell


def joined(node: Node) -> Daemon:
    node.shared_state = "state"
    daemon = node.launch()
    assert daemon.call("CreateContainer").code == Code.OK  # its status socket is there by now
    return daemon


def test_it_shows_the_runtime_what_is_owed_and_the_runs_of_programs(node: Node, told: Told, asked: Ask) -> None:
    node.plugin("bad", 'echo \'{"error": "broken\\u001b[31m"}\'')
    node.configure("good", "bad")
    daemon = joined(node)
    assert daemon.call("StartContainer", start("c1")).code == Code.UNKNOWN
    code, [adapter] = told()
    assert code == 0
    assert (adapter["pid"], adapter["owner"], adapter["owed"], adapter["state"]) == (daemon.server, True, 1, "joined")
    assert adapter["runtime"] == {"name": "test", "version": "v1.0.0", "nri": "0.12.5"}
    assert adapter["programs"]["good"]["runs"] == adapter["programs"]["bad"]["failures"] == 1
    assert {name: sum(event["times"]["counts"]) for name, event in adapter["events"].items()} == {
        **dict.fromkeys(("Configure", "Synchronize", "CreateContainer", "StartContainer"), 1)
    }
    good, bad = (adapter["programs"][name] for name in ("good", "bad"))
    assert list(good["times"]) == ["done"]
    assert list(bad["times"]) == ["failed"]
    assert 0 < good["p50"] <= good["p99"] <= adapter["events"]["StartContainer"]["p99"]
    assert adapter["faults"] == []
    text = asked().stdout
    assert re.search(r"^  good +1 +0 +0 +0 +<[0-9.]+ +<[0-9.]+$", text, re.MULTILINE)
    assert "serves the events" in text
    assert "broken" in text
    assert "\x1b" not in text
    assert daemon.call("StopContainer", stop("c1")).code == Code.OK
    assert told()[1][0]["owed"] == 0


def test_it_notes_who_runs_plugins_for_pods_and_what_has_no_effect(node: Node, told: Told, asked: Ask) -> None:
    """The runtime is this process: a containerd that nobody has measured, and an executable without the path."""
    own = node.path / "root/etc/nri/conf.json"
    own.parent.mkdir(parents=True)
    os.link(node.conf_json, own)
    node.shared_state = "state"
    no_effect = ["runtime.failRequest has no effect"]
    for fails, nri, without_effect in ((True, "v0.12.4", []), (True, "v0.12.3", no_effect), (False, "v0.12.3", [])):
        settings = node.settings({"sandboxes": "auto"}, hostRoot=f"{node.path}/root", runtime={"failRequest": fails})
        daemon = node.spawn()
        daemon.registration()
        daemon.configure(settings, "containerd", "2.5.0", nri)
        assert daemon.call("Synchronize").code == Code.OK
        assert daemon.call("CreateContainer").code == Code.OK
        code, [adapter] = told()
        pods = "plugins for pods are run by the adapter: the executable of containerd 2.5.0 does not contain"
        said = [*without_effect, f"{pods} /etc/nri/conf.json"]
        assert (code, [note.partition(":")[0] for note in adapter["notes"]]) == (0, [s.partition(":")[0] for s in said])
        for line in said:
            assert line in asked().stdout
            daemon.logged(line)
        daemon.kill()
        daemon.ended()


def test_with_watch_it_looks_again_until_it_is_interrupted(node: Node) -> None:
    node.configure("good")
    daemon = joined(node)
    command = [str(COMMAND), "status", "-watch", "-directory", str(node.path / "state")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        with impatience("it does not look again", seconds=60):
            while "CreateContainer" not in watching.stdout.readline():
                pass
            assert daemon.call("StartContainer", start("c1")).code == Code.OK
            while not watching.stdout.readline().startswith("  good "):
                pass
        watching.send_signal(signal.SIGINT)
        rest = watching.communicate(timeout=60)
    assert (watching.returncode, rest[1]) == (130, "v010-adapter: interrupted\n")


def test_a_broken_conf_json_is_a_fault_that_says_whether_the_last_good_version_is_in_force(
    node: Node, told: Told, asked: Ask
) -> None:
    node.write_conf("{")
    node.shared_state = "state"
    daemon = node.launch(unheard=1)
    assert daemon.call("StartContainer", start("c1")).code == Code.UNKNOWN
    code, [adapter] = told()
    assert code == 1
    assert adapter["faults"].pop(0 if "unheard: unknown key" in adapter["faults"][0] else 1)
    assert adapter["faults"][0].startswith(f"{node.conf_json}:1: unexpected end; no plugin can run")
    assert "FAULT" in asked().stdout
    node.configure("good")
    assert daemon.call("StartContainer", start("c2")).code == Code.OK
    node.write_conf("{")
    assert daemon.call("StartContainer", start("c3")).code == Code.OK
    assert f"{node.conf_json}:1: unexpected end; the last good version stays in force" in told()[1][0]["faults"]


def test_hooks_in_force_are_shown_before_a_container_gets_them(node: Node, told: Told) -> None:
    hooks = node.path / "hooks.d"
    hooks.mkdir()
    hook = {"version": "1.0.0", "hook": {"path": "/bin/true"}, "stages": ["poststop"]}
    for name, condition in (("all", {"always": True}), ("none", {"commands": ["^$"]})):
        (hooks / f"{name}.json").write_text(json.dumps({**hook, "when": condition}))
    node.shared_state = "state"
    daemon = node.launch(hooks={"enabled": True, "directories": [str(hooks)]})
    assert daemon.call("CreateContainer").code == Code.OK
    daemon.logged("hooks for container")
    _, [adapter] = told()
    assert adapter["hooks"] == {f"{hooks}/all.json": 1, f"{hooks}/none.json": 0}


def test_an_adapter_without_a_runtime_does_not_claim_that_another_serves(node: Node, asked: Ask) -> None:
    node.shared_state = "state"
    (node.path / "state").mkdir()
    with INotify() as created:
        created.add_watch(node.path / "state", flags.CREATE | flags.MOVED_TO)
        daemon = node.external("-idx", "00", "-socket", node.path / "no.sock")
        daemon.logged("keeps trying to join")
        while not sockets(node):
            assert created.read(SAFETY * 1000), "there is no status socket"
    daemon.signal(signal.SIGHUP)
    daemon.logged("SIGHUP")  # it listens by now
    text = asked().stdout
    assert f"pid {daemon.server}, since" in text.splitlines()[0]
    assert text.splitlines()[0].endswith(": serves no events")
    assert "runtime " not in text.partition("FAULT")[0]
    assert f"FAULT    not joined with a runtime: no runtime at {node.path}/no.sock: No such file or directory" in text


def test_a_status_that_cannot_be_asked_for_is_logged_once(node: Node, tmp_path: Path) -> None:
    node.shared_state = "file/state"
    (tmp_path / "file").write_text("")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "nri.sock"))
        listener.listen()
        daemon = node.external("-idx", "00", "-socket", tmp_path / "nri.sock", listener=listener)
        for _ in range(2):
            daemon.handshake(node.settings())
            assert daemon.call("CreateContainer").code == Code.OK
            daemon.hang_up()
            daemon.accept(listener)
    lines = [line for line in daemon.log if "`status` cannot ask" in line]
    assert [line.partition("ERROR ")[2] for line in lines] == [
        f"{tmp_path}/file/state: Not a directory: `status` cannot ask this adapter"
    ]


def test_an_adapter_of_another_version_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answer() -> None:
        with listener.accept()[0] as asker:
            asker.sendall(b'{"pid": 7, "version": "9.0", "faults": []}')

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "status-1"))
        listener.listen()
        adapter = threading.Thread(target=answer)
        adapter.start()
        assert status.main(["-directory", str(tmp_path)]) == 0
        adapter.join()
    assert capsys.readouterr().out.startswith("v010-adapter 9.0, pid 7: another version than this command's")


def test_without_an_adapter_it_says_where_to_look(node: Node, asked: Ask) -> None:
    done = asked()
    assert done.returncode == 3
    assert done.stdout == ""
    assert f"no adapter runs with the state directory {node.path}/state" in done.stderr
    assert "v010-adapter check" in done.stderr


def test_the_socket_of_a_killed_adapter_is_removed_and_that_of_another_stays(node: Node, told: Told) -> None:
    first, waiting = joined(node), joined(node)
    assert sorted(adapter["owner"] for adapter in told()[1]) == [False, True]
    waiting.signal(signal.SIGTERM)
    waiting.ended()
    first.kill()
    second = joined(node)
    assert [adapter["pid"] for adapter in told()[1]] == [second.server]
    assert len(sockets(node)) == 1
    os.kill(second.pid, signal.SIGTERM)
    assert second.ended() == 0
    assert sockets(node) == []


def test_the_state_directory_may_have_a_long_path_and_only_root_may_ask(node: Node, asked: Ask) -> None:
    node.shared_state = f"{'long' * 30}/{'longer' * 30}"
    daemon = node.launch()
    assert daemon.call("CreateContainer").code == Code.OK
    assert asked("-directory", str(node.path / node.shared_state))[::2] == (0, "")
    [path] = (node.path / node.shared_state).glob("status-*")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_directory_or_a_configuration_that_cannot_be_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that no adapter runs: only root may look into the directory."""

    def refuse(path: str) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        status.main(["-config", str(tmp_path / "none.yaml")])
    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(ConfigError, match=f"{tmp_path}: Permission denied"):
        status.main(["-directory", str(tmp_path)])


def sockets(node: Node) -> list[Path]:
    return list((node.path / "state").glob("status-*"))
