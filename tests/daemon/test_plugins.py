"""Legacy plugins under a running daemon, end to end: one of each kind.

tests/legacy has every case on a stepped clock, and every conf.json and result; tests/process every program; the fault
matrix each failure of a plugin under a real runtime.
"""

from __future__ import annotations

import pytest

from nri.wire import Code

from ..rig.daemon import LATE
from ..rig.machine import Machine, start, stop


@pytest.mark.deadline
def test_a_late_create_fails_by_name_its_process_may_finish_and_its_delete_comes(node: Machine) -> None:
    gate = node.slow()
    node.configure("slow", "good")
    daemon = node.launch()
    reply = daemon.call(start("ctr"), LATE)
    pid = gate.arrival()  # and it is blocked still
    assert (reply.code, reply.message.startswith("plugin: slow: no result within ")) == (Code.UNKNOWN, True)
    daemon.logged("ERROR create of container default/web/ctr (ctr): ", reply.message)
    daemon.logged(f"WARNING slow: container default/web/ctr (ctr): pid {pid} ", "left to finish")
    node.still_serves(daemon)
    gate.let_on()
    daemon.logged("INFO slow: ", f": pid {pid}, which was left running, has ended: exit code 0")
    gate.let_on()
    node.configure("slow")
    daemon.serves(stop("ctr"))
    assert node.runs("slow") == [("create", "ctr"), ("delete", "ctr")]
    assert ("create", "ctr") not in node.runs(), "the chain ended with its failure"
