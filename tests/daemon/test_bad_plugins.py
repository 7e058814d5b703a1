"""Legacy plugins that are broken, or do what no plugin should: each costs its own event and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from adapter.wire import Code

from .harness import Daemon, Node, start, stop

MIB = 1 << 20


class Bad(NamedTuple):
    """A plugin that fails, and what is to be said about it behind `plugin: bad: `."""

    script: str
    reason: str


FAILURES = {
    "empty output": Bad("cat >/dev/null", "no result (no output), exit code 0"),
    "blank output": Bad("echo; echo", "no result (no output), exit code 0"),
    "exit code and no output": Bad("exit 3", "no result (no output), exit code 3"),
    "garbage": Bad("echo oops", "no result (line 1, column 1: unexpected 'o'), exit code 0, output: 'oops\\n'"),
    "half a document": Bad('printf \'{"error": "\'', "no result (line 1, column "),
    "two documents": Bad("echo '{}'; echo '{}'", "no result (line 2, column 1: something behind the JSON value)"),
    "an array": Bad("echo '[]'", "no result (the result is an array, not an object)"),
    "wrong metadata": Bad('echo \'{"metadata":{"a":1}}\'', "no result ('metadata.a' is a number, not a string)"),
    "a mebibyte and more": Bad(
        f"head -c {MIB + 1} /dev/zero | tr '\\0' ' '; echo '{{}}'", f"no result (more than {MIB} by"
    ),
    "output that is not UTF-8": Bad("printf '\\377\\376'", "no result (line 1, column 1: unexpected "),
    "UTF-16": Bad("printf '\\377\\376{\\0}\\0'", "no result (line 1, column 1: unexpected "),
    "an error": Bad('echo \'{"error":"out of luck"}\'', "out of luck"),
    "an error and an exit code": Bad('echo \'{"error":"out of luck"}\'; exit 1', "out of luck"),
    "kills itself": Bad("kill -KILL $$", "no result (no output), killed by signal 9"),
    "kills itself with half a document": Bad("printf '{'; kill -SEGV $$", "killed by signal 11, output: '{'"),
    "stderr without end": Bad("yes oops | head -c 4000000 >&2", "no result (no output), exit code 0"),
    "closes everything": Bad("exec <&- >&- 2>&-", "no result (no output), exit code 0"),
}
SUCCESSES = {
    "exit code with valid JSON": "echo '{}'; exit 7",
    "kills itself after its result": "echo '{}'; kill -KILL $$",
    "null": "echo null",
    "an error that is null": "echo '{\"error\":null}'",
    "a string that is not UTF-8": 'printf \'{"plugin":"\\377"}\'',
    "unknown keys": 'echo \'{"state":"create","id":"x","pid":1,"cgroupsPath":"/a","more":[{}]}\'',
    "many values": "echo '{\"x\":['; yes 0, | head -n 90000; echo '0]}'",
    "a mebibyte": f"echo '{{}}'; head -c {MIB - 3} /dev/zero | tr '\\0' ' '",
}
FORMAT = "{path}: Exec format error: neither a binary for this machine nor a script that begins with #!"
UNFIT: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path, "not found in "),
    "not executable": (lambda path: path.write_text("#!/bin/sh\necho '{}'\n"), "{path} is not an executable file"),
    "a directory": (lambda path: path.mkdir(), "{path} is not an executable file"),
    "a FIFO": (lambda path: os.mkfifo(path, 0o777), "{path} is not an executable file"),
    "a dangling link": (lambda path: path.symlink_to("nowhere"), "not found in "),
    "a loop of links": (lambda path: path.symlink_to(path), "{path}: Too many levels of symbolic links"),
    "of a wrong format": (lambda path: executable(path, b"\x7fELF but not really"), FORMAT),
    "empty": (lambda path: executable(path, b""), FORMAT),
    "without its interpreter": (
        lambda path: executable(path, b"#!/no/such/shell\n"),
        "{path}: its interpreter '/no/such/shell': No such file or directory",
    ),
}


def executable(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o755)


@pytest.fixture
def daemon(shared: Daemon) -> Daemon:
    """One that has survived the tests before this one."""
    return shared


@pytest.mark.parametrize("bad", FAILURES.values(), ids=FAILURES)
def test_a_failure_fails_the_create_by_name_and_ends_its_chain_and_spoils_no_delete(
    shared_node: Node, daemon: Daemon, bad: Bad
) -> None:
    node = shared_node
    node.plugin("bad", bad.script)
    node.configure("bad", "good")
    reply = daemon.call("StartContainer", start("ctr"))
    assert reply.code == Code.UNKNOWN
    assert reply.message.startswith("plugin: bad: ")
    assert bad.reason in reply.message
    assert daemon.logged("ERROR create of container default/web/ctr (ctr): plugin: bad: ", bad.reason)
    assert node.runs("good") == []
    node.still_serves(daemon)

    node.plugin("bad", "echo '{}'")
    node.configure("bad", "good")
    before = len(node.runs("good"))
    assert daemon.call("StartContainer", start("other")).code == Code.OK
    node.plugin("bad", bad.script)
    assert daemon.call("StopContainer", stop("other")).code == Code.OK
    assert daemon.logged(
        "ERROR delete of container default/web/other (other): plugin: bad: ", bad.reason, " (tolerated)"
    )
    assert node.runs("good")[before:] == [("create", "other"), ("delete", "other")]
    node.still_serves(daemon)


@pytest.mark.parametrize("script", SUCCESSES.values(), ids=SUCCESSES)
def test_what_is_a_result_counts_whatever_else_the_plugin_does(shared_node: Node, daemon: Daemon, script: str) -> None:
    shared_node.plugin("odd", script)
    shared_node.configure("odd", "good")
    assert daemon.call("StartContainer", start("ctr"))[1:3] == (Code.OK, "")
    (request,) = shared_node.requests("good")
    (result,) = request["results"]
    assert result["error"] == ""
    shared_node.still_serves(daemon)


@pytest.mark.parametrize(("make", "reason"), UNFIT.values(), ids=UNFIT)
def test_a_binary_that_cannot_be_run_fails_creates_by_name_is_owed_no_delete_and_spoils_none(
    shared_node: Node, daemon: Daemon, make: Callable[[Path], object], reason: str
) -> None:
    node, path = shared_node, shared_node.bin / "unfit"
    node.plugin("unfit", "echo '{}'")
    node.configure("unfit", "good")
    assert daemon.call("StartContainer", start("unfit-before")).code == Code.OK
    path.unlink()
    make(path)
    reason = reason.format(path=path)
    assert daemon.call("StopContainer", stop("unfit-before")).code == Code.OK
    assert daemon.logged(
        "ERROR delete of container default/web/unfit-before (unfit-before): plugin: unfit: ", reason, " (tolerated)"
    )
    assert node.runs("good") == [("create", "unfit-before"), ("delete", "unfit-before")]

    node.configure("good", "unfit")
    reply = daemon.call("StartContainer", start("unfit-ctr"))
    assert reply.code == Code.UNKNOWN
    assert reply.message.startswith(f"plugin: unfit: {reason}")
    assert daemon.logged("ERROR create of container default/web/unfit-ctr (unfit-ctr): ", reply.message)
    assert daemon.call("StopContainer", stop("unfit-ctr")).code == Code.OK
    assert node.runs("good")[2:] == [("create", "unfit-ctr"), ("delete", "unfit-ctr")]
    node.still_serves(daemon)
    assert not [line for line in daemon.log if "delete of container default/web/unfit-ctr (unfit-ctr)" in line]
    if path.is_dir():
        path.rmdir()


def test_a_type_that_is_a_path_is_taken_as_it_is(node: Node) -> None:
    path = node.plugin("elsewhere", node.record("elsewhere")).rename(node.path / "elsewhere")
    node.configure(str(path), str(node.path / "nowhere"))
    daemon = node.launch()
    reply = daemon.call("StartContainer", start("ctr"))
    assert reply.message == f"plugin: {node.path}/nowhere: not found"
    assert node.runs("elsewhere") == [("create", "ctr")]
    node.still_serves(daemon)


@pytest.mark.parametrize("reads", ["exec <&-; ", ""], ids=["closes its stdin", "leaves it alone"])
def test_a_plugin_that_never_reads_a_request_of_a_mebibyte_succeeds(node: Node, reads: str) -> None:
    node.plugin("deaf", f"{reads}echo '{{}}'")
    node.plugin("whole", f"cat >'{node.path}/request'; echo '{{}}'")
    node.configure("deaf", "whole")
    daemon = node.launch()
    reply = daemon.call("StartContainer", start("ctr", {"big": "x" * MIB}))
    assert reply[1:3] == (Code.OK, "")
    request = json.loads((node.path / "request").read_bytes())
    assert request["spec"]["annotations"] == {"big": "x" * MIB}
    node.still_serves(daemon)


def test_a_plugin_that_answers_before_it_reads_a_request_of_a_mebibyte_gets_it_whole(node: Node) -> None:
    node.plugin("hasty", f"printf '{{'; wc -c >'{node.path}/size'; printf '}}'")
    node.configure("hasty")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("ctr", {"big": "x" * MIB})).code == Code.OK
    assert int((node.path / "size").read_text()) > MIB
    node.still_serves(daemon)


def test_a_child_that_keeps_the_pipes_holds_up_nobody_once_the_plugin_has_exited(node: Node) -> None:
    gate = node.gate()
    node.plugin("parent", f"sh -c '{gate.script}' & echo '{{\"plugin\":\"parent\"}}'")
    node.configure("parent", "good")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    os.kill(gate.arrival(), 0)  # the child is still there
    assert node.requests("good")[0]["results"][0]["plugin"] == "parent"
    node.still_serves(daemon)


def test_a_plugin_that_prints_without_end_after_its_result_is_stopped_by_its_closed_pipe(node: Node) -> None:
    node.plugin("endless", "echo '{}' && exec yes >&2")
    node.configure("endless")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("ctr"), 1.0).code == Code.OK
    daemon.logged("INFO endless: pid ", "works on after its result")
    daemon.logged("endless: stderr: (more than 1048576 bytes on stderr from a program that was left")
    daemon.logged("INFO endless: pid ", "which was left running, has ended: killed by signal 13")
    node.still_serves(daemon)


def test_a_plugins_stderr_is_logged_by_line_with_its_name_and_bounded(node: Node) -> None:
    node.plugin("loud", "cat >/dev/null; echo one >&2; echo two >&2; yes more | head -c 1000000 >&2; echo '{}'")
    node.configure("loud")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    node.still_serves(daemon)
    said = [line.partition(" INFO loud: stderr: ")[2] for line in daemon.log if " INFO loud: stderr: " in line]
    assert said[:3] == ["one", "two", "more"]
    assert len(said) == 501
    assert daemon.logged("loud: stderr: (more than 500 lines on stderr: the rest is not logged)")


def test_an_error_text_beyond_all_reason_is_cut_on_its_way_to_the_runtime(node: Node) -> None:
    node.plugin("bad", "printf '{\"error\":\"'; head -c 900000 /dev/zero | tr '\\0' x; printf '\"}'")
    node.configure("bad")
    daemon = node.launch()
    reply = daemon.call("StartContainer", start("ctr"))
    assert reply.code == Code.UNKNOWN
    assert reply.message.startswith("plugin: bad: xxxx")
    assert 60_000 < len(reply.message) < 70_000
    node.still_serves(daemon)


def test_a_failure_that_is_configured_to_be_ignored_lets_the_event_and_the_chain_go_on(node: Node) -> None:
    node.plugin("bad", "exit 1")
    node.configure("bad", "good")
    daemon = node.launch({"plugins": {"bad": {"onFailure": "ignore"}}})
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    assert daemon.logged("plugin: bad: no result", "exit code 1", "(tolerated)")
    assert "results" not in node.requests("good")[0]
    node.still_serves(daemon)


def test_a_delete_that_may_not_fail_fails_the_event_after_all_plugins_ran(node: Node) -> None:
    node.plugin("bad", "echo '{}'")
    node.configure("bad", "good")
    daemon = node.launch({"plugins": {"bad": {"onDeleteFailure": "fail"}}})
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    node.plugin("bad", "exit 1")
    reply = daemon.call("StopContainer", stop("ctr"))
    assert reply.code == Code.UNKNOWN
    assert reply.message.startswith("plugin: bad: no result (no output), exit code 1")
    assert node.runs("good") == [("create", "ctr"), ("delete", "ctr")]
    node.still_serves(daemon)
