"""Synchronize after a lost connection: what has gone meanwhile gets its delete, what lives keeps its claim to one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from adapter.daemon.router import Adapter
from adapter.host.lock import Lock
from adapter.nri import Context, api
from adapter.nri.runtimes import Runtime
from adapter.owed.deletes import SECOND_LOOK
from adapter.owed.handover import GLANCE
from adapter.owed.ledger import Ledger
from adapter.owed.retries import FIRST_RETRY
from adapter.settings import HooksSettings, LegacySettings, PluginSettings, Settings

from ..link import Link
from ..processes import SteppedLoop, open_descriptors
from .node import Answer, Node, a_container, a_pod

RUNNING, CREATED, STOPPED = api.CONTAINER_RUNNING, api.CONTAINER_CREATED, api.CONTAINER_STOPPED


@pytest.fixture
def joined(node: Node) -> Iterator[Node]:
    """A node that has run the creates of a pod and two containers, and has lost its runtime."""
    node.plugins(a="answer")
    node.bridge.runtime_is(Runtime("containerd", "1.7.35"))
    node.bridge.synchronize([], [])
    node.wait(node.create_pod(), node.create("c1"), node.create("c2"))
    node.bridge.runtime_is_gone()
    yield node
    node.plugins(a="answer")
    node.delete_pod()
    node.idle()


def living_pod() -> api.PodSandbox:
    return a_pod(pid=os.getpid())


def listed(id_: str, state: api.ContainerState.ValueType) -> api.Container:
    return a_container(id_, pod_sandbox_id="pod", state=state)


def deletes(node: Node) -> list[str]:
    node.idle()
    return [run for run in node.runs if " delete " in run]


@pytest.mark.parametrize("state", [RUNNING, CREATED, api.CONTAINER_PAUSED])
def test_what_lives_gets_its_delete_at_its_stop(joined: Node, state: api.ContainerState.ValueType) -> None:
    joined.bridge.synchronize([living_pod()], [listed("c1", state), listed("c2", state)])
    joined.loop.advance(2 * SECOND_LOOK)
    assert deletes(joined) == []
    joined.wait(joined.delete("c1"), joined.delete("c2"))
    assert sorted(deletes(joined)) == ["a delete c1", "a delete c2"]


def test_what_has_stopped_gets_its_delete_at_once(joined: Node, caplog: pytest.LogCaptureFixture) -> None:
    joined.bridge.synchronize([living_pod()], [listed("c1", STOPPED), listed("c2", RUNNING)])
    assert deletes(joined) == ["a delete c1"]
    assert joined.requests("a")[-1]["pid"] == 22, "as its create knew it"
    assert "container c1 has gone without an event: its delete comes now" in caplog.text
    assert joined.delete("c1").outcome == "nothing to do"


def test_what_is_absent_gets_its_delete_at_the_second_look(joined: Node) -> None:
    joined.bridge.synchronize([living_pod()], [listed("c2", RUNNING)])
    joined.loop.advance(SECOND_LOOK - 0.1)
    assert deletes(joined) == []
    joined.loop.advance(0.2)
    assert deletes(joined) == ["a delete c1"]


def test_what_an_event_names_in_between_was_not_absent(joined: Node) -> None:
    joined.bridge.synchronize([living_pod()], [listed("c2", RUNNING)])
    joined.wait(joined.create("c1"))
    joined.loop.advance(2 * SECOND_LOOK)
    assert deletes(joined) == []
    joined.wait(joined.delete("c1"))
    assert deletes(joined) == ["a delete c1"]


def test_a_stop_in_between_and_the_second_look_are_one_delete(joined: Node) -> None:
    joined.bridge.synchronize([living_pod()], [listed("c2", RUNNING)])
    joined.wait(joined.delete("c1"))
    joined.loop.advance(2 * SECOND_LOOK)
    assert deletes(joined) == ["a delete c1"]


def test_what_was_started_without_us_is_told_and_owed_nothing(joined: Node, caplog: pytest.LogCaptureFixture) -> None:
    joined.bridge.synchronize([living_pod()], [listed(id_, RUNNING) for id_ in ("c1", "c2", "new")])
    text = "containers that have started without the adapter: 1; no plugin has run for their creates: container new"
    assert text in caplog.text
    assert joined.delete("new").outcome == "nothing to do"


def test_without_plugins_nobody_has_missed_anything(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.bridge.synchronize([], [])
    node.bridge.synchronize([living_pod()], [listed("new", RUNNING)])
    assert "without the adapter" not in caplog.text


def test_the_order_of_a_pod_is_kept_when_it_has_gone_as_a_whole(joined: Node) -> None:
    joined.bridge.synchronize([], [])
    joined.loop.advance(2 * SECOND_LOOK)
    assert sorted(deletes(joined)) == ["a delete c1", "a delete c2", "a delete pod"]
    assert deletes(joined)[-1] == "a delete pod"


def test_a_delete_that_comes_unasked_does_not_wait_for_an_answer_but_for_the_late_limit(joined: Node) -> None:
    joined.plugin("a", "hold; answer")
    joined.bridge.synchronize([living_pod()], [listed("c1", STOPPED), listed("c2", RUNNING)])
    joined.hear("a delete c1 holds")
    joined.loop.advance(31)
    assert not joined.busy
    assert joined.counters["late"] == 1


def test_a_pod_that_containerd_will_not_stop_any_more_gets_its_delete_when_its_process_ends(joined: Node) -> None:
    pause = os.posix_spawn("/bin/sleep", ["sleep", "1000"], {})
    try:
        joined.bridge.synchronize([a_pod(pid=pause)], [listed("c1", RUNNING), listed("c2", RUNNING)])
        joined.loop.settle()
        assert deletes(joined) == []
    finally:
        os.kill(pause, signal.SIGKILL)
    joined.loop.until(lambda: joined.runs[-1] == "a delete pod", "the pod's process has ended")
    os.waitpid(pause, 0)
    joined.idle()
    assert joined.delete_pod().outcome == "nothing to do"


def test_a_pod_that_containerd_has_stopped_meanwhile_gets_its_delete_at_once(node: Node) -> None:
    """It is still listed, without its pid; the pid of its create is that of no process any more."""
    node.plugins(a="answer")
    node.bridge.runtime_is(Runtime("containerd", "1.7.35"))
    node.bridge.synchronize([], [])
    ended = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(ended, 0)
    node.wait(node.create_pod(pid=ended))
    node.bridge.runtime_is_gone()
    node.bridge.synchronize([a_pod(pid=0)], [])
    node.loop.until(lambda: node.runs == ["a create pod", "a delete pod"], "the pod's delete")
    node.idle()


def test_the_pid_of_a_pod_that_has_ended_is_not_taken_for_it_when_it_is_used_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.plugins(a="answer")
    node.bridge.runtime_is(Runtime("containerd", "1.7.35"))
    node.bridge.synchronize([], [])
    node.wait(node.create_pod(pid=os.getpid()))
    node.bridge.synchronize([living_pod()], [])
    monkeypatch.setattr("adapter.host.cgroup.start_time", lambda _: 7)
    node.bridge.synchronize([a_pod(pid=0)], [])
    node.idle()
    assert node.runs == ["a create pod"], "the watch of its process goes on"
    node.wait(node.delete_pod())
    assert "pid" not in node.requests("a")[-1], "it is another process"


def test_a_pod_whose_process_has_ended_gets_its_delete_though_its_containers_run(joined: Node) -> None:
    """After its restart containerd announces their stops, and not the pod's."""
    ended = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(ended, 0)
    joined.wait(joined.create_pod(pid=ended))
    joined.bridge.synchronize([a_pod(pid=0)], [listed("c1", RUNNING), listed("c2", RUNNING)])
    joined.loop.until(lambda: joined.runs[-1] == "a delete pod", "the pod's delete")
    joined.wait(joined.delete("c1"), joined.delete("c2"))


