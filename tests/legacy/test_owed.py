"""Deletes that are owed: what a runtime tells after a loss, the first start, and what is known of a container.

`test_histories` proves who gets a delete, when and in which order; here are the requests and the log lines.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from nri import api
from nri.runtimes import Runtime
from v010_adapter.base.loop import Loop
from v010_adapter.events.deletes import LOOK_AGAIN, PodProcesses
from v010_adapter.events.turns import Turns
from v010_adapter.settings import PluginSettings
from v010_adapter.state.ledger import Ledger
from v010_adapter.state.runtime_directory import RuntimeDirectory

from ..rig.loop import SteppedLoop
from ..rig.node import Node, a_container, a_pod
from ..rig.processes import NO_PROCESS, at_most, failing, open_descriptors
from ..rig.serving import kill
from ..rig.waiting import running
from .scenarios import Player

SECOND_LOOK = 5.0
RETRY = 1.0
RUNNING, STOPPED = api.CONTAINER_RUNNING, api.CONTAINER_STOPPED
OF_CONTAINERS = {"a": PluginSettings(events=frozenset({"StartContainer", "StopContainer"}))}


def synchronize(node: Node, pods: list[api.PodSandbox], containers: list[api.Container]) -> None:
    """The comparison follows in the next turns of the loop."""
    node.serving.synchronize(pods, containers)
    node.loop.settle()


def joined(node: Node, runtime: str = "containerd") -> None:
    node.plugins(a="answer")
    node.serving.set_runtime(Runtime(runtime, "1.7.35"), pid=os.getpid())
    synchronize(node, [], [])


def test_a_delete_that_runs_when_the_process_ends_counts_as_ended(node: Node) -> None:
    """Its plugin is left to finish; no other adapter runs the delete again."""

    def owed() -> list[str]:
        """What the next process reads."""
        ledger = Ledger(node.loop, node.turns.directory)
        ledger.read_all(lambda: None)
        node.loop.settle()
        return [entry.type for entry in ledger.begin_deletes("c1")]

    node.plugins(a='[ "$state" = delete ] && hold; answer', b="answer")
    node.wait(node.create("c1"))
    delete = node.delete("c1")
    node.hear("a delete c1 holds")
    node.serving.ledger.write_now()
    assert owed() == ["a", "b"], "as if it were killed"
    node.serving.end()
    assert owed() == ["b"]
    node.release("a")
    node.wait(delete)


@pytest.fixture
def back(node: Node) -> Iterator[Node]:
    """A node that has run the creates of a pod and two containers, and has lost its runtime."""
    joined(node)
    node.wait(node.create_pod(), node.create("c1"), node.create("c2"))
    node.serving.on_runtime_gone()
    yield node
    node.delete_pod()
    node.idle()


@pytest.fixture
def two_turns(node: Node, tmp_path: Path) -> Iterator[list[Turns]]:
    """The turns of two adapters."""
    made = [Turns(RuntimeDirectory(str(tmp_path / "state"), "containerd"), node.loop.time) for _ in range(2)]
    yield made
    kill(*made)


def living_pod() -> api.PodSandbox:
    return a_pod(pid=os.getpid())


def listed(id_: str, state: api.ContainerState.ValueType) -> api.Container:
    return a_container(id_, pod_sandbox_id="pod", state=state)


def deletes(node: Node) -> list[str]:
    node.idle()
    return [run for run in node.runs if " delete " in run]


# Synchronize after a lost connection


def test_what_has_stopped_gets_its_delete_at_once(back: Node, caplog: pytest.LogCaptureFixture) -> None:
    synchronize(back, [living_pod()], [listed("c1", STOPPED), listed("c2", RUNNING)])
    assert deletes(back) == ["a delete c1"]
    assert back.requests("a")[-1]["pid"] == NO_PROCESS, "as its create knew it"
    assert "container c1 has gone without an event: its delete comes now" in caplog.text
    assert back.delete("c1").outcome == "nothing to do"


@pytest.mark.parametrize("meanwhile", ["nothing", "created again", "another connection"])
def test_what_is_absent_gets_its_delete_at_the_second_look_unless_named(back: Node, meanwhile: str) -> None:
    """The second look comes as late after each Synchronize, though there was one just before."""
    synchronize(back, [living_pod()], [listed("c2", RUNNING)])
    if meanwhile == "created again":
        back.wait(back.create("c1"))
    elif meanwhile == "another connection":
        back.loop.advance(SECOND_LOOK - 0.2)
        back.serving.on_runtime_gone()
        synchronize(back, [living_pod()], [listed("c2", RUNNING)])
    back.loop.advance(SECOND_LOOK - 0.1)
    assert deletes(back) == []
    back.loop.advance(0.2)
    assert deletes(back) == ["a delete c1"][meanwhile == "created again" :]


@pytest.mark.parametrize("is_read", [False, True])
def test_a_pod_that_is_absent_lives_if_an_event_names_its_container(back: Node, is_read: bool) -> None:
    back.serving.synchronize([], [listed("c1", RUNNING), listed("c2", RUNNING)])
    if is_read:
        back.loop.settle()
    back.delete("c1")
    back.loop.settle()
    back.loop.advance(SECOND_LOOK + 0.1)
    assert deletes(back) == ["a delete c1"]


@pytest.mark.parametrize("is_read", [False, True])
def test_what_is_absent_may_come_while_there_is_no_connection(back: Node, is_read: bool) -> None:
    """The next Synchronize decides: its list may have what the one before did not have yet."""
    back.serving.synchronize([living_pod()], [listed("c2", RUNNING)])
    if is_read:
        back.loop.settle()
    back.serving.on_runtime_gone()
    back.loop.settle()
    back.loop.advance(2 * SECOND_LOOK)
    assert deletes(back) == []
    synchronize(back, [living_pod()], [listed("c2", STOPPED)])
    assert deletes(back) == ["a delete c2"]


def test_records_that_could_not_be_read_are_compared_as_soon_as_they_can_be(
    node: Node, two_turns: list[Turns], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adapter without descriptors when it joined knows nothing, and compares what it knows."""
    killed, turns = two_turns
    node.build(killed)
    joined(node)
    node.wait(node.create("c1"))
    with monkeypatch.context() as patch:
        patch.setattr(RuntimeDirectory, "names", failing(errno.EMFILE))
        node.build(turns)
        synchronize(node, [living_pod()], [listed("c1", STOPPED)])
        assert deletes(node) == []
    node.loop.advance(RETRY)
    node.loop.settle()
    assert deletes(node) == ["a delete c1"]


