"""The adapter's own configuration in the running daemon: which one counts, and what becomes of a wrong one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from adapter.wire import Code

from .harness import Daemon, Node, patched, start, stop

WRONG = """\
legacy:
  onFailure: perhaps
  unheardOf: 1
log: {level: debug}
"""
WRONG_LINES = (
    ":2: legacy.onFailure: must be one of fail, ignore",
    ":3: legacy.unheardOf: unknown key; known: ",
)


@pytest.fixture
def config(node: Node) -> Path:
    """The file that a launched daemon reads, and that a daemon started by hand may be given."""
    return node.path / "adapter.yaml"


def launch(node: Node, config: Path) -> Daemon:
    """A launched daemon whose configuration lies elsewhere than under /etc."""
    return node.spawn(patched(f"settings.DEFAULT_PATH = {str(config)!r}"))


def nobody_connected(listener: socket.socket) -> bool:
    listener.setblocking(False)
    try:
        listener.accept()
    except BlockingIOError:
        return True
    return False


# ---- which one counts


def test_a_launched_daemon_takes_the_file_when_the_runtime_sends_no_configuration(node: Node, config: Path) -> None:
    config.write_text(node.settings(runtime={"failRequest": True}))
    daemon = launch(node, config)
    daemon.registration()
    assert daemon.configure(" \n").failure_policy.fail_request
    assert daemon.call("Synchronize").code == Code.OK
    node.still_serves(daemon)


def test_configuration_from_the_runtime_takes_the_place_of_the_whole_file(node: Node, config: Path) -> None:
    config.write_text(node.settings({"path": ["/nowhere"]}, runtime={"failRequest": True}))
    daemon = launch(node, config)
    daemon.registration()
    assert not daemon.configure(node.settings()).failure_policy.fail_request
    assert daemon.call("Synchronize").code == Code.OK
    node.still_serves(daemon)


def test_a_daemon_without_any_configuration_serves(node: Node, config: Path) -> None:
    daemon = launch(node, config).handshake()
    assert daemon.call("CreateContainer").code == Code.OK


# ---- a wrong one


def test_started_by_hand_with_a_wrong_file_it_names_each_mistake_and_exits_before_it_connects(
    node: Node, config: Path, listener: socket.socket
) -> None:
    config.write_text(WRONG)
    daemon = node.external("-config", config, "-socket", listener.getsockname())
    assert daemon.ended() == 2
    assert len(daemon.log) == 2
    for line, expected in zip(daemon.log, WRONG_LINES, strict=True):
        assert line.startswith(f"v010-adapter: {config}{expected}")
    assert nobody_connected(listener)


def test_started_by_hand_with_a_file_that_is_not_there_it_exits_with_its_name(
    node: Node, config: Path, listener: socket.socket
) -> None:
    daemon = node.external("-config", config, "-socket", listener.getsockname())
    assert daemon.ended() == 2
    assert daemon.log == [f"v010-adapter: {config}: No such file or directory"]
    assert nobody_connected(listener)


def test_launched_with_a_wrong_file_it_serves_with_the_rest_and_reports_each_mistake(node: Node, config: Path) -> None:
    config.write_text(f"{WRONG}runtime: {{failRequest: true}}\n")
    daemon = launch(node, config)
    daemon.registration()
    assert daemon.configure().failure_policy.fail_request
    for expected in WRONG_LINES:
        daemon.logged("ERROR", f" {config}{expected}", "(ignored)")
    assert daemon.call("Synchronize").code == Code.OK


@pytest.mark.parametrize(("on_failure", "code"), [("fail", Code.UNKNOWN), ("ignore", Code.OK)])
def test_launched_with_a_wrong_list_of_plugins_it_runs_no_other_list_and_creates_end_as_with_a_broken_one(
    node: Node, config: Path, on_failure: str, code: Code
) -> None:
    node.configure("good")
    config.write_text(node.settings({"config": "conf.json", "onFailure": on_failure}))
    default = f"({str(node.conf_json)!r}, *settings.LegacySettings()[1:])"
    defaults = f"settings.LegacySettings.__new__.__defaults__ = {default}"
    daemon = node.spawn(patched(f"settings.DEFAULT_PATH = {str(config)!r}", defaults)).handshake()
    reply = daemon.call("StartContainer", start("c1"))
    assert reply.code == code
    assert code == Code.OK or "legacy.config: " in reply.message
    assert daemon.call("StopContainer", stop("c1")).code == Code.OK
    assert node.requests("good") == []


def test_started_by_hand_with_a_file_that_anybody_can_write_it_exits_with_the_reason(
    node: Node, config: Path, listener: socket.socket
) -> None:
    config.write_text("trust: off")
    config.chmod(0o666)
    daemon = node.external("-config", config, "-socket", listener.getsockname())
    assert daemon.ended() == 2
    assert daemon.log == [f"v010-adapter: {config}: {config} is world-writable"]
    assert nobody_connected(listener)


def test_launched_with_a_file_that_anybody_can_write_it_serves_without_it_and_reports_that(
    node: Node, config: Path
) -> None:
    config.write_text(node.settings(runtime={"failRequest": True}))
    config.chmod(0o666)
    daemon = launch(node, config)
    daemon.registration()
    assert not daemon.configure().failure_policy.fail_request
    daemon.logged("ERROR", f" {config}: {config} is world-writable (ignored)")


def test_that_a_group_can_write_the_file_is_logged_and_the_file_counts(node: Node, config: Path) -> None:
    config.write_text(node.settings(runtime={"failRequest": True}))
    config.chmod(0o664)
    daemon = launch(node, config)
    daemon.registration()
    assert daemon.configure().failure_policy.fail_request
    daemon.logged("WARNING", f"trust: {config} is writable for group {config.stat().st_gid}")


def test_wrong_configuration_from_the_runtime_is_reported_by_line_and_the_rest_of_it_counts(node: Node) -> None:
    node.configure("missing")
    daemon = node.spawn()
    daemon.registration()
    text = f"legacy:\n  config: {node.conf_json}\n  path: [{node.bin}]\n  onFailure: ignore\n  timeout: -1\n"
    daemon.configure(text)
    assert daemon.call("Synchronize").code == Code.OK
    daemon.logged("ERROR configuration from the runtime:5: legacy.timeout: must be a number of seconds", "(ignored)")
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    node.still_serves(daemon)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("legacy: {config: '/a'", ":1: expected ',' or '}'"),
        ("log: &a {level: *a}\n", ":1: log.level: "),
        ("\x01", ": special characters are not allowed"),
    ],
    ids=["yaml", "recursion", "control character"],
)
def test_configuration_that_is_none_is_named_and_the_daemon_stays_registered(
    node: Node, text: str, expected: str
) -> None:
    daemon = node.spawn()
    daemon.registration()
    daemon.configure(text)
    daemon.logged("ERROR configuration from the runtime", expected)
    assert daemon.call("Synchronize").code == Code.OK
    # The node's own conf.json is in force then, which this test has no business with.
    assert daemon.call("CreateContainer").code == Code.OK


@pytest.mark.parametrize(
    ("legacy", "key"),
    [
        ({"environment": {"A": "x\0y"}}, "legacy.environment"),
        ({"environment": {"A\0": "x"}}, "legacy.environment"),
        ({"path": ["/a\0b"]}, "legacy.path"),
        ({"config": "/a\0b"}, "legacy.config"),
    ],
    ids=["a value", "a name", "a directory", "a file"],
)
def test_a_nul_character_that_no_process_can_be_given_is_named_and_does_no_harm(
    node: Node, legacy: dict[str, object], key: str
) -> None:
    daemon = node.spawn()
    daemon.registration()
    daemon.configure(node.settings(legacy))
    daemon.logged("ERROR configuration from the runtime:1", key)
    assert daemon.call("Synchronize").code == Code.OK
    assert daemon.call("StartContainer", start("ctr")).code in (Code.OK, Code.UNKNOWN)
    assert daemon.call("CreateContainer").code == Code.OK


def test_configuration_nested_beyond_reason_is_an_error_and_the_daemon_stays_registered(node: Node) -> None:
    daemon = node.spawn()
    daemon.registration()
    daemon.configure("legacy: " + "[" * 20_000)
    daemon.logged("ERROR configuration from the runtime")
    assert daemon.call("Synchronize").code == Code.OK
