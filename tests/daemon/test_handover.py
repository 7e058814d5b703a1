"""Two adapters on one node: one serves, the other waits and takes over, so that an upgrade loses nothing."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable

import pytest
from google.protobuf.message import Message

from adapter.nri import api
from adapter.wire import Code

from .harness import POD, Node, container, create, listed, start, stop
from .process import COMMAND, OVER, SAFETY, Daemon
from .test_metrics import page

ADJUSTS = '{"spec": {"process": {"env": ["A=1"]}}}'


@pytest.fixture(autouse=True)
def shared(node: Node) -> None:
    node.configure("good")
    node.shared_state = "state"


def both(daemons: tuple[Daemon, Daemon], event: Message) -> None:
    """Plays an event to each adapter, as a runtime does."""
    for daemon in daemons:
        daemon.serves(event)


def terminate(daemon: Daemon) -> None:
    os.kill(daemon.pid, signal.SIGTERM)
    daemon.logged("ending on SIGTERM")


def halt(daemon: Daemon) -> None:
    for pid in (daemon.guard, daemon.server):
        os.kill(pid, signal.SIGSTOP)


def go_on(daemon: Daemon) -> None:
    for pid in (daemon.server, daemon.guard):  # the guard would kill a server that is stopped
        os.kill(pid, signal.SIGCONT)


def launch_unfit(node: Node, conf: str) -> Daemon:
    """Launches an adapter with a list of plugins of its own."""
    (node.path / "other.json").write_text(conf)
    return node.launch({"config": f"{node.path}/other.json"}, metrics={"listen": f"unix:{node.path}/metrics"})


def readiness(node: Node, daemon: Daemon) -> tuple[int, str]:
    """What such an adapter answers to a probe."""
    daemon.logged("metrics and probes at ")
    return page(node.path / "metrics", "/readyz")


def life(*ids: str) -> list[tuple[str, str]]:
    """The creates of containers, and then their deletes."""
    return [(state, id_) for state in ("create", "delete") for id_ in ids]


def test_the_second_waits_names_the_first_and_owes_what_it_owed_when_it_is_killed(node: Node) -> None:
    first, second = node.launch(), node.launch()
    assert f"process {first.server} serves the events; this one waits" in second.logged("serves the events")
    both((second, first), start("c0"))
    both((first, second), stop("c0"))
    both((first, second), start("c1"))
    first.kill()
    assert first.ended() == -signal.SIGKILL
    second.serves(start("c2"), stop("c1"), stop("c2"))
    assert node.runs() == [*life("c0"), *life("c1", "c2")]


def test_a_create_that_the_first_has_run_before_it_was_killed_is_not_repeated(node: Node) -> None:
    """The runtime passes the event on to the second, which serves by then."""
    first, second = node.launch(), node.launch()
    second.logged("this one waits")
    first.serves(start("c1"))
    first.kill()
    second.serves(start("c1"), stop("c1"))
    assert node.runs() == life("c1")


def test_at_sigterm_the_second_serves_but_for_the_chains_under_way(node: Node) -> None:
    gate = node.slow(when='"create","id":"c1"')
    node.configure("slow")
    first, second = node.launch(), node.launch()
    first.send(start("c1"))
    gate.arrival()
    terminate(first)
    second.serves(start("c2"))
    delete = second.send(stop("c1"))
    assert node.runs("slow") == [("create", "c2")]
    gate.let_on()
    assert first.ended() == 0
    assert second.reply(delete).code == Code.OK
    assert node.runs("slow") == [("create", "c2"), *life("c1")]


def test_the_newest_serves_from_its_first_event_on_and_the_other_when_it_has_ended(node: Node) -> None:
    first, second = node.launch(), node.launch()
    both((first, second), start("c1"))
    first.logged("a newer adapter asks to serve the events")
    both((first, second), start("c2"))
    terminate(second)
    assert second.ended() == 0
    first.serves(stop("c1"), stop("c2"))
    assert node.runs() == [(what, id_) for what in ("create", "delete") for id_ in ("c1", "c2")]


def test_an_adapter_that_could_run_no_plugin_leaves_the_events_until_it_can_or_is_alone(node: Node) -> None:
    """So a rollout of a wrong list stops at its first node."""
    first = node.launch()
    for text, reason in (("{", "unexpected end"), ('{"plugins": [{"type": "absent"}]}', "absent: not found in")):
        second = launch_unfit(node, text)
        second.logged(reason, "this adapter waits until another one ends")
        both((first, second), start(f"c{len(text)}"))
        status, why = readiness(node, second)
        assert (status, why.startswith("unfit\n"), reason in why) == (503, True, True), why
        second.end()
        assert len([line for line in second.log if "this adapter waits" in line]) == 1
    assert [state for state, _ in node.runs()] == ["create", "create"]


def test_an_adapter_asks_for_the_lock_once_its_missing_program_is_there(node: Node) -> None:
    first, second = node.launch(), launch_unfit(node, '{"plugins": [{"type": "later"}]}')
    second.logged("later: not found in")
    node.plugin("later", node.record("later"))
    assert readiness(node, second) == (200, "joined\n")
    both((second, first), start("c1"))
    assert (node.runs("later"), node.runs()) == ([("create", "c1")], [])


def test_an_event_that_a_killed_owner_has_not_served_does_not_hold_up_an_adapter_without_plugins(node: Node) -> None:
    first, second = node.launch(), launch_unfit(node, "{")
    second.serves(start("c1"))  # it leaves the event to the first
    first.kill()
    second.logged("the previous adapter may have ended without StartContainer c1")
    second.logged("create of container default/web/c1 (c1): ", "no plugin can run")
    assert readiness(node, second) == (200, "joined\n")


def lingering(node: Node, seconds: float) -> Daemon:
    return node.spawn((COMMAND, "-linger", str(seconds))).handshake(node.settings())


def test_an_adapter_that_lingers_serves_after_sigterm_until_another_takes_over(node: Node) -> None:
    first = lingering(node, 1000)
    os.kill(first.pid, signal.SIGTERM)
    first.logged("SIGTERM: serves until another adapter takes over, for 1000 s at most")
    first.serves(start("c1"))
    second = node.launch()
    second.serves(start("c2"))
    assert first.ended() == 0
    second.serves(stop("c1"), stop("c2"))
    assert sorted(node.runs()) == life("c1", "c2")


def test_an_adapter_lingers_no_longer_than_it_is_told_and_ends_at_once_on_a_second_signal(node: Node) -> None:
    first = lingering(node, 0.01)
    first.end()
    second = lingering(node, 1000)
    os.kill(second.pid, signal.SIGTERM)
    second.logged("serves until another adapter takes over")
    os.kill(second.pid, signal.SIGTERM)
    assert second.ended() == 0
    second.logged("ending at once on a second signal")


def test_an_adapter_that_waits_or_loses_its_runtime_does_not_linger(node: Node) -> None:
    first, second = lingering(node, 1000), lingering(node, 1000)
    second.logged("this one waits")
    second.end()
    os.kill(first.pid, signal.SIGTERM)
    first.logged("serves until another adapter takes over")
    first.hang_up()
    assert first.ended() == 0


def test_a_runtime_that_sends_events_to_the_newest_alone_loses_none(node: Node) -> None:
    """NRI's pull request 281. The first event of the newest is adjusted, too: its answer waits for the lock."""
    node.plugin("good", node.record("good", ADJUSTS))
    settings = {"plugins": {"good": {"events": ["CreateContainer", "StopContainer"]}}}
    first, second = node.launch(settings), node.launch(settings)
    assert second.created(create("c1")).env
    second.kill()
    first.serves(stop("c1"))
    assert node.runs() == life("c1")


