"""Legacy plugins under a running daemon, end to end: one of each kind.

tests/legacy has every case on a stepped clock, and every conf.json and result; tests/process every program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adapter.wire import Code

from .harness import Node, start, stop
from .process import LATE, OVER

BROKEN = '{\n  "version": "0.1",\n  "plugins": [\n    {"type": "good"},\n  ]\n}\n'


# ---- time


@pytest.mark.deadline
def test_a_late_create_fails_by_name_its_process_may_finish_and_its_delete_comes(node: Node) -> None:
    gate = node.slow()
    node.configure("slow", "good")
    daemon = node.launch()
    reply = daemon.call(start("ctr"), LATE)
    pid = gate.arrival()  # and it is blocked still
    assert (reply.code, reply.message.startswith("plugin: slow: no result within ")) == (Code.UNKNOWN, True)
    daemon.logged("ERROR create of container default/web/ctr (ctr): ", reply.message)
    daemon.logged(f"WARNING slow: pid {pid} ", "left to finish")
    node.still_serves(daemon)
    gate.let_on()
    daemon.logged(f"INFO slow: pid {pid}, which was left running, has ended: exit code 0")
    gate.let_on()
    node.configure("slow")
    daemon.serves(stop("ctr"))
    assert node.runs("slow") == [("create", "ctr"), ("delete", "ctr")]
    assert ("create", "ctr") not in node.runs(), "the chain ended with its failure"


def test_a_chain_whose_failures_are_ignored_goes_on_behind_the_answer_of_a_call_that_is_over(node: Node) -> None:
    gate = node.slow()
    node.configure("slow", "good")
    daemon = node.launch({"onFailure": "ignore"})
    daemon.serves(start("ctr"), stop("ctr"), timeout=OVER)
    daemon.logged("WARNING create of container default/web/ctr (ctr): ", "it goes on after the answer")
    daemon.logged("WARNING delete of container default/web/ctr (ctr): waited for create of", "after the answer")
    gate.arrival()
    assert node.runs() == []
    gate.let_on()
    gate.let_on()  # for its delete
    node.configure("good")
    daemon.serves(start("ctr"))  # an event of the same container waits for the chains before it
    assert node.runs("slow") == node.runs()[:2] == [("create", "ctr"), ("delete", "ctr")]


# ---- conf.json


def test_a_wrong_file_fails_creates_until_there_is_a_good_version_which_stays_in_force(node: Node) -> None:
    node.write_conf(BROKEN)
    daemon = node.launch()
    assert daemon.call(start("one")).message == f"{node.conf_json}:4: a trailing comma (no plugin can run)"
    daemon.serves(stop("one"))
    daemon.logged("ERROR", f" {node.conf_json}:4: a trailing comma")
    node.still_serves(daemon)
    os.mkfifo(node.path / "fifo")
    for reason in (":4: a trailing comma", f": {(1 << 20) + 15} bytes", ": not a regular file"):
        if "regular" in reason:
            (node.path / "fifo").rename(node.conf_json)
        else:
            node.write_conf(BROKEN if "comma" in reason else '{"plugins": []}' + " " * (1 << 20))
        daemon.serves(start(reason))
        daemon.logged(f" ERROR {node.conf_json}{reason}", "; the last good version stays in force")
    assert len(node.runs()) == 2 + 3
    node.conf_json.unlink()  # no plugins, but those that are owed their deletes
    daemon.serves(start("two"), *(stop(id_) for _, id_ in node.runs()[2:]))
    assert [state for state, _ in node.runs()[2:]] == ["create"] * 3 + ["delete"] * 3


def test_each_version_counts_for_the_next_event_and_a_delete_runs_under_that_of_its_create(node: Node) -> None:
    """Same size each time, and quicker than many a file system's clock ticks."""
    daemon = node.launch()
    for number in range(20):
        text = json.dumps({"version": "0.1", "plugins": [{"type": "good", "conf": {"number": f"{number:02}"}}]})
        node.conf_json.write_text(text) if number % 2 else node.write_conf(text)
        daemon.serves(start(f"ctr-{number}"))
    daemon.serves(stop("ctr-3"))
    *creates, delete = node.requests("good")
    assert [request["conf"] for request in creates] == [{"number": f"{number:02}"} for number in range(20)]
    assert (delete["state"], delete["conf"]) == ("delete", {"number": "03"})


# ---- what plugins do that none should


def script(text: str, first: str = "#!/bin/sh\n") -> Callable[[Path], object]:
    def make(path: Path) -> None:
        path.write_text(f"{first}{text}\n")
        path.chmod(0o755)

    return make


BAD: list[tuple[Callable[[Path], object], str]] = [
    (script("exit 3"), "no result (no output), exit code 3"),
    (script("echo oops"), "no result (line 1, column 1: unexpected 'o'), exit code 0, output: 'oops\\n'"),
    (script('echo \'{"error":"out of luck"}\'; exit 1'), "out of luck"),
    (script("printf '{'; kill -SEGV $$"), "killed by signal 11, output: '{'"),
    (script("yes oops | head -c 4000000 >&2; exec <&- >&- 2>&-"), "no result (no output), exit code 0"),
    (lambda path: path, "not found in "),
    (lambda path: path.touch(), "{path} is not an executable file: chmod +x {path}"),
    (lambda path: os.mkfifo(path, 0o777), "{path} is not an executable file"),
    (lambda path: path.symlink_to(path), "{path}: Too many levels of symbolic links"),
    (script("but not really", first="\x7fELF"), "{path}: Exec format error"),
]
"""What takes a plugin's place, and what is to be said of it behind `plugin: bad: `."""


def test_a_failure_fails_the_create_by_name_and_ends_its_chain_and_spoils_no_delete(node: Node) -> None:
    daemon, path = node.launch(), node.bin / "bad"
    for number, (make, text) in enumerate(BAD):
        reason, good, bad = text.replace("{path}", str(path)), f"good-{number}", f"bad-{number}"
        node.plugin("bad", "echo '{}'")
        node.configure("bad", "good")
        daemon.serves(start(good))
        path.unlink()
        make(path)
        before = node.runs()
        reply = daemon.call(start(bad))
        assert (reply.code, reply.message[:13]) == (Code.UNKNOWN, "plugin: bad: "), reason
        assert reason in reply.message
        daemon.logged(f"ERROR create of container default/web/{bad} ({bad}): plugin: bad: ", reason)
        daemon.serves(stop(bad))
        assert node.runs() == before, reason
        daemon.serves(stop(good))
        daemon.logged(f"ERROR delete of container default/web/{good} ({good}): plugin: bad: ", reason, " (tolerated)")
        assert node.runs() == [*before, ("delete", good)]
        path.unlink(missing_ok=True)
    node.still_serves(daemon)