# Several adapters


@pytest.fixture
def owners(node: Node) -> Iterator[tuple[Lock, Lock]]:
    """Two locks of one state directory."""
    directory = str(node.folder / "shared")
    pair = Lock(directory), Lock(directory)
    yield pair
    for owner in pair:
        os.close(owner._fd)


def test_an_adapter_that_waits_and_loses_its_runtime_keeps_the_lock_that_it_takes_later(
    node: Node, owners: tuple[Lock, Lock]
) -> None:
    """At its loss the previous owner had chains under way: it is not this one that is about to leave."""
    node.plugins(a="answer")
    before, mine = owners
    assert before.take()
    before.release(["c1"])
    assert before.take()
    bridge = node.build(mine)
    assert not mine.take()
    bridge.release()
    before.leave("c1")
    before.release(())
    assert mine.take()
    node.take_over([], [])
    assert mine.is_held
    bridge.ledger.keep_in(None)


def test_an_adapter_that_shall_end_keeps_the_lock_until_the_chains_of_the_one_before_have_ended(
    node: Node, owners: tuple[Lock, Lock]
) -> None:
    """The events of an id would lose their order among three."""
    before, mine = owners
    assert before.take()
    before.release(["c1"])
    bridge = node.build(mine)
    assert mine.take()
    node.take_over([], [])
    bridge.release()
    node.loop.advance(GLANCE)
    assert mine.is_held
    before.leave("c1")
    node.loop.advance(GLANCE)
    assert not mine.is_held
    bridge.ledger.keep_in(None)


