"""Legacy plugins under a running daemon, end to end: one of each kind.

tests/legacy has every case on a stepped clock, and every conf.json and result; tests/process every program; the fault
matrix each failure of a plugin under a real runtime.
"""

from __future__ import annotations

import json
import os

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