@pytest.mark.parametrize("is_lost", [True, False], ids=["connection lost", "second look over"])
def test_a_pod_whose_process_ends_waits_only_for_containers_that_are_looked_for(
    node: Node, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """Without a connection, the next look may never come. After it, a delete that cannot be started is tried again."""
    ends: list[Callable[[str], object]] = []
    monkeypatch.setattr(PodProcesses, "watch", lambda self, *_: ends.append(self._on_exit))
    joined(node)
    node.wait(node.create_pod(pid=os.getpid()), node.create("c1"))
    synchronize(node, [living_pod()], [])
    if is_lost:
        node.serving.on_runtime_gone()
    else:
        (node.folder / "a").unlink()
        node.loop.advance(SECOND_LOOK)
        assert deletes(node) == []
        node.plugin("a")
    ends[0]("pod")
    assert deletes(node) == ["a delete pod"]


@pytest.mark.parametrize("pods", [[], [a_pod(pid=0)]], ids=["pod removed", "pod listed as stopped"])
def test_a_pod_that_has_gone_gets_its_delete_after_its_containers(back: Node, pods: list[api.PodSandbox]) -> None:
    back.wait(*(back.create(f"z{number}") for number in range(3, 9)))
    synchronize(back, pods, [])
    back.loop.settle()
    back.loop.advance(SECOND_LOOK - 0.1)
    assert deletes(back) == []
    back.loop.advance(0.2)
    containers = [*(f"a delete c{number}" for number in (1, 2)), *(f"a delete z{number}" for number in range(3, 9))]
    assert sorted(deletes(back)[:-1]) == containers
    assert deletes(back)[-1] == "a delete pod"


def test_a_pod_that_is_listed_without_its_process_lives_as_long_as_that_of_its_create(node: Node) -> None:
    joined(node)
    node.wait(node.create_pod(pid=os.getpid()))
    synchronize(node, [a_pod(pid=0)], [])
    node.loop.advance(2 * SECOND_LOOK)
    node.idle()
    assert node.runs == ["a create pod"]
    node.wait(node.delete_pod())
    assert deletes(node) == ["a delete pod"]


def test_a_pod_of_another_pid_namespace_lives_until_the_runtime_says_otherwise(node: Node) -> None:
    """As in a container without the node's pids: the pids that the runtime names are not there, or are others'."""
    joined(node)
    node.serving.set_runtime(Runtime("containerd", "1.7.35"), pid=0)
    node.wait(node.create_pod(pid=NO_PROCESS))
    synchronize(node, [a_pod(pid=NO_PROCESS)], [])
    node.loop.settle()
    node.idle()
    assert node.runs == ["a create pod"]
    synchronize(node, [a_pod(pid=0)], [])
    node.loop.settle()
    assert deletes(node) == ["a delete pod"]


def test_what_was_started_without_us_is_told_and_owed_nothing(back: Node, caplog: pytest.LogCaptureFixture) -> None:
    synchronize(back, [living_pod()], [listed(id_, RUNNING) for id_ in ("c1", "c2", "new")])
    text = "containers that have started without the adapter: 1; no plugin has run for their creates: container new"
    assert text in caplog.text
    assert back.delete("new").outcome == "nothing to do"
    synchronize(back, [living_pod()], [listed(id_, RUNNING) for id_ in ("c1", "c2", "new")])
    assert caplog.text.count(text) == 1
    back.loop.advance(RETRY)
    target = back.serving.ledger.target("new")
    assert target is not None
    assert target._message is None, "one container keeps the memory of all that were listed"


def test_what_another_adapter_has_served_is_not_told(
    node: Node, two_turns: list[Turns], caplog: pytest.LogCaptureFixture
) -> None:
    """The runtime lists a container whose delete the other adapter has run, until it has noted the end itself."""
    turns, other = two_turns
    other.join()
    node.build(turns, plugins=OF_CONTAINERS)
    joined(node)
    synchronize(node, [living_pod()], [listed("c1", RUNNING)])
    assert "without the adapter" not in caplog.text
    other.leave()
    synchronize(node, [living_pod()], [listed("c1", RUNNING)])
    assert "without the adapter: 1;" in caplog.text


def test_the_pid_of_a_pod_that_is_used_again_is_not_taken_for_it(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    joined(node)
    node.wait(node.create_pod(pid=os.getpid()))
    synchronize(node, [living_pod()], [])
    monkeypatch.setattr("nri.cgroup.start_time", lambda _: 7)
    synchronize(node, [a_pod(pid=0)], [])
    node.idle()
    assert node.runs == ["a create pod"], "the watch of its process goes on"
    node.wait(node.delete_pod())
    assert "pid" not in node.requests("a")[-1], "it is another process"


def test_the_exit_of_a_pods_process_is_told_once_and_leaves_no_descriptor(loop: SteppedLoop) -> None:
    exits: list[str] = []
    before = open_descriptors()
    with running(["sleep", "100"]) as process:
        PodProcesses(loop, exits.append).watch("pod", process.pid, lambda: None)
        process.kill()
        loop.until(lambda: bool(exits), "the exit is told")
        loop.settle()
    assert (exits, open_descriptors()) == (["pod"], before)


def test_the_exit_of_a_pod_that_was_forgotten_is_not_told_though_a_child_process_may_have_its_descriptor(
    loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    exits: list[str] = []
    pods = PodProcesses(loop, exits.append)
    with running(["sleep", "100"]) as process:
        pidfd = os.pidfd_open(process.pid)
        monkeypatch.setattr(os, "pidfd_open", lambda _: os.dup(pidfd))
        pods.watch("pod", process.pid, lambda: None)
        pods.forget("pod")
        process.kill()
        process.wait()
        loop.call_soon(loop.stop)
        loop.run()
    os.close(pidfd)
    assert exits == []


def no_descriptors() -> AbstractContextManager[object]:
    """No file can be opened."""
    return at_most(0)


def no_pidfd() -> AbstractContextManager[object]:
    """The process can be looked at, and not watched."""
    return patch.object(os, "pidfd_open", failing(errno.ENFILE))


def no_epoll() -> AbstractContextManager[object]:
    """The user's watches are used up (fs.epoll.max_user_watches)."""
    return patch.object(Loop, "watch", failing(errno.ENOSPC))


FAILS = pytest.mark.parametrize("fails", [no_descriptors, no_pidfd, no_epoll])


@FAILS
@pytest.mark.parametrize("is_listed", [True, False], ids=["its process is listed", "that of its create"])
def test_a_pod_lives_while_the_kernel_cannot_tell_and_its_process_is_looked_for_again(
    node: Node, caplog: pytest.LogCaptureFixture, fails: Callable[[], AbstractContextManager[object]], is_listed: bool
) -> None:
    joined(node)
    with running(["sleep", "1000"]) as process:
        node.wait(node.create_pod(pid=process.pid))
        node.serving.on_runtime_gone()
        with fails():
            synchronize(node, [a_pod(pid=process.pid if is_listed else 0)], [])
            node.loop.advance(LOOK_AGAIN)
        assert "has gone without an event" not in caplog.text
        node.loop.advance(LOOK_AGAIN)
        assert node.loop.is_idle, "it is watched"
        assert deletes(node) == []
    node.loop.until(lambda: "a delete pod" in node.runs, "the pod's process has ended")
    node.idle()


@FAILS
@pytest.mark.parametrize("is_told", [True, False], ids=["told", "not told"])
def test_a_pod_that_ends_while_the_kernel_cannot_tell_gets_its_delete_with_the_event_or_at_the_next_look(
    node: Node, fails: Callable[[], AbstractContextManager[object]], is_told: bool
) -> None:
    joined(node)
    with running(["sleep", "1000"]) as process:
        node.wait(node.create_pod(pid=process.pid))
        node.serving.on_runtime_gone()
        with fails():
            synchronize(node, [a_pod(pid=process.pid)], [])
    if is_told:
        node.wait(node.delete_pod())
    else:
        assert deletes(node) == []
        node.loop.advance(LOOK_AGAIN)
    assert deletes(node) == ["a delete pod"]
    assert node.loop.is_idle, "nobody looks again"


def test_what_has_stopped_gets_its_delete_though_the_process_of_its_pod_cannot_be_watched(
    back: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, watch = list[bool](), Loop.watch

    def watch_later(*arguments: Any) -> None:
        if full and full.pop():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        watch(*arguments)

    monkeypatch.setattr(Loop, "watch", watch_later)
    back.wait(back.create_pod(pid=os.getpid()))
    full.append(True)
    synchronize(back, [living_pod()], [listed("c1", STOPPED), listed("c2", RUNNING)])
    assert not full, "the pod's process was to be watched"
    assert deletes(back) == ["a delete c1"]


# The first start, and the first event of an adapter


def test_a_broken_conf_json_at_the_first_start_is_decided_once_it_is_in_order(node: Node) -> None:
    node.conf_json.write_text("{")
    synchronize(node, [living_pod()], [listed("c1", RUNNING), listed("c2", RUNNING)])
    assert node.delete("c2").outcome == "nothing to do"
    node.plugins(a="answer")
    node.wait(node.delete("c1"))
    assert deletes(node) == ["a delete c1"]
    assert node.delete("c2", event="RemoveContainer").outcome == "nothing to do"


def test_on_docker_nothing_counts_as_created_for_it_announces_no_stop(node: Node) -> None:
    node.build(plugins={"a": PluginSettings(events=frozenset(["CreateContainer", "StopContainer"]))})
    node.plugins(a="answer", b="answer")
    node.serving.set_runtime(Runtime("docker", "29.0.0"))
    synchronize(node, [a_pod("c1")], [a_container("c1", pod_sandbox_id="c1", state=RUNNING)])
    assert len(node.serving.ledger.ids()) == 0


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
def test_what_a_scenario_says_happens(name: str, player: Player) -> None:
    player.play(KNOWN[name])


def test_what_is_owed_nothing_has_not_gone_without_an_event(player: Player, caplog: pytest.LogCaptureFixture) -> None:
    player.play("with b.events=RemoveContainer; plugins a=answer; create c1 -> ok; stop c1 -> ok; knows c1;")
    player.play("remove pod -> -; knows")
    assert "has gone without an event" not in caplog.text


def test_a_stop_that_does_not_name_the_pod_leaves_its_container_free_for_other_adapters(
    node: Node, two_turns: list[Turns]
) -> None:
    turns, other = two_turns
    node.build(turns)
    joined(node)
    node.wait(node.create("c1"))
    node.wait(node.handle("StopContainer", api.StopContainerRequest(container=api.Container(id="c1"))))
    assert node.runs == ["a create c1", "a delete c1"]
    assert other.lock("pod", "c1"), "as the create names it"
    assert other.lock("", "c1"), "as the stop names it"


def test_a_start_that_a_killed_adapter_has_begun_runs_a_plugin_with_a_list_no_second_time(
    node: Node, two_turns: list[Turns]
) -> None:
    """The runtime has heard nothing of it, and asks the next one. A start has no changes that may have been lost."""
    killed, turns = two_turns
    for one in two_turns:
        one.join()
    node.loop.advance(1)
    node.build(killed, plugins=OF_CONTAINERS)
    node.plugins(a='[ "$state" = delete ] || hold; answer')
    node.create("c1")
    node.hear("a create c1 holds")
    kill(killed)
    node.build(turns, plugins=OF_CONTAINERS)
    node.wait(node.create("c1"), node.delete("c1"))
    assert node.runs == ["a create c1", "a delete c1"]
