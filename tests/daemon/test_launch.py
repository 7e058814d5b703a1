"""How the command starts: launched by a runtime or by hand, and how it is told that it may not."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from adapter.nri import api
from adapter.wire import Code

from .harness import POD, Node, container, launched, patched, start
from .process import COMMAND

THE_SIX = 0b110_0010_0111
"""Bit N-1 for RunPodSandbox 1, Stop- and RemovePodSandbox 2, 3, StartContainer 6, Stop- and RemoveContainer 10, 11."""


# ---- launched


def test_launched_as_a_symlink_it_registers_as_the_environment_says_and_serves(node: Node) -> None:
    link = node.path / "07-legacy"
    link.symlink_to(COMMAND)
    for environ in (launched("legacy", "07"), {"NRI_PLUGIN_SOCKET": "3"}):  # else it is what its file is called
        daemon = node.spawn([link], environ)
        registration = daemon.registration()
        assert (registration.plugin_name, registration.plugin_idx) == ("legacy", "07")
        assert registration.NRI_version == "v0.12.5"
    daemon.configure(node.settings())
    daemon.serves("Synchronize")
    node.still_serves(daemon)


@pytest.mark.parametrize("with_", ["everything on /dev/null", "nothing open", "a directory that is gone"])
def test_it_starts(node: Node, monkeypatch: pytest.MonkeyPatch, with_: str) -> None:
    """An administrator's `<&- >&- 2>&-`: no file or socket of ours may then become a plugin's stdin, or our stderr."""
    closing: list[str | Path] = ["/bin/sh", "-c", 'exec "$0" <&- >&- 2>&-', COMMAND]
    if with_ == "a directory that is gone":
        gone = node.path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
    daemon = node.spawn(closing if with_ == "nothing open" else [COMMAND], stderr="null", fresh=True)
    monkeypatch.undo()
    node.still_serves(daemon.handshake(node.settings()))


def test_the_answer_to_configure_asks_for_the_six_legacy_events_also_without_plugins_and_to_be_kept(node: Node) -> None:
    node.conf_json.unlink()
    for fail in (None, True, False):
        settings = node.settings() if fail is None else node.settings(runtime={"failRequest": fail})
        policy = api.FailurePolicy(keep_connected=True, fail_request=bool(fail))
        daemon = node.spawn().handshake(settings)
        assert daemon.configured == api.ConfigureResponse(events=THE_SIX, failure_policy=policy)


def test_events_of_runtimes_before_nri_0_12_run_the_same_plugins_and_deletes_come_once(node: Node) -> None:
    node.configure("good")
    daemon, ctr = node.launch(), container("ctr")
    pods = {api.RUN_POD_SANDBOX, api.STOP_POD_SANDBOX, api.REMOVE_POD_SANDBOX}
    for event in (
        *(api.RUN_POD_SANDBOX, api.CREATE_CONTAINER, api.START_CONTAINER, api.POST_START_CONTAINER),
        *(api.STOP_POD_SANDBOX, api.STOP_POD_SANDBOX, api.REMOVE_CONTAINER, api.REMOVE_POD_SANDBOX),
    ):
        daemon.serves(api.StateChangeEvent(event=event, pod=POD, container=None if event in pods else ctr))
    assert node.runs() == [("create", "pod-1"), ("create", "ctr"), ("delete", "pod-1"), ("delete", "ctr")]


# ---- started by hand


@pytest.mark.parametrize("words", [("-verbose", "-idx", "33", "-name", "mine"), ("run", "--idx=33", "--name=mine")])
def test_by_hand_it_registers_as_the_flags_say_and_serves(
    node: Node, listener: socket.socket, words: tuple[str, ...]
) -> None:
    is_fresh = words[0] == "run"
    place = [f"--socket-path={node.path}/nri.sock"] if is_fresh else []
    daemon = node.external(*words, *place, listener=listener, fresh=is_fresh)
    registration = daemon.registration()
    assert (registration.plugin_name, registration.plugin_idx) == ("mine", "33")
    daemon.configure()
    assert daemon.configured.events == THE_SIX
    daemon.serves("Synchronize")
    node.still_serves(daemon)
    if not is_fresh:
        line = daemon.logged("DEBUG", "create of container default/web/proof-1 (proof-1): good: done", "result: {}")
        assert '"id": "proof-1"' in line


# ---- not wanted


def test_a_refused_registration_is_one_line_that_names_plugin_and_reason_and_exit_code_1(node: Node) -> None:
    daemon = node.spawn(environ=launched("legacy", "07"))
    daemon.answer(daemon.request(), Code.UNKNOWN, "index 07 is taken")
    assert daemon.ended() == 1
    (line,) = daemon.log
    assert line.endswith(" ERROR the runtime refused plugin 07-legacy: index 07 is taken")


def test_with_a_runtime_that_goes_before_it_accepts_the_plugin_it_ends(node: Node) -> None:
    daemon = node.spawn(by_process=True)
    daemon.request()
    daemon.end_runtime()
    assert daemon.ended() == 0


def test_a_runtime_that_takes_its_time_to_configure_it_is_logged(node: Node) -> None:
    daemon = node.spawn(patched("daemon.REMINDER = 0.01"))
    daemon.registration()
    daemon.logged("INFO the runtime has not configured and synchronized the adapter yet")


def test_what_is_wrong_in_the_environment_is_named(node: Node) -> None:
    for text, reason in (("", ""), ("three", ""), ("97", "Bad file descriptor"), ("0", "not a socket"), ("9" * 20, "")):
        daemon = node.spawn(environ=launched(fd=text))
        assert daemon.ended() == 1
        (line,) = daemon.log
        assert line.startswith(f"v010-adapter: NRI_PLUGIN_SOCKET={text}: ")
        assert reason in line
    for idx in ("7", "007", "x7", "-1"):
        daemon = node.spawn(environ=launched(idx=idx))
        assert daemon.ended() == 2
        assert daemon.log == [f"v010-adapter: NRI_PLUGIN_IDX: plugin index '{idx}': two digits, 00 to 99"]
        assert daemon.calls == [], "nothing is connected"


# ---- what the programs that it runs find


def test_what_the_programs_that_it_runs_find(node: Node) -> None:
    """By a daemon that was launched with two stray descriptors; tests/process has the rest."""
    look = f"ls -l /proc/$$/fd >'{node.path}/fds'; readlink /proc/$$/cwd >'{node.path}/cwd'"
    told = f"cat /proc/$$/environ >'{node.path}/environ'; {look}; cat >/dev/null; echo 'so be it' >&2; echo '{{}}'"
    node.plugin("witness", told)
    node.configure("witness")
    with (node.path / "stray").open("w") as stray:
        daemon = node.spawn(stray={7: stray.fileno(), 300: stray.fileno()}, fresh=True)
    daemon.handshake(node.settings({"environment": {"EXTRA": "given"}}))
    daemon.serves(start("ctr"))
    daemon.logged("INFO witness: stderr: so be it")
    lines = (node.path / "fds").read_text().splitlines()[1:]
    targets = {line.split()[-3]: line.split()[-1] for line in lines}
    # Dash keeps the script open as 10, and its stdout as 11 while that goes to our file.
    assert set(targets) - {"10", "11"} == {"0", "1", "2"}
    pipes = {target for target in targets.values() if target.startswith("pipe:")}
    assert set(targets.values()) - pipes <= {str(node.bin / "witness"), str(node.path / "fds")}
    assert len(pipes) == 3
    assert dict(pair.split("=", 1) for pair in (node.path / "environ").read_text().split("\0") if pair) == {
        "PATH": f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{node.bin}",
        "EXTRA": "given",
    }
    assert (node.path / "cwd").read_text() == "/\n"
    assert os.readlink(f"/proc/{daemon.server}/cwd") == "/", "the daemon has left its directory, too"
