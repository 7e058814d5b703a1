"""Two adapters on one node: one serves, the other waits and takes over, so that an upgrade loses nothing."""

from __future__ import annotations

import os
import signal

from google.protobuf.message import Message

from adapter.nri import api
from adapter.wire import Code

from .harness import Node, patched, slow
from .messages import POD, container, start, stop
from .process import OVER, Daemon


def two(node: Node, plugin: str = "good") -> tuple[Daemon, Daemon]:
    """An adapter that serves, and one beside it that waits."""
    node.configure(plugin)
    node.shared_state = "state"
    return node.launch(), node.launch()


def both(daemons: tuple[Daemon, Daemon], method: str, request: Message) -> None:
    """Plays an event to each adapter, as a runtime does."""
    for daemon in daemons:
        assert daemon.call(method, request).code == Code.OK


def test_the_second_waits_names_the_first_and_owes_what_it_owed_when_it_is_killed(node: Node) -> None:
    first, second = two(node)
    assert f"process {first.server} serves the events; this one waits" in second.logged("serves the events")
    both((second, first), "StartContainer", start("c0"))
    both((first, second), "StopContainer", stop("c0"))
    both((first, second), "StartContainer", start("c1"))
    first.kill()
    assert first.ended() == -signal.SIGKILL
    assert second.call("StartContainer", start("c2")).code == Code.OK
    for id_ in ("c1", "c2"):
        assert second.call("StopContainer", stop(id_)).code == Code.OK
    creates, deletes = ([(what, f"c{number}") for number in (1, 2)] for what in ("create", "delete"))
    assert node.runs("good") == [("create", "c0"), ("delete", "c0"), *creates, *deletes]


def test_a_create_that_the_first_has_run_before_it_was_killed_is_not_repeated(node: Node) -> None:
    """The runtime passes the event on to the second, which serves by then."""
    first, second = two(node)
    assert first.call("StartContainer", start("c1")).code == Code.OK
    first.kill()
    first.ended()
    for method, request in (("StartContainer", start("c1")), ("StopContainer", stop("c1"))):
        assert second.call(method, request).code == Code.OK
    assert node.runs("good") == [("create", "c1"), ("delete", "c1")]


def test_at_sigterm_the_second_serves_but_for_the_chains_under_way(node: Node) -> None:
    gate = node.gate()
    slow(node, gate, when='"create","id":"c1"')
    first, second = two(node, "slow")
    first.send("StartContainer", start("c1"))
    gate.arrival()
    os.kill(first.pid, signal.SIGTERM)
    first.logged("ending on SIGTERM")
    assert second.call("StartContainer", start("c2")).code == Code.OK
    delete = second.send("StopContainer", stop("c1"))
    assert node.runs("slow") == [("create", "c2")]
    gate.let_on()
    assert first.ended() == 0
    assert second.reply(delete).code == Code.OK
    assert node.runs("slow") == [("create", "c2"), ("create", "c1"), ("delete", "c1")]


def test_at_sigterm_the_first_still_serves_the_event_that_the_second_has_passed_on_to_it(node: Node) -> None:
    node.configure("good")
    node.shared_state = "state"
    first = node.spawn(patched("from adapter.daemon import daemon", "daemon.LINGER = 3600")).handshake(node.settings())
    second = node.launch()
    assert second.call("StartContainer", start("c1")).code == Code.OK
    os.kill(first.pid, signal.SIGTERM)
    first.logged("ending on SIGTERM")
    assert first.call("StartContainer", start("c1")).code == Code.OK
    assert second.call("StopContainer", stop("c1")).code == Code.OK
    assert node.runs("good") == [("create", "c1"), ("delete", "c1")]


