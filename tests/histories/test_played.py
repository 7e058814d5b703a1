"""Histories of a few events and one fault, each in full: whole adapters, on a loop that is played."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from v010_adapter.host.trust import off
from v010_adapter.legacy.config import Entry
from v010_adapter.settings import LegacySettings, PluginSettings

from .event import Event
from .peer import Peer
from .playing import playing
from .story import Story
from .world import World

T = TypeVar("T")


PLUGINS = {
    "q": PluginSettings(events=frozenset({"CreateContainer", "StopContainer"})),
    "u": PluginSettings(events=frozenset({"UpdateContainer"})),
}


class Dice:
    """Plugins end at once and succeed, unless told otherwise."""

    roll = 0.5
    SLOW = 0.97
    """A plugin takes 4 s: the event is answered after 1.7."""

    def random(self) -> float:
        return self.roll

    def choice(self, of: Sequence[T]) -> T:
        return of[0]


class Play:
    """A node with adapters, which the runtime asks in turn, the oldest first. It keeps one that is late."""

    def __init__(self, world: World) -> None:
        self.world, self.runtime = world, world.runtime
        self.dice = Dice()
        world.dice = self.dice  # type: ignore[assignment]
        world.faults, world.can_stop = {}, True
        world.settings = LegacySettings(fail_create=False, trust=off, plugins=PLUGINS)
        world.entries = tuple(Entry(type_, 0, "0.1", None) for type_ in "pqru")
        self.runtime.configuration.runtime_name = "containerd"
        self.runtime.order, self.runtime.keeps, self.runtime.has_veto = "old first", True, False

    def wait(self, seconds: float) -> None:
        Story(self.world).wait(seconds)

    def start(self, number: int) -> list[Peer]:
        for _ in range(number):
            Peer(self.world)
            self.wait(0.1)
        return self.world.peers

    def begin(self, id_: str) -> Event:
        """The pod, or the container of the pod `pod`, is there, and then its event comes."""
        is_pod = id_.startswith("pod")
        self.runtime.pods[id_] = id_ if is_pod else "pod"
        self.runtime.living[id_] = "RUNNING" if is_pod else "CREATED"
        return self.deliver("RunPodSandbox" if is_pod else "CreateContainer", id_)

    def stop(self, id_: str) -> Event:
        self.runtime.end(id_)
        return self.deliver("StopPodSandbox" if id_.startswith("pod") else "StopContainer", id_)

    def deliver(self, method: str, id_: str) -> Event:
        return self.runtime.deliver(method, id_)

    def stop_inside(self, peer: Peer, step: str) -> None:
        """The adapter is stopped for 30 s when it comes to a step of its code."""

        def point(where: str) -> None:
            World.point(self.world, where)
            if where == step and self.world.current is peer.life:
                del self.world.point
                peer.stop(30, is_killed=False)
                peer.life.pause()

        self.world.point = point  # type: ignore[method-assign]

    def runs(self, name: str = "p") -> list[str]:
        """What a plugin was run for, with the event and the adapter."""
        runs = [run for run in self.world.trace if run.name == name]
        return [f"{'delete' if run.is_delete else 'create'} {run.id} by {run.life}" for run in runs]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    (tmp_path / "state").mkdir(mode=0o700)
    world = World(0, str(tmp_path / "state"), kinds=())
    with playing(world):
        yield Play(world)
        assert world.bugs == []


def test_an_adapter_that_was_stopped_reads_what_has_come_before_it_takes_an_id_as_gone(play: Play) -> None:
    _, second = play.start(2)
    play.begin("pod")
    play.begin("c")
    for peer in play.world.peers:
        peer.hang_up()
    play.runtime.end("c")
    play.wait(0.5)
    play.wait(4)
    second.stop(10, is_killed=False)
    play.wait(2)
    play.begin("c")
    play.wait(60)
    assert play.runs("q") == ["create c by A0", "delete c by A0", "create c by A0"]


def test_a_stop_that_only_an_adapter_has_got_that_was_stopped_is_not_lost(play: Play) -> None:
    first, second = play.start(2)
    play.begin("pod")
    second.stop(30, is_killed=False)
    play.begin("c")
    first.die()
    play.stop("c")
    play.stop("pod")
    play.wait(60)
    assert play.runs("q") == ["create c by A0", "delete c by A1"]
    assert play.runs() == ["create pod by A0", "delete pod by A1"]


def test_what_another_has_answered_is_answered_at_once_while_its_plugins_run_on(play: Play) -> None:
    play.start(2)
    play.dice.roll = play.dice.SLOW
    for event in (play.begin("pod"), play.stop("pod"), play.begin("pod")):
        assert [call.heard_at - call.at > 1 for call in event.got] == [True, False]


def test_a_delete_that_an_adapter_without_a_connection_tries_again_is_run_by_no_other(play: Play) -> None:
    """Nobody sees that it is there: the others take their memory for all there is."""
    first, _ = play.start(2)
    play.begin("pod")
    play.world.missing = {"p"}
    play.stop("pod")
    play.world.missing = set()
    first.hang_up()
    play.runtime.wants = lambda _: int  # type: ignore[method-assign, assignment]
    play.begin("pod2")  # now the other one knows that it is alone, and reads the records
    play.wait(60)
    assert play.runs() == ["create pod by A0", "create pod2 by A1", "delete pod by A0"]


def test_what_came_after_a_list_was_made_is_not_gone(play: Play) -> None:
    play.start(1)
    play.begin("pod")
    Peer(play.world)
    play.world.clock.advance(0)
    second = play.world.peers[1]
    second.stop(3, is_killed=False)
    play.begin("c")
    play.wait(60)
    assert play.runs("q") == ["create c by A0"]


def test_short_stops_are_noticed_only_beside_another_adapter(play: Play) -> None:
    first, second = play.start(2)
    play.begin("pod")
    assert (first.life.is_watchful, second.life.is_watchful) == (True, True)
    second.die()
    play.stop("pod")
    assert not first.life.is_watchful


def test_a_create_is_not_repeated_once_its_deletes_may_have_run(play: Play) -> None:
    first, _ = play.start(2)
    play.begin("pod")
    play.stop_inside(first, "after write")  # it has noted that it begins
    play.begin("c")
    play.stop("c")
    play.wait(60)
    assert play.runs("q") == ["create c by A0", "delete c by A0"]


def test_an_adapter_removes_no_record_that_another_one_makes_again(play: Play) -> None:
    play.start(1)
    play.begin("pod")
    play.begin("c")
    play.runtime.living["c"] = "RUNNING"
    play.world.removed()
    play.start(1)
    play.begin("d")  # the first sees that the directory is a new one, and writes what it knows
    play.wait(3)
    play.stop("c")
    assert play.runs("q")[-1] == "delete c by A0"


def test_an_answer_that_a_short_stop_has_made_late_is_not_noted_as_sent(play: Play) -> None:
    """The loop does not notice that it was stopped, so the time is up here after it is up in the runtime."""
    first, _ = play.start(2)
    play.begin("pod")
    play.dice.roll = play.dice.SLOW
    first.stop(0.6, is_killed=False)
    play.world.clock.call_at(play.world.clock.now + 1.9, lambda: setattr(play.dice, "roll", 0.5))
    assert [call.parts for call in play.begin("c").got if call.heard_at] == [["h"]], "that of the second adapter"


@pytest.mark.parametrize("fault", ["", "the connection ends", "the answer is late", "a short stop before"])
def test_what_crio_has_heard_to_be_refused_has_gone(play: Play, fault: str) -> None:
    play.runtime.configuration.runtime_name = "cri-o"
    play.world.settings = play.world.settings._replace(fail_create=True)
    (first,) = play.start(1)
    play.begin("pod")
    play.dice.roll = play.dice.SLOW
    if fault.startswith("a short"):
        first.stop(0.5, is_killed=False)  # it believes that the event has come after that
    elif fault:
        comes = first.hang_up if fault.startswith("the conn") else lambda: first.stop(5, is_killed=False)
        play.world.clock.call_at(play.world.clock.now + 0.5, comes)
    play.begin("c")
    play.dice.roll = 0.5
    play.wait(60)
    assert play.runs("q") == ["create c by A0", "delete c by A0"][: 1 + (not fault)]