def test_a_delete_that_the_owner_before_has_got_and_not_run_comes_when_the_runtime_repeats_its_event(
    node: Node, owners: tuple[Lock, Lock]
) -> None:
    node.plugins(a="answer")
    before, mine = owners
    assert before.take()
    bridge = node.build(before)
    node.take_over([], [])
    node.wait(node.create("c1"))
    bridge.release()
    bridge.ledger.keep_in(None)
    bridge = node.build(mine)
    assert mine.take()
    node.take_over([], [listed("c1", CREATED)])
    request = api.StopContainerRequest(container=api.Container(id="c1"), pod=api.PodSandbox(id="pod"))
    bridge.was_served(request, node._context("StopContainer", 2.0))
    node.loop.until(lambda: node.runs == ["a create c1", "a delete c1"], "the delete")
    node.idle()
    bridge.ledger.keep_in(None)


# The first start


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
    node.bridge.runtime_is(Runtime("docker", "29.0.0"))
    node.bridge.synchronize([a_pod("c1")], [a_container("c1", pod_sandbox_id="c1", state=RUNNING)])
    assert len(node.bridge.ledger) == 0


# Deletes that cannot be started


def test_a_delete_that_could_not_be_started_comes_with_the_next_event(joined: Node) -> None:
    program = joined.folder / "a"
    program.rename(joined.folder / "away")
    joined.wait(joined.delete("c1"))
    assert deletes(joined) == []
    (joined.folder / "away").rename(program)
    joined.wait(joined.delete("c1", event="RemoveContainer"))
    assert deletes(joined) == ["a delete c1"]
    joined.loop.advance(2 * FIRST_RETRY)
    assert deletes(joined) == ["a delete c1"]


def test_without_another_event_it_is_tried_again_by_itself(joined: Node) -> None:
    program = joined.folder / "a"
    program.rename(joined.folder / "away")
    joined.wait(joined.delete("c1"))
    joined.wait(joined.delete("c1", event="RemoveContainer"))
    (joined.folder / "away").rename(program)
    joined.loop.advance(2 * FIRST_RETRY)
    assert deletes(joined) == ["a delete c1"]
    assert joined.requests("a")[-1]["pid"] == 22
    assert joined.bridge.ledger.target("c1") is None


# After the death of the adapter


def test_an_adapter_that_does_not_serve_any_more_tries_no_delete_again(node: Node) -> None:
    owner = Lock(str(node.folder / "state"))
    node.build(lock=owner)
    node.configure(("a", 1))
    assert owner.take()
    node.take_over([], [])
    node.plugin("a")
    program = node.folder / "a"
    node.wait(node.create("c1"))
    program.rename(node.folder / "away")
    node.wait(node.delete("c1"))
    (node.folder / "away").rename(program)
    node.bridge.release()
    node.loop.advance(2 * FIRST_RETRY)
    assert deletes(node) == []
    assert owner.take()
    node.bridge.synchronize([], [listed("c1", STOPPED)])
    assert deletes(node) == ["a delete c1"]
    end(node, owner)


@pytest.mark.parametrize(("runtime", "again"), [("containerd", []), ("docker", ["a create c1"])])
def test_the_first_event_of_an_adapter_repeats_no_create_of_the_one_before(
    node: Node, runtime: str, again: list[str]
) -> None:
    """Docker announces no stop: there the container has been started again."""
    first, second = (Lock(str(node.folder / "state")) for _ in "12")
    node.build(lock=first)
    node.plugin("a")
    node.configure(("a", 1))
    assert first.take()
    node.take_over([], [])
    node.wait(node.create("c1"))
    end(node, first)  # before its answer has left
    node.build(lock=second)
    assert second.take()
    node.bridge.runtime_is(Runtime(runtime, "1.7.35"))
    node.take_over([], [], may_be_repeated=True)
    node.wait(node.create("c1"), node.create("c2"))
    assert sorted(run for run in node.runs if "create" in run) == ["a create c1", *again, "a create c2"]
    for id_ in ("c1", "c2"):
        node.delete(id_)
    node.idle()
    assert sorted(deletes(node)) == (["a delete c1", "a delete c2"] if runtime == "containerd" else ["a delete c1"])
    end(node, second)


