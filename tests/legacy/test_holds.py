"""Containers that are held while their plugins run: when, until when, and what becomes of container and chain.

`tests/holding` has real containers.
"""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from nri import api
from v010_adapter.events.work import LONGEST_PAUSE

from ..rig.node import Node
from .scenarios import Player
from .test_bridge import being_written

HELD = "can hold; plugins a=hold; create c1; a holds; late; it is ok; held c1 for a; "
AT_ONCE = "can hold; with hold_after=0; plugins a=hold_at_create b=answer; create c1; a starts; settle; it is ok;"
TWO = AT_ONCE + "held c1 for a; "
STOPPED = "plugin: a: StopContainer has come while the container was held"
LOST = "plugin: a: the connection with the runtime is lost"

SCENARIOS = {
    "a container is held when its time is up and starts when its plugins are done": (
        "can hold; plugins a=hold_at_create b=answer; create c1; a holds; +1.749; it is pending; held ;"
        "+0.001; it is ok; held c1 for a; let a; idle; held c1 starts; ran a create c1, b create c1; chain of b: a;"
        "logs ; counts runs=2; stop c1 -> ok"
    ),
    "what cannot be held when its time is nearly up has the rest of it": (
        "can hold; plugins a=hold; create c1; a holds; +1.7; cannot hold; +0.05; it is pending; let a; idle; "
        "it is ok; held "
    ),
    "a plugin that is done in time holds nothing": "can hold; plugins a=answer; create c1 -> ok; held ; logs ",
    "a failure refuses the container and ends the chain": (
        "can hold; plugins a=hold_and_exit_3 b=answer; create c1; a holds; late; it is ok; held c1 for a; let a; idle;"
        "held c1 is refused: plugin: a: no result (no output), exit code 3; ran a create c1;"
        "logs create of container c1: plugin: a: no result (no output), exit code 3; counts runs=1 failures=1"
    ),
    "nothing is held longer than the limit and then a plugin that must not fail has failed": (
        HELD + "+29.999; held ; +0.002; held c1 is refused: plugin: a: no result within 31.9 s; let a; idle; held ;"
        "counts runs=1 failures=1 late=1"
    ),
    "at the limit a chain that may fail goes on behind the start": (
        "can hold; with fail_create=False; plugins a=hold_at_create b=answer; create c1; a holds; late;"
        "held c1 for a; +30.001; held c1 starts; settle; idle; ran a create c1, b create c1"
    ),
    "a plugin has its own time while the container is held and the limit for late ones is none": (
        "can hold; with timeout=5 late_limit=1 a.fail_create=False; plugins a=hold b=hold; create c1; a holds; late;"
        "it is ok; held c1 for a; +3.099; ran a create c1; +0.002; b starts; ran b create c1; +4.998; held ; +0.002;"
        "held c1 is refused: plugin: b: no result within 5.0 s"
    ),
    "without evidence all is as without holds": (
        "can hold; cannot hold; plugins a=hold; create c1; a holds; late;"
        "it is plugin: a: no result within 1.9 s; held ; let a; idle"
    ),
    "what can be held no longer when its time is up is as without holds": (
        "can hold; plugins a=hold; create c1; a holds; +1.5; cannot hold; +0.4;"
        "it is plugin: a: no result within 1.9 s; held ; let a; idle"
    ),
    "what cannot be held early has its whole time": (
        "can hold; with hold_after=0.5; cannot hold; plugins a=hold; create c1; a holds; +1.899; it is pending; +0.001;"
        "it is plugin: a: no result within 1.9 s; held ; let a; idle"
    ),
    "a hold may begin at once": TWO + "let a; idle; held c1 starts; ran a create c1, b create c1",
    "a hold may begin earlier than its time is up": (
        "can hold; with hold_after=0.5; plugins a=hold; create c1; a holds; +0.499; it is pending; +0.001; it is ok;"
        "held c1 for a; let a; idle; held c1 starts"
    ),
    "no hold begins later than its time is up": (
        "can hold; with hold_after=60; plugins a=hold; create c1; a holds; late; it is ok; held c1 for a; let a; idle;"
        "held c1 starts"
    ),
    "never is never": (
        "can hold; with hold_after=null; plugins a=hold; create c1; a holds; late;"
        "it is plugin: a: no result within 1.9 s; held ; let a; idle"
    ),
    "a container that is stopped while it is held is refused and its delete waits for the plugin": (
        TWO + f"stop c1; settle; held c1 is refused: {STOPPED}; stop c1 is pending; let a; idle; it is ok;"
        "ran a create c1, a delete c1; counts runs=2"
    ),
    "what has been stopped is not held any more": (
        "can hold; plugins a=hold_at_create; create c1; a holds; stop c1; late;"
        "create c1 is plugin: a: no result within 1.9 s; held ; let a; idle"
    ),
    "the stop of the pod refuses its containers": (
        TWO + "stop pod; settle; held c1 is refused: plugin: a: StopPodSandbox has come while the container was held;"
        "let a; idle; ran a create c1"
    ),
    "other containers and pods may stop": (
        TWO + "stop c2 -> -; stop pod2 -> -; settle; held ; let a; idle; held c1 starts; ran a create c1, b create c1"
    ),
    "a container that ends while it is held needs no further plugin": (
        TWO + "keeper gone c1; settle; held ; let a; idle; ran a create c1; "
        "logs a: container c1: pid N has no result in time: left to finish; stop c1 -> ok; ran a delete c1"
    ),
    "a hold that the keeper has ended is over": (
        TWO + "keeper refused c1; settle; held ; let a; idle; ran a create c1; counts runs=1 failures=1"
    ),
    "what the keeper has refused for a plugin that has printed its result meanwhile needs no further plugin": (
        "can hold; with b.fail_create=False hold_after=0; plugins a=work_on b=answer; create c1; a starts; settle;"
        "held c1 for a; keeper refused c1; settle; held ; let a; idle; ran a create c1; counts runs=1"
    ),
    "with the runtime holds end": (
        TWO + f"lose runtime; settle; held c1 is refused: {LOST}; let a; idle; ran a create c1"
    ),
    "with the runtime holds end and no create begins that has waited for one that is held": (
        "can hold; with hold_after=0; plugins a=work_on; create c1; a starts; settle; held c1 for a; create c1;"
        "lose runtime; settle; held c1 starts; let a; idle; ran a create c1"
    ),
    "with the runtime holds end and what may fail goes on": (
        "can hold; with fail_create=False hold_after=0; plugins a=hold_at_create b=answer; create c1; a starts; settle;"
        "held c1 for a; lose runtime; held c1 starts; let a; idle; ran a create c1, b create c1"
    ),
    "containers are held for the chain of their pod": (
        "can hold; with fail_create=False; plugins a=hold_for_pod; create pod; a holds; late; it is ok; held ;"
        "create c1; +1.749; it is pending; +0.002; it is ok; held c1 for create of sandbox pod; let a; idle;"
        "held c1 starts; ran a create pod, a create c1"
    ),
    "what waits for its pod and is stopped runs nothing": (
        "can hold; with fail_create=False; plugins a=hold_for_pod; create pod; a holds; late; create c1; late;"
        "it is ok; held c1 for create of sandbox pod; stop c1; settle;"
        f"held c1 is refused: {STOPPED}; let a; idle; ran a create pod"
    ),
    "a plugin that works on holds nobody for longer than it would hold the event": (
        "can hold; with hold_after=0; plugins a=work_on b=answer; create c1; a starts; settle; it is ok; held c1 for a;"
        "+1.9; +0.2; idle; held c1 starts; ran a create c1, b create c1; let a"
    ),
    "when its time is up what is printed counts before a container is held": (
        "can hold; plugins a=work_on; create c1; a holds; late; it is ok; held ; let a; idle"
    ),
    "it is held for what is left after that": (
        "can hold; plugins a=work_on b=hold; create c1; a holds; late; it is ok; held c1 for b; b starts; let b; idle;"
        "held c1 starts; let a"
    ),
    "pods are never held": (
        "can hold; plugins a=hold; create pod; a holds; late; it is plugin: a: no result within 1.9 s; held ; let a;"
        "idle"
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_a_scenario_says_happens(name: str, player: Player) -> None:
    player.play(SCENARIOS[name])


def test_an_exempt_container_is_not_held(node: Node, player: Player) -> None:
    player.play("can hold; with exempt=[kube-system] hold_after=0; plugins a=hold")
    request = api.StartContainerRequest()
    request.pod.CopyFrom(api.PodSandbox(id="pod", namespace="kube-system"))
    request.container.CopyFrom(api.Container(id="c1", pod_sandbox_id="pod"))
    answer = node.handle("StartContainer", request)
    node.hear("a create c1 holds")
    player.play("+1.899; held ")
    assert answer.pending
    player.play("+0.002; held ; let a; idle")
    assert answer.outcome == "ok"


def test_if_the_adapter_ends_what_must_finish_is_refused_and_the_rest_starts(node: Node, player: Player) -> None:
    player.play("can hold; with hold_after=0 b.fail_create=False; plugins a=hold b=hold; create c1; a starts; settle")
    assert node.holder is not None
    assert node.holder.at_end == {"c1": True}
    player.play("let a; b starts; let b; idle; conf b; create c2; b starts; settle")
    assert node.holder.at_end == {"c1": True, "c2": False}
    player.play("let b; idle")


def test_a_hold_that_is_early_waits_for_the_keeper_and_one_at_the_deadline_does_not(node: Node, player: Player) -> None:
    player.play("can hold; with hold_after=0")
    assert node.holder is not None
    node.holder.is_ready = False
    player.play("plugins a=hold; create c1; a holds; +1.0; it is pending; held ")
    node.holder.is_ready = True
    player.play("+0.02; it is ok; held c1 for a; let a; idle")


@pytest.mark.parametrize("where", ["can_hold", "hold"])
def test_an_event_whose_hold_meets_a_bug_is_answered_when_it_is_due(
    node: Node, player: Player, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    player.play("can hold")
    monkeypatch.setattr(node.holder, where, Mock(side_effect=ZeroDivisionError("a bug")))
    player.play("plugins a=hold; create c1; a holds; +1.899; it is pending; held ; +0.002")
    player.play("it is plugin: a: no result within 1.9 s; let a; idle")
    assert [record.message for record in caplog.records if record.exc_info] == [
        "a bug: create of container c1: its hold"
    ]


def test_a_container_that_is_stopped_while_its_plugin_is_being_written_is_refused_and_starts_nothing(
    node: Node, player: Player
) -> None:
    player.play("can hold; with hold_after=0; plugins a=answer")
    with being_written(node.folder / "a"):
        player.play(f"create c1; settle; held c1 for a; stop c1 -> -; held c1 is refused: {STOPPED}")
        node.loop.advance(LONGEST_PAUSE)
    assert node.runs == []
