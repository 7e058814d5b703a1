"""Legacy plugins under a running daemon, end to end: one of each kind.

tests/legacy has every case on a stepped clock, and every conf.json and result; tests/process every program; the fault
matrix each failure of a plugin under a real runtime.
"""

from __future__ import annotations

import json

import pytest

from adapter.wire import Code

from .harness import Node, start, stop
from .process import LATE

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


# ---- conf.json


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
