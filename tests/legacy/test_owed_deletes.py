"""Deletes in histories that are rare: which are owed, with which configuration, in which order, with which pid."""

from __future__ import annotations

import pytest

from adapter.nri import api

from .node import Node, a_container, a_pod
from .scenarios import Player

CREATES_AND_REMOVALS = "with a.events=StartContainer,StopContainer,RemoveContainer"
DELETES = {
    "a create queued behind a late delete gets its delete": (
        "with a.events=StartContainer,PostStartContainer,StopContainer; plugins a=hold_at_first_delete;"
        "create c1 -> ok; stop c1; a holds; late; it is ok; begin c1; remove c1; it is pending; let a;"
        "begin c1 gets ok; remove c1 gets ok; ran a create c1, a delete c1, a create c1, a delete c1; stop c1 -> -;"
        "knows"
    ),
    "a delete queued behind an update is not taken twice": (
        "with a.events=StartContainer,UpdateContainer,StopContainer; plugins a=hold_at_delete; create c1 -> ok;"
        "stop c1; a holds; update c1; remove c1 -> -; let a; idle; stop c1 is ok;"
        "ran a create c1, a delete c1, a update c1"
    ),
    "deletes run in the order of conf.json, whoever is owed one": (
        "with a.events=StopContainer; plugins a=answer b=answer; create c1 -> ok; stop c1 -> ok;"
        "ran b create c1, a delete c1, b delete c1"
    ),
    "deletes of plugins that conf.json names no more come first": (
        "plugins x=answer a=answer b=answer y=answer; create c1 -> ok;"
        "ran x create c1, a create c1, b create c1, y create c1; conf b a; stop c1 -> ok;"
        "ran x delete c1, y delete c1, b delete c1, a delete c1"
    ),
    "a removal has the pid that the create had though no delete is owed": (
        "with a.events=StartContainer,RemoveContainer; plugins a=answer; create c1 pid 33 -> ok; remove c1 -> ok;"
        "pids a: 33 33"
    ),
    "a removal behind the stop has the pid too": (
        f"{CREATES_AND_REMOVALS}; plugins a=answer; create c1 pid 33 -> ok; stop c1; remove c1 -> ok;pids a: 33 33 33"
    ),
    "what a create knew is forgotten with the delete if no plugin runs at removals": (
        "plugins a=answer; create c1 -> ok; knows c1; stop c1 -> ok; knows"
    ),
    "what a create knew is forgotten with the removal": (
        "with b.events=RemoveContainer; plugins a=answer; create pod -> ok; create c1 -> ok; stop c1 -> ok;"
        "knows c1 pod; remove c1 -> -; knows pod; remove pod -> ok; knows"
    ),
    "what a create knew outlives a removal until the last job has ended": (
        "with fail_create=False; plugins a=hold_at_create; create c1 pid 33; a holds; late; stop c1; remove c1 -> -;"
        "let a; stop c1 gets ok; pids a: 33 33; knows"
    ),
    "what is owed to a container comes with its pod's removal at the latest, for CRI-O may tell no other end": (
        "plugins a=answer; create c1 in pod1 -> ok; create c2 in pod2 -> ok; remove pod1; idle;"
        "ran a create c1, a create c2, a delete c1; knows c2"
    ),
}


@pytest.mark.parametrize("name", DELETES)
def test_scenario(name: str, player: Player) -> None:
    player.play(DELETES[name])


def test_what_a_runtime_says_is_running_gets_its_delete_though_an_earlier_delete_is_under_way(
    node: Node, player: Player
) -> None:
    player.play("plugins a=hold_at_first_delete; create c1 -> ok; stop c1; a holds; late; it is ok")
    node.bridge.runtime_is_gone()
    node.bridge.synchronize([a_pod()], [a_container("c1", pod_sandbox_id="pod", state=api.CONTAINER_RUNNING)])
    player.play("stop c1; it is pending; let a; it gets ok; ran a create c1, a delete c1, a delete c1; stop c1 -> -")


@pytest.mark.parametrize("stops", [True, False])
def test_the_one_delete_has_the_configuration_of_its_create_and_a_removal_without_one_that_of_now(
    node: Node, player: Player, stops: bool
) -> None:
    """The one delete is what the original would have sent, whichever event brings it."""
    player.play(f"{CREATES_AND_REMOVALS}; plugin a")
    node.configure(("a", "of the create"))
    player.play("create c1 -> ok" + ("; stop c1 -> ok" if stops else ""))
    node.configure(("a", "of now"))
    player.play("remove c1 -> ok")
    last = node.requests("a")[-1]
    wanted = ("RemoveContainer", "of now") if stops else (None, "of the create")
    assert (last["state"], last.get("event"), last["conf"]) == ("delete", *wanted)
    assert node.runs == ["a create c1", *["a delete c1"] * (1 + stops)]


def test_a_version_of_conf_json_counts_though_no_plugin_had_a_turn_while_it_was_there(
    node: Node, player: Player
) -> None:
    """It is looked at for every event."""
    player.play("plugins a=answer; stop c0 -> -")
    node.conf_json.write_text("{")
    player.play("create c1 -> ok; ran a create c1")
