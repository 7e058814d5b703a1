"""Legacy plugins that are broken, or do what no plugin should: each costs its own event and nothing else.

tests/legacy/test_result.py has every result, tests/process every program; here is one of each kind, with a daemon.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adapter.wire import Code

from .harness import Daemon, Node, start, stop

MIB = 1 << 20
FAILURES = {  # the script of a plugin that fails, and what is to be said about it behind `plugin: bad: `
    "exit 3": "no result (no output), exit code 3",
    "echo oops": "no result (line 1, column 1: unexpected 'o'), exit code 0, output: 'oops\\n'",
    "echo '[]'": "no result (the result is an array, not an object)",
    f"head -c {MIB + 1} /dev/zero | tr '\\0' ' '; echo '{{}}'": f"no result (more than {MIB} by",
    'echo \'{"error":"out of luck"}\'; exit 1': "out of luck",
    "printf '{'; kill -SEGV $$": "killed by signal 11, output: '{'",
    "yes oops | head -c 4000000 >&2": "no result (no output), exit code 0",
    "exec <&- >&- 2>&-": "no result (no output), exit code 0",
}


def executable(content: bytes) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        path.write_bytes(content)
        path.chmod(0o755)

    return make


FORMAT = "{path}: Exec format error: neither a binary for this machine nor a script that begins with #!"
UNFIT: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path, "not found in "),
    "not executable": (
        lambda path: path.write_text("#!/bin/sh\necho '{}'\n"),
        "{path} is not an executable file: chmod +x {path}",
    ),
    "a FIFO": (lambda path: os.mkfifo(path, 0o777), "{path} is not an executable file"),
    "a loop of links": (lambda path: path.symlink_to(path), "{path}: Too many levels of symbolic links"),
    "of a wrong format": (executable(b"\x7fELF but not really"), FORMAT),
    "without its interpreter": (executable(b"#!/no/such/shell\n"), "{path}: its interpreter '/no/such/shell': No such"),
}


def test_a_failure_fails_the_create_by_name_and_ends_its_chain_and_spoils_no_delete(node: Node) -> None:
    daemon = node.launch()
    for number, (script, reason) in enumerate(FAILURES.items()):
        node.plugin("bad", script)
        node.configure("bad", "good")
        before = node.runs("good")
        reply = daemon.call("StartContainer", start(f"ctr-{number}"))
        assert (reply.code, reply.message[:13]) == (Code.UNKNOWN, "plugin: bad: "), script
        assert reason in reply.message
        daemon.logged(f"ERROR create of container default/web/ctr-{number} (ctr-{number}): plugin: bad: ", reason)
        assert node.runs("good") == before, script
        node.plugin("bad", "echo '{}'")
        assert daemon.call("StartContainer", start(f"other-{number}")).code == Code.OK
        node.plugin("bad", script)
        assert daemon.call("StopContainer", stop(f"other-{number}")).code == Code.OK
        daemon.logged(f"ERROR delete of container default/web/other-{number} ", reason, " (tolerated)")
        assert node.runs("good")[len(before) :] == [("create", f"other-{number}"), ("delete", f"other-{number}")]
    node.still_serves(daemon)


def test_a_binary_that_cannot_be_run_fails_creates_by_name_is_owed_no_delete_and_spoils_none(node: Node) -> None:
    daemon, path = node.launch(), node.bin / "unfit"
    for number, (make, text) in enumerate(UNFIT.values()):
        node.plugin("unfit", "echo '{}'")
        node.configure("unfit", "good")
        before, now = f"before-{number}", f"now-{number}"
        assert daemon.call("StartContainer", start(before)).code == Code.OK
        path.unlink()
        make(path)
        reason = text.format(path=path)
        assert daemon.call("StopContainer", stop(before)).code == Code.OK
        daemon.logged(f"ERROR delete of container default/web/{before} ", "plugin: unfit: ", reason, " (tolerated)")
        node.configure("good", "unfit")
        reply = daemon.call("StartContainer", start(now))
        assert (reply.code, reply.message.startswith(f"plugin: unfit: {reason}")) == (Code.UNKNOWN, True), reply
        assert daemon.call("StopContainer", stop(now)).code == Code.OK
        assert node.runs("good")[-4:] == [(what, id_) for id_ in (before, now) for what in ("create", "delete")]
    node.still_serves(daemon)
    assert not [line for line in daemon.log if "delete of container default/web/now-" in line]


def test_a_type_that_is_a_path_is_taken_as_it_is(node: Node) -> None:
    path = node.plugin("elsewhere", node.record("elsewhere")).rename(node.path / "elsewhere")
    node.configure(str(path), str(node.path / "nowhere"))
    reply = node.launch().call("StartContainer", start("ctr"))
    assert reply.message == f"plugin: {node.path}/nowhere: not found"
    assert node.runs("elsewhere") == [("create", "ctr")]


def test_a_request_of_a_mebibyte_is_whole_for_who_reads_it_and_no_burden_for_who_does_not(node: Node) -> None:
    node.plugin("closes", "exec <&-; echo '{}'")
    node.plugin("deaf", "echo '{}'")
    node.plugin("hasty", f"printf '{{'; wc -c >'{node.path}/size'; printf '}}'")
    node.plugin("whole", f"cat >'{node.path}/request'; echo '{{}}'")
    node.configure("closes", "deaf", "hasty", "whole")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("ctr", {"big": "x" * MIB}))[1:3] == (Code.OK, "")
    assert int((node.path / "size").read_text()) > MIB
    request = json.loads((node.path / "request").read_bytes())
    assert request["spec"]["annotations"] == {"big": "x" * MIB}
    node.still_serves(daemon)


@pytest.mark.parametrize(
    ("settings", "at"), [({"onFailure": "ignore"}, "StartContainer"), ({"onDeleteFailure": "fail"}, "StopContainer")]
)
def test_a_plugins_own_policy_decides_what_its_failure_means(node: Node, settings: dict[str, str], at: str) -> None:
    node.plugin("bad", "exit 1" if at == "StartContainer" else "echo '{}'")
    node.configure("bad", "good")
    daemon: Daemon = node.launch({"plugins": {"bad": settings}})
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    if at == "StartContainer":
        daemon.logged("plugin: bad: no result", "exit code 1", "(tolerated)")
        assert "results" not in node.requests("good")[0]
        return
    node.plugin("bad", "exit 1")
    reply = daemon.call("StopContainer", stop("ctr"))
    assert (reply.code, reply.message[:23]) == (Code.UNKNOWN, "plugin: bad: no result ")
    assert node.runs("good") == [("create", "ctr"), ("delete", "ctr")]
