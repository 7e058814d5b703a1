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


def test_started_by_hand_with_a_file_that_cannot_be_used_it_names_each_mistake_and_exits_before_it_connects(
    node: Node, config: Path, listener: socket.socket
) -> None:
    cases = [
        (None, 0, [": No such file or directory"]),
        (WRONG, 0o644, WRONG_LINES),
        ("trust: off", 0o666, [f": {config} is world-writable"]),
    ]
    for text, mode, expected in cases:
        if text is not None:
            config.write_text(text)
            config.chmod(mode)
        daemon = node.external("-config", config, "-socket", listener.getsockname())
        assert daemon.ended() == 2
        for line, wanted in zip(daemon.log, expected, strict=True):
            assert line.startswith(f"v010-adapter: {config}{wanted}")
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


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


@pytest.mark.parametrize(
    ("mode", "counts", "level", "said"),
    [(0o666, False, "ERROR", "is world-writable (ignored)"), (0o664, True, "WARNING", "is writable for group")],
)
def test_launched_with_a_file_that_others_can_write_it_serves_and_reports_that(
    node: Node, config: Path, mode: int, counts: bool, level: str, said: str
) -> None:
    config.write_text(node.settings(runtime={"failRequest": True}))
    config.chmod(mode)
    daemon = launch(node, config)
    daemon.registration()
    assert daemon.configure().failure_policy.fail_request is counts
    daemon.logged(level, f"{config} {said}")


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
        ("legacy: " + "[" * 2_000, ""),
        ('legacy: {environment: {A: "x\\0y"}}', ":1: legacy.environment"),
        ('legacy: {config: "/a\\0b"}', ":1: legacy.config"),
    ],
    ids=["yaml", "recursion", "control character", "depth", "NUL in a variable", "NUL in a path"],
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