def test_an_event_that_was_left_to_an_adapter_that_is_killed_before_it_runs_without_another_event(node: Node) -> None:
    first, second = node.launch(), node.launch()
    both((first, second), start("c1"))
    first.serves(start("c2"))
    second.kill()
    first.logged("the previous adapter may have ended without StartContainer c2: its plugins run now")
    first.serves(stop("c2"))
    assert node.runs() == [("create", "c1"), *life("c2")]


def test_a_delete_that_failed_at_the_newest_adapter_is_run_by_the_one_that_serves_after_it(node: Node) -> None:
    first, second = node.launch(), node.launch()
    both((first, second), start("c1"))
    program, away = node.bin / "good", node.path / "away"
    program.rename(away)
    both((second, first), stop("c1"))
    away.rename(program)
    terminate(second)
    first.logged("c1 (c1) has gone without an event: its delete comes now")
    first.serves(start("c2"))
    assert node.runs() == [*life("c1"), ("create", "c2")]


def test_a_chain_under_way_at_a_hang_up_is_not_repeated_by_the_adapter_that_gets_the_event_next(node: Node) -> None:
    gate = node.slow(when='"create"')
    node.configure("slow", "good")
    first, second = node.launch(), node.launch()
    second.logged("this one waits")
    first.send(start("c1"))
    gate.arrival()
    first.hang_up()
    first.logged("the runtime has closed the connection")
    call = second.send(start("c1"))
    assert second.call("Nothing").code == Code.UNIMPLEMENTED  # after the event
    gate.let_on()
    assert second.reply(call).code == Code.OK
    second.serves(stop("c1"))
    assert (node.runs("slow"), node.runs()) == (life("c1"), life("c1"))


