"""Two adapters on one node: whoever is asked first serves, so an upgrade loses nothing and nothing runs twice.

As NRI does, a test plays an event to the adapters in turn: to the next one when the one before has answered or is late.
tests/turns shows who serves in every case, with whole adapters; here is what processes add: signals, kills, hangs.
"""

from __future__ import annotations

import os
import signal
import socket

import pytest
from google.protobuf.message import Message

from nri import api
from nri.wire import Code
from v010_adapter.events.turns import owners_in

from ..rig.daemon import COMMAND, Daemon
from ..rig.machine import HURRIED, HURRY, Machine, create, start, stop
from .test_metrics import page

ADJUSTS = '{"spec": {"process": {"env": ["A=1"]}}}'


@pytest.fixture(autouse=True)
def shared(node: Machine) -> None:
    node.configure("good")
    node.shared_state = "state"


def each(daemons: tuple[Daemon, ...], *events: Message) -> None:
    """Plays events to each adapter, as a runtime does."""
    for event in events:
        for daemon in daemons:
            daemon.serves(event)


def life(*ids: str) -> list[tuple[str, str]]:
    """The creates of containers, and then their deletes."""
    return [(state, id_) for state in ("create", "delete") for id_ in ids]


# ---- an adapter that is killed


def test_a_kill_in_the_middle_of_a_creation_lets_the_second_adjust_it(node: Machine) -> None:
    """The runtime does not have the changes of the first."""
    node.plugin("good", node.record("good", ADJUSTS))
    gate = node.slow(when='"create"')
    node.configure("good", "slow")
    events = {"events": ["CreateContainer", "StopContainer"]}
    first, second = (node.launch({"plugins": {"good": events, "slow": events}}) for _ in range(2))
    first.send(create("c1"))
    gate.arrival()
    first.kill()
    call = second.send(create("c1"))
    gate.arrival()
    gate.let_on()
    answer = api.CreateContainerResponse.FromString(second.reply(call).payload)
    assert [variable.key for variable in answer.adjust.env] == ["A"]
    second.serves(stop("c1"))
    assert node.runs()[-1] == ("delete", "c1")
    assert len(node.runs()) == 3


# ---- an adapter that hangs: the runtime asks the next one when its time is up


@pytest.mark.parametrize(("on_failure", "code"), [("refuse", Code.UNKNOWN), ("ignore", Code.OK)])
def test_an_event_that_an_adapter_hangs_in_waits_at_the_next_one_until_its_own_deadline(
    node: Machine, on_failure: str, code: int
) -> None:
    gate = node.slow(when='"create","id":"c1"')
    node.configure("slow")
    first, second = node.launch(), node.launch({"onFailure": on_failure}, patch=HURRY)
    call = first.send(start("c1"))
    gate.arrival()
    processes = first.guard, first.server
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    assert second.call(start("c1"), HURRIED).code == code
    second.serves(start("c2"))
    for pid in reversed(processes):  # the guard would kill a server that is stopped
        os.kill(pid, signal.SIGCONT)
    gate.let_on()
    assert first.reply(call).code == Code.OK
    each((first, second), stop("c1"), stop("c2"))
    assert sorted(node.runs("slow")) == life("c1", "c2")


# ---- the end of an adapter


def test_after_sigterm_an_adapter_serves_what_comes_until_it_is_idle(node: Machine) -> None:
    gate = node.slow(when="c1")
    node.configure("slow")
    first, second = (node.launch({"onFailure": "ignore"}, patch=HURRY) for _ in range(2))
    first.serves(start("c1"), timeout=HURRIED)
    gate.arrival()
    first.terminate()
    first.serves(start("c2"))
    gate.let_on()
    assert first.ended() == 0
    second.serves(start("c2"), stop("c2"))
    assert node.runs("slow") == [("create", "c2"), ("create", "c1"), ("delete", "c2")]


def test_deletes_that_outlast_the_end_of_an_adapter_count_as_run(node: Machine) -> None:
    gate = node.slow(when='"delete"')
    node.configure("slow", "good")
    first = node.launch(patch="daemon.GRACE = 0.05")
    second = node.launch()
    each((first, second), start("c1"))
    first.send(stop("c1"))
    gate.arrival()
    os.kill(first.pid, signal.SIGTERM)
    first.logged("ERROR legacy plugins or the runtime were still busy after 0.05 s")
    assert first.ended() == 0
    second.serves(stop("c1"))
    assert node.runs() == life("c1"), "this plugin had not got its request"
    assert node.runs("slow") == [("create", "c1")], "this one has it, and is left to finish"


def lingering(node: Machine, seconds: float) -> Daemon:
    return node.spawn((COMMAND, "-linger", str(seconds))).handshake(node.settings())


def test_an_adapter_that_lingers_serves_after_sigterm_until_another_has_joined(node: Machine) -> None:
    first = lingering(node, 1000)
    os.kill(first.pid, signal.SIGTERM)
    first.logged("SIGTERM: serves until another adapter has joined, for 1000 s at most")
    first.serves(start("c1"))
    second = node.launch()
    assert first.ended() == 0
    second.serves(start("c2"), stop("c1"), stop("c2"))
    assert sorted(node.runs()) == life("c1", "c2")


