"""How the command starts: launched by a runtime or by hand, and how it is told that it may not."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapter.nri import api
from adapter.wire import Code

from .conftest import opened
from .harness import COMMAND, POD, Daemon, Node, container, launched, start, stop

THE_SIX = 0b110_0010_0111
"""Bit N-1 for RunPodSandbox 1, Stop- and RemovePodSandbox 2, 3, StartContainer 6, Stop- and RemoveContainer 10, 11."""


# ---- launched


def test_launched_as_a_symlink_it_registers_as_the_environment_says_and_serves(node: Node) -> None:
    link = node.path / "07-legacy"
    link.symlink_to(COMMAND)
    daemon = node.spawn([link], launched("legacy", "07"))
    assert daemon.registration() == api.RegisterPluginRequest(
        plugin_name="legacy", plugin_idx="07", NRI_version="v0.12.5"
    )
    daemon.configure(node.settings())
    assert daemon.call("Synchronize").code == Code.OK
    node.still_serves(daemon)


def test_launched_with_nothing_but_the_socket_it_is_what_its_file_is_called(node: Node) -> None:
    link = node.path / "42-legacy"
    link.symlink_to(COMMAND)
    registration = node.spawn([link], {"NRI_PLUGIN_SOCKET": "3"}).registration()
    assert (registration.plugin_name, registration.plugin_idx) == ("legacy", "42")


def test_it_starts_with_everything_on_dev_null(node: Node) -> None:
    daemon = node.spawn(stderr="null").handshake(node.settings())
    node.still_serves(daemon)


def test_it_starts_with_descriptors_0_to_2_closed(node: Node) -> None:
    """An administrator's `<&- >&- 2>&-`: no file or socket of ours may then become a plugin's stdin, or our stderr."""
    closing: list[str | Path] = ["/bin/sh", "-c", 'exec "$0" <&- >&- 2>&-', COMMAND]
    daemon = node.spawn(closing, stderr="null").handshake(node.settings())
    node.still_serves(daemon)


def test_it_starts_in_a_directory_that_cannot_be_read(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = node.path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    daemon = node.spawn()
    monkeypatch.undo()
    node.still_serves(daemon.handshake(node.settings()))


def test_the_answer_to_configure_asks_for_the_six_legacy_events_and_to_be_kept(node: Node) -> None:
    daemon = node.spawn()
    daemon.registration()
    assert daemon.configure(node.settings()) == api.ConfigureResponse(
        events=THE_SIX, failure_policy=api.FailurePolicy(keep_connected=True, fail_request=False)
    )


def test_the_six_events_are_asked_for_without_any_plugin_too_for_conf_json_may_be_filled_later(node: Node) -> None:
    node.conf_json.unlink()
    daemon = node.spawn()
    daemon.registration()
    assert daemon.configure(node.settings()).events == THE_SIX
    assert daemon.call("Synchronize").code == Code.OK
    node.still_serves(daemon)


@pytest.mark.parametrize("fail", [True, False])
def test_whether_requests_shall_fail_if_it_should_ever_not_answer_is_configured(node: Node, fail: bool) -> None:
    daemon = node.spawn()
    daemon.registration()
    policy = daemon.configure(node.settings(runtime={"failRequest": fail})).failure_policy
    assert (policy.keep_connected, policy.fail_request) == (True, fail)


def test_it_serves_what_the_runtime_asks_before_it_answers_the_registration(node: Node) -> None:
    daemon = node.spawn()
    registration = daemon.request()
    daemon.configure(node.settings())
    assert daemon.call("Synchronize").code == Code.OK
    node.still_serves(daemon)
    daemon.answer(registration)
    node.still_serves(daemon)


def test_events_of_runtimes_before_nri_0_12_run_the_same_plugins(shared: Daemon, shared_node: Node) -> None:
    shared_node.configure("good")
    ctr = container("ctr")
    for event, of in (
        (api.RUN_POD_SANDBOX, None),
        (api.CREATE_CONTAINER, ctr),
        (api.START_CONTAINER, ctr),
        (api.POST_START_CONTAINER, ctr),
        (api.STOP_POD_SANDBOX, None),
        (api.REMOVE_CONTAINER, ctr),
        (api.REMOVE_POD_SANDBOX, None),
    ):
        assert shared.changed(event, POD, of).code == Code.OK
    expected = [("create", "pod-1"), ("create", "ctr"), ("delete", "pod-1"), ("delete", "ctr")]
    assert shared_node.runs("good") == expected
    shared_node.still_serves(shared)


# ---- started by hand


@pytest.mark.parametrize(
    "flags",
    [
        ("-idx", "33", "-name", "mine", "-socket"),
        ("--idx", "33", "--name", "mine", "--socket"),
        ("-idx=33", "--name=mine", "-socket-path"),
        ("run", "-idx", "33", "-name", "mine", "--socket-path"),
    ],
    ids=["one dash", "two dashes", "upstream's other name", "the command by its name"],
)
def test_started_by_hand_it_registers_as_the_flags_say_and_serves(
    node: Node, listener: socket.socket, flags: tuple[str, ...]
) -> None:
    daemon = node.external(*flags, listener.getsockname(), listener=listener)
    assert daemon.registration() == api.RegisterPluginRequest(
        plugin_name="mine", plugin_idx="33", NRI_version="v0.12.5"
    )
    assert daemon.configure(node.settings()).events == THE_SIX
    assert daemon.call("Synchronize").code == Code.OK
    node.still_serves(daemon)


def test_started_by_hand_it_reads_the_configuration_file_that_it_is_given(node: Node, listener: socket.socket) -> None:
    config = node.path / "adapter.yaml"
    config.write_text(node.settings())
    daemon = node.external("-config", config, "-socket", listener.getsockname(), listener=listener).handshake()
    node.still_serves(daemon)


def test_verbose_logs_every_request_and_result(node: Node, listener: socket.socket) -> None:
    config = node.path / "adapter.yaml"
    config.write_text(node.settings())
    arguments = ("-verbose", "-config", config, "-socket", listener.getsockname())
    daemon = node.external(*arguments, listener=listener).handshake()
    node.still_serves(daemon)
    line = daemon.logged("DEBUG", "create of container default/web/proof-1 (proof-1): good: done")
    assert '"id": "proof-1"' in line
    assert "result: {}" in line


def test_once_and_without_a_runtime_at_the_socket_it_says_so_in_one_line_and_ends(node: Node) -> None:
    daemon = node.external("-once", "-socket", node.path / "absent.sock")
    assert daemon.ended() == 1
    assert daemon.log == [f"v010-adapter: no runtime at {node.path}/absent.sock: No such file or directory"]


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


@pytest.mark.parametrize(
    ("socket_", "reason"),
    [
        ("", ""),
        ("three", ""),
        ("-1", ""),
        ("3.0", ""),
        ("97", "Bad file descriptor"),
        ("0", "not a socket"),
        ("99999999999999999999", ""),
    ],
)
def test_a_socket_in_the_environment_that_is_none_is_named(node: Node, socket_: str, reason: str) -> None:
    daemon = node.spawn(environ=launched(fd=socket_))
    assert daemon.ended() == 1
    (line,) = daemon.log
    assert line.startswith(f"v010-adapter: NRI_PLUGIN_SOCKET={socket_}: ")
    assert reason in line


@pytest.mark.parametrize("idx", ["7", "007", "x7", "-1"])
def test_an_index_that_every_runtime_refuses_is_named_before_anything_is_connected(node: Node, idx: str) -> None:
    daemon = node.spawn(environ=launched(idx=idx))
    assert daemon.ended() == 2
    assert daemon.log == [f"v010-adapter: NRI_PLUGIN_IDX: plugin index '{idx}': two digits, 00 to 99"]
    assert daemon.calls == []


# ---- what the programs that it runs find


@pytest.fixture(scope="module")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """What a plugin found, in files, when it was run by a daemon that had been launched with two stray descriptors."""
    with opened(tmp_path_factory.mktemp("witness")) as node:
        # The status without `cat`: dash blocks all signals while it starts a program.
        proc = f"while read -r line; do echo \"$line\"; done </proc/$$/status >'{node.path}/status'; "
        proc += "".join(f"cat /proc/$$/{name} >'{node.path}/{name}'; " for name in ("environ", "cmdline"))
        look = f"ls -l /proc/$$/fd >'{node.path}/fds'; readlink /proc/$$/cwd >'{node.path}/cwd'"
        node.plugin("witness", f"{proc}{look}; cat >/dev/null; echo 'so be it' >&2; echo '{{}}'")
        node.configure("witness")
        with (node.path / "stray").open("w") as stray:
            daemon = node.spawn(stray={7: stray.fileno(), 300: stray.fileno()})
        daemon.handshake(node.settings({"environment": {"EXTRA": "given"}}))
        assert daemon.call("StartContainer", start("ctr")).code == Code.OK
        yield node


def test_a_plugin_inherits_three_pipes_and_neither_the_socket_nor_stray_descriptors(witness: Node) -> None:
    lines = (witness.path / "fds").read_text().splitlines()[1:]
    targets = {line.split()[-3]: line.split()[-1] for line in lines}
    # Dash keeps the script open as 10, and its stdout as 11 while that goes to our file.
    assert set(targets) - {"10", "11"} == {"0", "1", "2"}
    pipes = {target for target in targets.values() if target.startswith("pipe:")}
    files = {str(witness.bin / "witness"), str(witness.path / "fds")}
    assert set(targets.values()) - pipes <= files
    assert len(pipes) == 3


def test_a_plugin_gets_a_usual_path_and_what_is_configured_and_no_other_variable(witness: Node) -> None:
    variables = dict(pair.split("=", 1) for pair in (witness.path / "environ").read_text().split("\0") if pair)
    assert variables == {
        "PATH": f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{witness.bin}",
        "EXTRA": "given",
    }


def test_a_plugin_starts_with_default_signals_and_none_blocked(witness: Node) -> None:
    status = dict(line.split(":", 1) for line in (witness.path / "status").read_text().splitlines())
    ignored, blocked = (int(status[name], 16) for name in ("SigIgn", "SigBlk"))
    assert [number for number in signal.Signals if ignored >> (number - 1) & 1] == []
    assert blocked == 0


def test_a_plugin_runs_in_the_root_directory_with_the_one_argument_invoke(witness: Node) -> None:
    assert (witness.path / "cwd").read_text() == "/\n"
    arguments = (witness.path / "cmdline").read_text().split("\0")
    assert arguments == ["/bin/sh", str(witness.bin / "witness"), "invoke", ""]


def test_what_a_plugin_says_on_stderr_is_logged_with_its_name(witness: Node) -> None:
    assert witness.daemons[0].logged("INFO witness: stderr: so be it")


def test_the_daemon_itself_leaves_the_directory_it_was_started_in(witness: Node) -> None:
    assert os.readlink(f"/proc/{witness.daemons[0].server}/cwd") == "/"


def test_the_deletes_of_a_life_reach_the_plugins_once(shared: Daemon, shared_node: Node) -> None:
    shared_node.configure("good")
    for method, request in (
        ("RunPodSandbox", api.RunPodSandboxRequest(pod=POD)),
        ("StartContainer", start("ctr")),
        ("StopContainer", stop("ctr")),
        ("RemoveContainer", api.RemoveContainerRequest(pod=POD, container=container("ctr"))),
        ("StopPodSandbox", api.StopPodSandboxRequest(pod=POD)),
        ("StopPodSandbox", api.StopPodSandboxRequest(pod=POD)),
        ("RemovePodSandbox", api.RemovePodSandboxRequest(pod=POD)),
    ):
        assert shared.call(method, request).code == Code.OK
    assert shared_node.runs("good") == [("create", "pod-1"), ("create", "ctr"), ("delete", "ctr"), ("delete", "pod-1")]