def test_a_chain_under_way_at_a_hang_up_is_not_repeated_after_the_delete_of_what_has_stopped_since(node: Node) -> None:
    gate = node.slow(when='"create","id":"c1"')
    node.configure("good", "slow")
    first, second = node.launch(log={"level": "debug"}), node.launch()
    both((first, second), start("c0"))
    second.send(start("c1"))
    gate.arrival()
    first.serves(start("c1"), stop("c1"))
    second.hang_up()
    first.logged("the previous adapter may have ended without StopContainer c1: its plugins run now")
    gate.let_on()
    first.logged("DEBUG delete of container default/web/c1 (c1): slow: done")
    first.serves(stop("c0"))
    assert node.runs() == [("create", "c0"), *life("c1"), ("delete", "c0")]


def test_an_owner_that_joins_again_while_another_has_a_plugin_under_way_owns_still(
    node: Node, listener: socket.socket
) -> None:
    gate = node.slow(when='"create","id":"c1"')
    node.configure("slow", "good")
    first, second = node.launch(), node.external(listener=listener).handshake()
    call = first.send(start("c1"))
    gate.arrival()
    second.serves(start("c2"))
    second.hang_up()
    second.accept(listener)
    second.handshake(told=listed("c2", api.CONTAINER_STOPPED))
    second.logged("c2 (c2) has gone without an event: its delete comes now")
    gate.let_on()
    assert first.reply(call).code == Code.OK
    second.end()
    assert sorted(node.runs()) == [("create", "c1"), *life("c2")]


def test_only_one_event_waits_for_an_owner_that_is_stopped_and_all_run_when_it_goes_on(node: Node) -> None:
    first, second = node.launch(), node.launch()
    second.logged("this one waits")
    halt(first)
    second.serves(start("c1"), timeout=OVER)
    second.serves(start("c2"), timeout=10 * SAFETY)
    assert node.runs() == []
    go_on(first)
    second.logged("the previous adapter may have ended without StartContainer c2: its plugins run now")
    second.serves(stop("c1"), stop("c2"))
    assert sorted(node.runs()) == sorted(life("c1", "c2"))


def test_an_event_that_no_owner_has_got_is_run_by_the_adapter_that_has_left_it(node: Node) -> None:
    first, second = node.launch(), node.launch()
    second.logged("this one waits")
    halt(first)
    second.serves(start("c1"), timeout=OVER)
    third = node.launch()
    third.logged("this one waits")
    halt(second)
    go_on(first)  # it releases the lock, as the second has asked
    third.logged("this one does from now on")
    third.serves(start("c2"))
    go_on(second)
    third.logged("a newer adapter asks to serve the events")
    second.logged("the previous adapter may have ended without StartContainer c1: its plugins run now")
    second.serves(stop("c1"))
    assert sorted(node.runs()) == [("create", "c1"), ("create", "c2"), ("delete", "c1")]