def test_an_adapter_that_has_lost_its_runtime_is_no_other_that_has_joined(
    node: Machine, listener: socket.socket
) -> None:
    first = node.external(listener=listener).handshake()
    second = lingering(node, 1000)
    first.hang_up()
    first.logged("until the adapter has joined again")
    os.kill(second.pid, signal.SIGTERM)
    second.logged("SIGTERM: serves until another adapter has joined")
    second.serves(start("c1"))
    first.accept(listener).handshake()
    assert second.ended() == 0
    first.serves(stop("c1"))
    assert node.runs() == life("c1")


def test_an_adapter_lingers_no_longer_than_it_is_told_and_ends_at_once_on_a_second_signal(node: Machine) -> None:
    first = lingering(node, 0.01)
    first.end()
    second = lingering(node, 1000)
    os.kill(second.pid, signal.SIGTERM)
    second.logged("serves until another adapter has joined")
    os.kill(second.pid, signal.SIGTERM)
    assert second.ended() == 0
    second.logged("ending at once on a second signal")


def test_an_adapter_beside_another_or_without_a_runtime_does_not_linger(node: Machine) -> None:
    first, second = lingering(node, 1000), lingering(node, 1000)
    second.end()
    os.kill(first.pid, signal.SIGTERM)
    first.logged("serves until another adapter has joined")
    first.hang_up()
    assert first.ended() == 0


# ---- an adapter that could run no plugin


def unfit(node: Machine, conf: str) -> Daemon:
    """Starts an external adapter with a list of plugins of its own."""
    (node.path / "other.json").write_text(conf)
    settings = {"config": f"{node.path}/other.json"}
    return node.external("-config", node.file(settings, metrics={"listen": f"unix:{node.path}/metrics"}))


@pytest.mark.parametrize(
    ("conf", "reason"), [("{", "unexpected end"), ('{"plugins": [{"type": "later"}]}', "later: not found in")]
)
def test_an_external_adapter_that_could_run_no_plugin_joins_when_it_can_or_would_be_alone(
    node: Machine, listener: socket.socket, conf: str, reason: str
) -> None:
    """So a rollout of a wrong list stops at its first node."""
    first = node.launch()
    second = unfit(node, conf)
    second.logged(reason, "another adapter serves, and this one waits", "the adapter keeps trying to join")
    second.logged("metrics and probes at ")
    status, why = page(node.path / "metrics", "/readyz")
    assert (status, why.startswith("unfit\n"), reason in why) == (503, True, True), why
    assert [line for line in second.log if "other.json" in line and "this one waits" not in line] == [], "not each time"
    if conf == "{":
        first.end()
    else:
        node.plugin("later", node.record("later"))
    second.accept(listener).handshake()
    assert page(node.path / "metrics", "/readyz") == (200, "joined\n")
    assert len([line for line in second.log if "this one waits" in line]) == 1


# ---- an adapter of another owner


def owned(node: Machine, owner: str) -> Daemon:
    """Starts an external adapter of an owner, whose list is its own."""
    file = node.path / f"{owner}.yaml"
    file.write_text(node.settings(state={"owner": owner}, metrics={"listen": f"unix:{node.path}/{owner}-metrics"}))
    return node.external("-config", file)


def test_an_adapter_does_not_join_beside_one_of_another_owner(node: Machine, listener: socket.socket) -> None:
    """It may have other plugins and hooks, and only one of both would serve: two releases of the chart, for example."""
    first = owned(node, "one")
    first.accept(listener).handshake()
    second = owned(node, "two")
    second.logged("state.owner: an adapter of one has joined, and this one is of two", "this one waits")
    second.logged("metrics and probes at ")
    status, why = page(node.path / "two-metrics", "/readyz")
    assert (status, "unfit\nnot joined with a runtime: state.owner: an adapter of one has joined" in why) == (503, True)
    successor = owned(node, "one")  # as at an upgrade
    successor.accept(listener).handshake()
    first.end()
    successor.serves(start("c1"), stop("c1"))
    assert node.runs() == life("c1")
    successor.end()
    second.accept(listener).handshake()
    assert page(node.path / "two-metrics", "/readyz") == (200, "joined\n")


def test_of_two_owners_whose_adapters_come_at_once_one_joins(node: Machine, listener: socket.socket) -> None:
    """When they connect, neither finds the other one."""
    daemons = []
    for owner in ("one", "two"):
        daemons.append(owned(node, owner))
        daemons[-1].accept(listener).registration()
        daemons[-1].configure()
    first, second = daemons
    first.serves(api.SynchronizeRequest())
    refusal = second.call(api.SynchronizeRequest())
    assert refusal.message == "state.owner: an adapter of one has joined, and this one is of two"
    assert owners_in(f"{node.path}/state") == ["one"]
    second.hang_up()  # as NRI does
    second.logged("this one waits")
    first.serves(start("c1"), stop("c1"))
    assert node.runs() == life("c1")
    first.end()
    second.accept(listener).handshake()


# ---- the state directory


def test_what_an_adapter_cannot_know_a_plugin_for_is_left_to_the_next_one(node: Machine) -> None:
    (node.path / "other.json").write_text("{")
    first = node.launch({"config": f"{node.path}/other.json", "onFailure": "ignore"})
    second = node.launch()
    each((first, second), start("c1"), stop("c1"))
    assert node.runs() == life("c1")
