"""Deletes that are owed: what a runtime tells after a loss, the first start, and what is known of a container.

`test_histories` proves who gets a delete, when and in which order; here are the requests and the log lines.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from adapter.nri import Context, api
from adapter.nri.runtimes import Runtime
from adapter.owed.deletes import SECOND_LOOK
from adapter.owed.handover import GLANCE
from adapter.owed.ledger import Ledger
from adapter.settings import PluginSettings

from ..processes import NO_PROCESS
from .node import Node, a_container, a_pod
from .owning import Held
from .scenarios import Player

RUNNING, CREATED, STOPPED = api.CONTAINER_RUNNING, api.CONTAINER_CREATED, api.CONTAINER_STOPPED


def joined(node: Node, runtime: str = "containerd") -> None:
    node.plugins(a="answer")
    node.bridge.set_runtime(Runtime(runtime, "1.7.35"), pid=os.getpid())
    node.bridge.synchronize([], [])


@pytest.fixture
def back(node: Node) -> Iterator[Node]:
    """A node that has run the creates of a pod and two containers, and has lost its runtime."""
    joined(node)
    node.wait(node.create_pod(), node.create("c1"), node.create("c2"))
    node.bridge.on_runtime_gone()
    yield node
    node.delete_pod()
    node.idle()


@pytest.fixture
def owners(node: Node) -> Iterator[tuple[Held, Held]]:
    """The locks of two adapters that have one state directory; the bridge is that of the first, which serves."""
    node.plugins(a="answer")
    locks = Held(str(node.folder / "state")), Held(str(node.folder / "state"))
    assert locks[0].take()
    node.build(lock=locks[0])
    yield locks
    node.bridge.ledger.resume_from(None)
    for lock in locks:
        lock.die()


def succeed(node: Node, lock: Held) -> None:
    """Lets an adapter that has ended be followed by one with this lock."""
    node.bridge.ledger.resume_from(None)
    node.build(lock=lock)
    assert lock.take()


def living_pod() -> api.PodSandbox:
    return a_pod(pid=os.getpid())


def listed(id_: str, state: api.ContainerState.ValueType) -> api.Container:
    return a_container(id_, pod_sandbox_id="pod", state=state)


def deletes(node: Node) -> list[str]:
    node.idle()
    return [run for run in node.runs if " delete " in run]


# Synchronize after a lost connection


def test_what_has_stopped_gets_its_delete_at_once(back: Node, caplog: pytest.LogCaptureFixture) -> None:
    back.bridge.synchronize([living_pod()], [listed("c1", STOPPED), listed("c2", RUNNING)])
    assert deletes(back) == ["a delete c1"]
    assert back.requests("a")[-1]["pid"] == NO_PROCESS, "as its create knew it"
    assert "container c1 has gone without an event: its delete comes now" in caplog.text
    assert back.delete("c1").outcome == "nothing to do"


@pytest.mark.parametrize("is_created_again", [False, True])
def test_what_is_absent_gets_its_delete_at_the_second_look_unless_named(back: Node, is_created_again: bool) -> None:
    back.bridge.synchronize([living_pod()], [listed("c2", RUNNING)])
    if is_created_again:
        back.wait(back.create("c1"))
    back.loop.advance(SECOND_LOOK - 0.1)
    assert deletes(back) == []
    back.loop.advance(0.2)
    assert deletes(back) == ["a delete c1"][is_created_again:]


@pytest.mark.parametrize("pods", [[], [a_pod(pid=0)]], ids=["pod removed", "pod listed as stopped"])
def test_a_pod_that_has_gone_gets_its_delete_after_its_containers(back: Node, pods: list[api.PodSandbox]) -> None:
    back.wait(*(back.create(f"c{number}") for number in range(3, 9)))
    back.bridge.synchronize(pods, [])
    back.loop.settle()
    back.loop.advance(2 * SECOND_LOOK)
    assert sorted(deletes(back)) == [*(f"a delete c{number}" for number in range(1, 9)), "a delete pod"]
    assert deletes(back)[-1] == "a delete pod"


@pytest.mark.parametrize("takes_over", [False, True])
def test_a_pod_of_another_pid_namespace_lives_until_the_runtime_says_otherwise(node: Node, takes_over: bool) -> None:
    """As in a container without the node's pids: the pids that the runtime names are not there, or are others'."""
    joined(node)
    node.bridge.set_runtime(Runtime("containerd", "1.7.35"), pid=0)
    node.wait(node.create_pod(pid=NO_PROCESS))
    if takes_over:
        node.bridge.deletes.watch_pods()
    else:
        node.bridge.synchronize([a_pod(pid=NO_PROCESS)], [])
    node.loop.settle()
    node.idle()
    assert node.runs == ["a create pod"]
    node.bridge.synchronize([a_pod(pid=0)], [])
    node.loop.settle()
    assert deletes(node) == ["a delete pod"]


def test_what_was_started_without_us_is_told_and_owed_nothing(back: Node, caplog: pytest.LogCaptureFixture) -> None:
    back.bridge.synchronize([living_pod()], [listed(id_, RUNNING) for id_ in ("c1", "c2", "new")])
    text = "containers that have started without the adapter: 1; no plugin has run for their creates: container new"
    assert text in caplog.text
    assert back.delete("new").outcome == "nothing to do"


def test_the_pid_of_a_pod_that_is_used_again_is_not_taken_for_it(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    joined(node)
    node.wait(node.create_pod(pid=os.getpid()))
    node.bridge.synchronize([living_pod()], [])
    monkeypatch.setattr("adapter.host.cgroup.start_time", lambda _: 7)
    node.bridge.synchronize([a_pod(pid=0)], [])
    node.idle()
    assert node.runs == ["a create pod"], "the watch of its process goes on"
    node.wait(node.delete_pod())
    assert "pid" not in node.requests("a")[-1], "it is another process"


# The first start, and the first event of an adapter


def test_a_broken_conf_json_at_the_first_start_is_decided_once_it_is_in_order(node: Node) -> None:
    node.conf_json.write_text("{")
    node.bridge.synchronize([living_pod()], [listed("c1", RUNNING), listed("c2", RUNNING)])
    assert node.delete("c2").outcome == "nothing to do"
    node.plugins(a="answer")
    node.wait(node.delete("c1"))
    assert deletes(node) == ["a delete c1"]
    assert node.delete("c2", event="RemoveContainer").outcome == "nothing to do"


def test_on_docker_nothing_counts_as_created_for_it_announces_no_stop(node: Node) -> None:
    node.build(plugins={"a": PluginSettings(events=frozenset(["CreateContainer", "StopContainer"]))})
    node.plugins(a="answer", b="answer")
    node.bridge.set_runtime(Runtime("docker", "29.0.0"))
    node.bridge.synchronize([a_pod("c1")], [a_container("c1", pod_sandbox_id="c1", state=RUNNING)])
    assert len(node.bridge.ledger) == 0


@pytest.mark.parametrize(("runtime", "again"), [("containerd", []), ("docker", ["a create c1"])])
def test_the_first_event_repeats_no_create_of_the_adapter_before(
    node: Node, owners: tuple[Held, Held], runtime: str, again: list[str]
) -> None:
    """Docker announces no stop: there the container has been started again."""
    node.take_over([], [])
    node.wait(node.create("c1"))
    owners[0].die()  # before its answer has left
    succeed(node, owners[1])
    node.bridge.set_runtime(Runtime(runtime, "1.7.35"), pid=os.getpid())
    node.take_over([], [], may_be_repeated=True)
    node.wait(node.create("c1"), node.create("c2"))
    assert sorted(run for run in node.runs if "create" in run) == ["a create c1", *again, "a create c2"]


def test_a_delete_that_the_owner_before_has_not_run_comes_with_its_event(node: Node, owners: tuple[Held, Held]) -> None:
    node.take_over([], [])
    node.wait(node.create("c1"))
    node.bridge.release()
    succeed(node, owners[1])
    node.take_over([], [listed("c1", CREATED)])
    request = api.StopContainerRequest(container=api.Container(id="c1"), pod=api.PodSandbox(id="pod"))
    node.bridge.note_served(request, Context("StopContainer", 2.0, node.loop.time, node.loop.time()))
    node.loop.until(lambda: node.runs == ["a create c1", "a delete c1"], "the delete")
    node.idle()


def test_an_adapter_that_takes_over_without_synchronize_watches_the_pods(node: Node, owners: tuple[Held, Held]) -> None:
    """After its restart containerd does not announce that a pod stops that was there before."""
    node.take_over([], [])
    pause = os.posix_spawn("/bin/sleep", ["sleep", "1000"], {})
    node.wait(node.create_pod(pid=pause))
    node.bridge.release()
    succeed(node, owners[1])
    node.bridge.set_runtime(Runtime("containerd", "1.7.35"), pid=os.getpid())
    node.bridge.take_over([])
    node.bridge.deletes.watch_pods()
    node.loop.settle()
    assert node.runs == ["a create pod"]
    os.kill(pause, signal.SIGKILL)
    node.loop.until(lambda: node.runs[-1] == "a delete pod", "the pod's process has ended")
    os.waitpid(pause, 0)
    node.idle()


def test_a_create_that_begins_after_an_unseen_stop_gets_its_delete(node: Node, owners: tuple[Held, Held]) -> None:
    node.build(owners[0], plugins={"a": PluginSettings(events=frozenset(["StartContainer"]))})
    node.plugins(a="hold; answer", b="answer")
    node.take_over([], [])
    node.create("c1")
    node.hear("a create c1 holds")
    node.bridge.on_runtime_gone()
    node.bridge.release()
    assert owners[0].take()
    node.take_over([], [listed("c1", STOPPED)])
    node.release("a")
    node.loop.until(lambda: node.runs == ["a create c1", "b create c1", "b delete c1"], "the delete")
    node.idle()


def test_an_owner_that_releases_keeps_no_id_whose_plugins_have_ended(node: Node, owners: tuple[Held, Held]) -> None:
    before, mine = owners
    before.release(["c1"])
    succeed(node, mine)
    node.take_over([], [listed("c1", CREATED)])
    before.free("c1")
    node.bridge.release()
    node.loop.advance(GLANCE)
    assert before.take()
    assert before.is_alone


def test_what_an_event_names_is_not_absent_whoever_serves_it(node: Node, owners: tuple[Held, Held]) -> None:
    node.take_over([], [])
    node.wait(node.create("c1"))
    node.bridge.synchronize([], [])
    node.bridge.release()
    request = api.StartContainerRequest(container=a_container("c1", pod_sandbox_id="pod"))
    node.bridge.note_left(request, Context("StartContainer", 2.0, node.loop.time, node.loop.time()))
    node.loop.advance(SECOND_LOOK)
    assert owners[0].take()
    node.bridge.deletes.run_missed()
    assert deletes(node) == []


def test_who_releases_leaves_a_journal_in_a_directory_made_again(node: Node, owners: tuple[Held, Held]) -> None:
    node.take_over([], [])
    node.wait(node.create("c1"))
    shutil.rmtree(node.folder / "state")
    node.bridge.release()
    succeed(node, owners[1])
    node.bridge.take_over([])
    assert node.bridge.ledger.ids() == ["c1"]


def test_only_the_last_that_have_ended_elsewhere_are_kept(
    node: Node, owners: tuple[Held, Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapter.owed.deletes.MOST_MISSED", 2)
    node.take_over([], [])
    node.wait(*(node.create(id_) for id_ in ("c1", "c2", "c3")))
    for id_ in ("c1", "c2", "c1", "c3"):
        node.bridge.deletes.note_left(id_, has_ended=True)
    node.bridge.deletes.run_missed()
    assert sorted(deletes(node)) == ["a delete c1", "a delete c3"]


def test_events_that_wait_go_on_though_the_journal_cannot_be_read(
    node: Node, owners: tuple[Held, Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, mine = owners
    before.release(["c1"])
    succeed(node, mine)
    node.take_over([], [listed("c1", CREATED)])
    is_late, started = node.create("c1", within=0.2), node.create("c1")
    node.loop.advance(0.1)
    assert is_late.outcome == "plugin: a: not run: waited for an earlier adapter's plugins of container c1"
    assert node.runs == []

    faults, real = [RuntimeError("a fault")] * 2, Ledger.read_again

    def read_again(ledger: Ledger) -> None:
        if faults:
            raise faults.pop()
        real(ledger)

    monkeypatch.setattr(Ledger, "read_again", read_again)
    node.loop.advance(GLANCE)
    before.free("c1")
    node.loop.advance(GLANCE)
    assert not faults
    node.wait(started)
    node.wait(node.delete("c1"))
    assert node.runs == ["a create c1", "a delete c1"]
    node.idle()
    assert node.loop.is_idle


# What is known of a container, and of conf.json


KNOWN = {
    "a removal behind the stop has the pid of the create": (
        "with a.events=StartContainer,StopContainer,RemoveContainer; plugins a=answer; create c1 pid 33 -> ok; stop c1;"
        "remove c1 -> ok;pids a: 33 33 33"
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
    "a version of conf.json counts though no plugin had a turn while it was there": (
        "plugins a=answer; stop c0 -> -; break conf.json; create c1 -> ok; ran a create c1"
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_scenario(name: str, player: Player) -> None:
    player.play(KNOWN[name])