def test_a_killed_and_restarted_adapter_runs_the_delete_as_its_create_was_configured(node: Node) -> None:
    first = node.launch()
    first.serves(start("c1"))
    first.kill()
    second = node.spawn().handshake(node.settings(), listed("c1", api.CONTAINER_STOPPED))
    second.serves(start("c2"), stop("c2"))
    assert sorted(node.runs()) == life("c1", "c2")


def test_a_creation_that_was_under_way_at_sigterm_is_not_adjusted_twice(node: Node) -> None:
    """The runtime passes a creation on to the second when the first has answered: by then the second serves."""
    gate = node.slow()
    node.plugin("slow", f'{node.record("slow", ADJUSTS)}; case "$line" in *create*) {gate.script};; esac')
    node.configure("slow")
    settings = {"plugins": {"slow": {"events": ["CreateContainer", "StopContainer"]}}}
    first, second = node.launch(settings), node.launch(settings)
    second.logged("this one waits")
    under_way = first.send(create("c1"))
    gate.arrival()
    terminate(first)
    gate.let_on()
    adjusted = api.CreateContainerResponse.FromString(first.reply(under_way).payload).adjust
    assert [variable.key for variable in adjusted.env] == ["A"]
    gate.let_on()
    assert not second.created(create("c1")).ByteSize()
    second.serves(stop("c1"))
    assert node.runs("slow") == life("c1")


def test_a_creation_that_the_first_has_served_after_sigterm_is_not_adjusted_twice(node: Node) -> None:
    """A late chain holds up its end: it serves what comes meanwhile, for nobody else has taken the lock."""
    gate = node.slow(when="c1")
    node.plugin("adjusts", node.record("adjusts", ADJUSTS))
    node.configure("slow", "adjusts")
    plugins = {"slow": {"events": ["StartContainer"]}, "adjusts": {"events": ["CreateContainer"]}}
    first, second = (node.launch({"onFailure": "ignore", "plugins": plugins}) for _ in range(2))
    second.logged("this one waits")
    first.serves(start("c1"), timeout=OVER)
    gate.arrival()
    terminate(first)
    first.serves(create("c2"))
    gate.let_on()
    assert first.ended() == 0
    second.serves(create("c2"))
    assert node.runs("adjusts") == [("create", "c2")]


# ---- what an adapter finds in its state directory, and what becomes of it: nothing runs twice, nothing is left out

EVENTS = ["CreateContainer", "StartContainer", "UpdateContainer", "StopContainer"]
REPEATED: list[Message] = [
    start("c1"),
    create("c1"),
    api.UpdateContainerRequest(pod=POD, container=container("c1")),
]


@pytest.mark.parametrize("end", [Daemon.end, Daemon.kill])
@pytest.mark.parametrize("event", REPEATED, ids=lambda event: type(event).__name__)
def test_the_first_event_after_a_restart_is_run(event: Message, end: Callable[[Daemon], object], node: Node) -> None:
    """The runtime passes no event of one adapter on to another that joins later: it is another event."""
    settings = {"plugins": {"good": {"events": EVENTS}}} if event is not REPEATED[0] else {}
    first = node.launch(settings)
    first.serves(event)
    end(first)
    node.launch(settings).serves(event)
    assert len(node.runs()) == 2


@pytest.mark.parametrize("end", [Daemon.end, Daemon.kill])
def test_one_that_has_waited_runs_an_event_like_an_earlier_one(node: Node, end: Callable[[Daemon], object]) -> None:
    first = node.launch()
    first.serves(start("c1"))
    second = node.spawn().handshake(node.settings(), listed("c1", api.CONTAINER_RUNNING))
    second.logged("this one waits")
    end(first)
    second.serves(start("c1"))
    assert node.runs() == [("create", "c1")] * 2
