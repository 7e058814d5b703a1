"""The adapter's own configuration in the running daemon: which one counts, and what becomes of a wrong one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from adapter.wire import Code

from .harness import Node, patched, start, stop
from .process import Daemon

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
FAILS = {"failRequest": True}


@pytest.fixture
def config(node: Node) -> Path:
    """The file that a launched daemon reads, and that a daemon started by hand may be given."""
    return node.path / "adapter.yaml"


def configured(config: Path, node: Node, text: str = "") -> Daemon:
    """A launched daemon whose configuration lies elsewhere than under /etc, and which is configured."""
    return node.spawn(patched(f"settings.DEFAULT_PATH = {str(config)!r}")).handshake(text)


# ---- which one counts


def test_a_launched_daemon_takes_the_file_when_the_runtime_sends_no_configuration_and_serves_without_any(
    node: Node, config: Path
) -> None:
    configured(config, node).serves("CreateContainer")
    node.file(runtime=FAILS)
    daemon = configured(config, node, " \n")
    assert daemon.configured.failure_policy.fail_request
    node.still_serves(daemon)


def test_configuration_from_the_runtime_takes_the_place_of_the_whole_file(node: Node, config: Path) -> None:
    node.file({"path": ["/nowhere"]}, runtime=FAILS)
    daemon = configured(config, node, node.settings())
    assert not daemon.configured.failure_policy.fail_request
    node.still_serves(daemon)


# ---- a wrong one


def test_started_by_hand_with_a_file_that_cannot_be_used_it_names_each_mistake_and_exits_before_it_connects(
    node: Node, config: Path, listener: socket.socket
) -> None:
    for text, mode, expected in (
        (None, 0, [": No such file or directory"]),
        (WRONG, 0o644, WRONG_LINES),
        ("trust: off", 0o666, [f": {config} is world-writable"]),
    ):
        if text is not None:
            config.write_text(text)
            config.chmod(mode)
        daemon = node.external("-config", config)
        assert daemon.ended() == 2
        for line, wanted in zip(daemon.log, expected, strict=True):
            assert line.startswith(f"v010-adapter: {config}{wanted}")
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_launched_with_a_wrong_file_it_serves_with_the_rest_and_reports_each_mistake(node: Node, config: Path) -> None:
    config.write_text(f"{WRONG}runtime: {{failRequest: true}}\n")
    daemon = configured(config, node)
    assert daemon.configured.failure_policy.fail_request
    for expected in WRONG_LINES:
        daemon.logged("ERROR", f" {config}{expected}", "(ignored)")


@pytest.mark.parametrize(("on_failure", "code"), [("fail", Code.UNKNOWN), ("ignore", Code.OK)])
def test_launched_with_a_wrong_list_of_plugins_it_runs_no_other_list_and_creates_end_as_with_a_broken_one(
    node: Node, on_failure: str, code: Code
) -> None:
    node.configure("good")
    place = f"settings.DEFAULT_PATH = {str(node.file({'config': 'conf.json', 'onFailure': on_failure}))!r}"
    default = f"({str(node.conf_json)!r}, *settings.LegacySettings()[1:])"
    daemon = node.spawn(patched(place, f"settings.LegacySettings.__new__.__defaults__ = {default}")).handshake()
    reply = daemon.call(start("c1"))
    assert (reply.code, "legacy.config: " in reply.message) == (code, code != Code.OK)
    daemon.serves(stop("c1"))
    assert node.runs() == []


@pytest.mark.parametrize(
    ("mode", "counts", "level", "said"),
    [(0o666, False, "ERROR", "is world-writable (ignored)"), (0o664, True, "WARNING", "is writable for group")],
)
def test_launched_with_a_file_that_others_can_write_it_serves_and_reports_that(
    node: Node, config: Path, mode: int, counts: bool, level: str, said: str
) -> None:
    node.file(runtime=FAILS).chmod(mode)
    daemon = configured(config, node)
    assert daemon.configured.failure_policy.fail_request is counts
    daemon.logged(level, f"{config} {said}")


def test_wrong_configuration_from_the_runtime_is_reported_by_line_and_the_rest_of_it_counts(node: Node) -> None:
    node.configure("missing")
    text = f"legacy:\n  config: {node.conf_json}\n  path: [{node.bin}]\n  onFailure: ignore\n  timeout: -1\n"
    daemon = node.spawn().handshake(text)
    daemon.logged("ERROR configuration from the runtime:5: legacy.timeout: must be a number of seconds", "(ignored)")
    daemon.serves(start("ctr"))
    node.still_serves(daemon)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("legacy: {config: '/a'", ":1: expected ',' or '}'"), ('legacy: {config: "/a\\0b"}', ":1: legacy.config")],
)
def test_configuration_that_is_none_is_named_and_the_daemon_stays_registered(
    node: Node, text: str, expected: str
) -> None:
    """tests/test_settings.py has every text. The node's own conf.json is in force then, which runs nothing here."""
    daemon = node.spawn().handshake(text)
    daemon.logged("ERROR configuration from the runtime", expected)
    daemon.serves("CreateContainer")