def end(node: Node, owner: Lock) -> None:
    """Closes what the death of an adapter closes."""
    os.close(owner._fd)
    node.bridge.ledger.keep_in(None)


def test_the_next_adapter_owes_what_a_killed_one_owed(node: Node) -> None:
    first, second = (Lock(str(node.folder / "state")) for _ in "12")
    node.build(lock=first)
    node.plugin("a")
    node.configure(("a", "of the create"))
    assert first.take()
    node.take_over([], [])
    node.wait(node.create("c1", pid=33), node.create("c2"))
    node.wait(node.delete("c2"))
    end(node, first)
    node.configure(("a", "of now"))
    node.build(lock=second)
    assert second.take()
    node.take_over([], [listed("c1", RUNNING), listed("c2", STOPPED)])
    assert deletes(node) == ["a delete c2"]
    node.wait(node.delete("c1"))
    assert deletes(node) == ["a delete c2", "a delete c1"]
    request = node.requests("a")[-1]
    assert (request["pid"], request["conf"], request["labels"]) == (33, "of the create", {"of": "pod"})
    end(node, second)


def test_events_that_wait_for_an_earlier_owner_go_on_though_the_journal_cannot_be_read(
    node: Node, owners: tuple[Lock, Lock], monkeypatch: pytest.MonkeyPatch
) -> None:
    node.plugins(a="answer")
    before, mine = owners
    assert before.take()
    before.release(["c1"])
    assert mine.take()
    bridge = node.build(mine)
    node.take_over([], [a_container("c1", pod_sandbox_id="pod", state=CREATED)])
    started = node.create("c1")
    node.loop.settle()
    assert node.runs == []

    faults, real = [RuntimeError("a fault")] * 2, Ledger.read_again

    def read_again(ledger: Ledger) -> None:
        if faults:
            raise faults.pop()
        real(ledger)

    monkeypatch.setattr(Ledger, "read_again", read_again)
    node.loop.advance(GLANCE)
    before.leave("c1")
    node.loop.advance(GLANCE)
    assert not faults
    node.wait(started)
    assert node.runs == ["a create c1"]
    node.wait(node.delete("c1"))
    node.idle()
    assert node.loop.is_idle
    bridge.ledger.keep_in(None)


def test_an_event_that_came_after_synchronize_and_before_the_work_on_it_is_not_run_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The previous owner has served it and released the lock: the lock is free when the work on Synchronize begins."""
    monkeypatch.setattr("adapter.base.collector.gc.freeze", lambda: None)
    node.plugins(a="answer")
    legacy = LegacySettings(config=str(node.conf_json), path=(str(node.folder),))
    own = Settings(state_directory=str(node.folder / "shared"), legacy=legacy, hooks=HooksSettings(enabled=False))
    started = api.StartContainerRequest(pod=a_pod("pod"), container=a_container("c1"))
    listed = api.SynchronizeRequest(containers=[a_container("c1", state=RUNNING)])  # started before, too

    before = open_descriptors()
    loops = [SteppedLoop(), SteppedLoop()]

    def context(event: str) -> Context:
        return Context(event, 2.0, node.loop.time, node.loop.time())

    def joined(loop: SteppedLoop) -> Adapter:
        adapter = Adapter(loop, own, [], "adapter", Link())
        runtime = api.ConfigureRequest(runtime_name="containerd", runtime_version="1.7.35")
        adapter.configure(runtime, context("Configure"))
        adapter.synchronize(listed, context("Synchronize"))
        return adapter

    def start(adapter: Adapter, loop: SteppedLoop) -> None:
        answer = Answer(adapter.start_container(started, context("StartContainer")))
        loop.until(lambda: not answer.pending, "no answer comes")

    adapters = [joined(loops[0])]
    loops[0].settle()
    adapters.append(joined(loops[1]))
    start(adapters[0], loops[0])
    adapters[0].end()
    loops[1].settle()
    start(adapters[1], loops[1])
    assert node.runs == ["a create c1"]
    start(adapters[1], loops[1])
    assert node.runs == ["a create c1"] * 2, "the runtime starts it once more"
    for adapter, loop in zip(adapters, loops, strict=True):
        adapter.end()
        loop.close()
    for fd in open_descriptors() - before:
        os.close(int(fd))