def test_what_stopped_while_nobody_served_gets_its_delete_when_the_second_takes_over(node: Node) -> None:
    first, _ = two(node)
    at_once = patched("from adapter.daemon import bridge", "bridge.SECOND_LOOK = 0.0")
    second = node.spawn(at_once).handshake(node.settings(log={"level": "debug"}))
    both((first, second), "StartContainer", start("c1"))
    for pid in (first.guard, first.server):  # it has the lock, and serves nothing
        os.kill(pid, signal.SIGSTOP)
    assert second.call("StopContainer", stop("c1")).code == Code.OK
    assert node.runs("good") == [("create", "c1")]
    first.kill()
    first.ended()
    assert second.call("StartContainer", start("c2")).code == Code.OK
    second.logged("container default/web/c1 (c1) has gone without an event")
    second.logged("DEBUG delete of container default/web/c1 (c1): good: done")
    assert second.call("StopContainer", stop("c2")).code == Code.OK
    assert sorted(node.runs("good")) == [("create", "c1"), ("create", "c2"), ("delete", "c1"), ("delete", "c2")]


def test_a_killed_and_restarted_adapter_runs_the_delete_as_its_create_was_configured(node: Node) -> None:
    node.configure("good")
    node.shared_state = "state"
    first = node.launch()
    assert first.call("StartContainer", start("c1")).code == Code.OK
    first.kill()
    first.ended()
    second = node.spawn()
    second.registration()
    second.configure(node.settings())
    running = container("c1")
    running.state = api.CONTAINER_STOPPED
    assert second.call("Synchronize", api.SynchronizeRequest(pods=[POD], containers=[running])).code == Code.OK
    for method, request in (("StartContainer", start("c2")), ("StopContainer", stop("c2"))):
        assert second.call(method, request).code == Code.OK
    assert sorted(node.runs("good")) == [("create", "c1"), ("create", "c2"), ("delete", "c1"), ("delete", "c2")]


def test_a_creation_that_was_under_way_at_sigterm_is_not_adjusted_twice(node: Node) -> None:
    """The runtime passes a creation on to the second when the first has answered: by then the second serves."""
    gate = node.gate()
    result = '{"spec": {"process": {"env": ["A=1"]}}}'
    node.plugin("slow", f'{node.record("slow", result)}; case "$line" in *create*) {gate.script};; esac')
    node.configure("slow")
    node.shared_state = "state"
    settings = {"plugins": {"slow": {"events": ["CreateContainer", "StopContainer"]}}}
    first, second = node.launch(settings), node.launch(settings)
    second.logged("this one waits")
    made = api.CreateContainerRequest(pod=POD, container=container("c1"))
    under_way = first.send("CreateContainer", made)
    gate.arrival()
    os.kill(first.pid, signal.SIGTERM)
    first.logged("ending on SIGTERM")
    gate.let_on()
    adjusted = api.CreateContainerResponse.FromString(first.reply(under_way).payload).adjust
    assert [variable.key for variable in adjusted.env] == ["A"]
    gate.let_on()
    again = second.call("CreateContainer", made)
    assert api.CreateContainerResponse.FromString(again.payload) == api.CreateContainerResponse()
    assert second.call("StopContainer", stop("c1")).code == Code.OK
    assert node.runs("slow") == [("create", "c1"), ("delete", "c1")]


def test_a_creation_that_the_first_has_served_after_sigterm_is_not_adjusted_twice(node: Node) -> None:
    """A late chain holds up its end: it serves what comes meanwhile, for nobody else has taken the lock."""
    gate = node.gate()
    slow(node, gate, "slow", when="c1")
    node.plugin("adjusts", node.record("adjusts", '{"spec": {"process": {"env": ["A=1"]}}}'))
    node.configure("slow", "adjusts")
    node.shared_state = "state"
    plugins = {"slow": {"events": ["StartContainer"]}, "adjusts": {"events": ["CreateContainer"]}}
    first, second = (node.launch({"onFailure": "ignore", "plugins": plugins}) for _ in range(2))
    second.logged("this one waits")
    assert first.call("StartContainer", start("c1"), OVER).code == Code.OK
    gate.arrival()
    os.kill(first.pid, signal.SIGTERM)
    first.logged("ending on SIGTERM")
    made = api.CreateContainerRequest(pod=POD, container=container("c2"))
    assert first.call("CreateContainer", made).code == Code.OK
    gate.let_on()
    assert first.ended() == 0
    assert second.call("CreateContainer", made).code == Code.OK
    assert node.runs("adjusts") == [("create", "c2")]
