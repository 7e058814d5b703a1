"""What plugins make of updates of containers, and the updates that they ask for themselves."""

from __future__ import annotations

from typing import Any

import pytest

from nri import api
from nri.errors import CallError
from nri.plugin import RESERVE
from nri.wire import Code
from v010_adapter.events import serving
from v010_adapter.legacy.pending_updates import PendingUpdates

from ..rig.loop import SteppedLoop
from ..rig.node import Answer, Node, a_container, a_pod, configured, container, creating, saying


def updating(node: Node, shares: int = 1024) -> Answer:
    have = api.LinuxResources(cpu=api.LinuxCPU(shares=api.OptionalUInt64(value=256), cpus="0-7"))
    asked = api.LinuxResources(cpu=api.LinuxCPU(shares=api.OptionalUInt64(value=shares)))
    made = container()
    made.linux.resources.CopyFrom(have)
    made.linux.cgroups_path = "/mine"
    request = api.UpdateContainerRequest(pod=a_pod(), container=made, linux_resources=asked)
    answer = node.handle("UpdateContainer", request)
    node.wait(answer)
    return answer


def test_an_update_shows_what_is_asked_for_and_what_will_be(node: Node) -> None:
    configured(node, "UpdateContainer").plugins(a="answer")
    assert updating(node).reply is None
    [request] = node.requests("a")
    assert request["resources"] == {"cpu": {"shares": 1024}}
    assert request["container"]["linux"]["resources"]["cpu"]["shares"] == {"value": "256"}
    assert request["spec"]["linux"]["resources"]["cpu"] == {"shares": 1024, "cpus": "0-7"}


@pytest.mark.parametrize("large", [1 << 30, 0], ids=["small", "large"])
def test_a_plugin_can_change_what_is_asked_for(node: Node, monkeypatch: pytest.MonkeyPatch, large: int) -> None:
    monkeypatch.setattr(serving, "LARGE", large)
    configured(node, "UpdateContainer").plugins(
        a=saying(spec={"linux": {"resources": {"cpu": {"shares": 256}}}}),
        b=saying(spec={"linux": {"resources": {"cpu": {"cpus": "1"}}}}),
    )
    reply = updating(node).reply
    cpu = api.LinuxCPU(shares=api.OptionalUInt64(value=256), cpus="1")
    linux = api.LinuxContainerUpdate(resources=api.LinuxResources(cpu=cpu))
    [update] = reply.update
    assert (update.container_id, update.linux, update.ignore_failure) == ("c1", linux, False)
    [request] = node.requests("b")
    assert request["spec"]["linux"]["resources"]["cpu"] == {"shares": 256, "cpus": "0-7"}


def test_what_stays_as_it_is_may_be_named(node: Node) -> None:
    cpu = {"shares": 256}
    configured(node, "UpdateContainer").plugins(
        a=saying(spec={"cgroupsPath": "/mine", "linux": {"resources": {"cpu": cpu}}})
    )
    [update] = updating(node).reply.update
    assert update.linux.resources.cpu.shares.value == cpu["shares"]
    assert updating(node, cpu["shares"]).reply is None, "this is what is asked for"


NOT_AT_UPDATES = [
    ({"spec": {"process": {"env": ["B=2"]}}}, "process: only linux.resources"),
    ({"spec": {"linux": {"cgroupsPath": "/x"}}}, "linux.cgroupsPath: only linux.resources"),
    ({"spec": {"cgroupsPath": "/x"}}, "linux.cgroupsPath: only linux.resources"),
    ({"spec": [1]}, "spec: a wrong value: an array instead of an object"),
    ({"spec": {"linux": {"": 1}}}, 'linux."": only linux.resources'),
    ({"adjust": []}, "adjust: only linux.resources"),
    ({"spec": {"": 1, "linux": []}}, "linux: a wrong value: an array instead of an object"),
    ({"spec": {"linux": {"resources": {"pids": {"limit": 3}}}}}, "spec.linux.resources.pids: updates do not"),
    ({"spec": {"linux": {"resources": []}}}, "spec.linux.resources: must be an object, not an array"),
    ({"updates": [{"id": "c1", "resources": {}}]}, "updates[0].id: c1 is the container of the event"),
]


@pytest.mark.parametrize(("result", "reason"), NOT_AT_UPDATES, ids=[reason for _, reason in NOT_AT_UPDATES])
def test_an_update_changes_resources_only(node: Node, result: dict[str, object], reason: str) -> None:
    configured(node, "UpdateContainer").plugins(a=saying(**result))
    assert updating(node).outcome.startswith(f"plugin: a: {reason}")


# PendingUpdates of other containers


class Taking:
    """Takes updates that come unsolicited, and answers when it is told to."""

    def __init__(self, node: Node) -> None:
        self.calls: list[list[api.ContainerUpdate]] = []
        self.done: list[Any] = []
        node.serving.updates.send = self._send

    def _send(self, updates: list[api.ContainerUpdate], done: Any) -> None:
        self.calls.append(updates)
        self.done.append(done)


def asking(cpus: str, id_: str = "c0") -> str:
    return saying(updates=[{"id": id_, "resources": {"cpu": {"cpus": cpus}}}])


def cpus_of(updates: Any) -> dict[str, str]:
    return {update.container_id: update.linux.resources.cpu.cpus for update in updates}


def known(node: Node, *ids: str) -> None:
    node.serving.synchronize([], [a_container(id_) for id_ in ids])


def test_a_runtime_that_has_gone_with_a_call_unanswered_holds_up_no_later_updates(node: Node) -> None:
    configured(node, "StartContainer", plugins="a").plugins(a=asking("0-1"))
    known(node, "c0")
    gone = Taking(node)
    node.wait(node.create("c1"))
    node.loop.settle()
    assert len(gone.calls) == 1
    node.serving.on_runtime_gone()
    node.wait(node.create("late"))
    node.loop.settle()
    assert len(gone.calls) == 1, "it is not called any more"
    back = Taking(node)
    node.wait(node.create("c2"))
    node.loop.settle()
    assert [cpus_of(updates) for updates in back.calls] == [{"c0": "0-1"}]


def test_a_container_that_was_created_since_synchronize_can_be_updated(node: Node) -> None:
    configured(node, "StartContainer", plugins="a").plugins(a=asking("0-1", "c1"))
    known(node)
    taking = Taking(node)
    for id_ in ("c1", "c2"):
        node.wait(node.create(id_))
    node.loop.settle()
    assert [cpus_of(updates) for updates in taking.calls] == [{"c1": "0-1"}]


def test_what_waited_without_a_runtime_goes_out_when_one_is_joined_but_not_for_what_has_gone(node: Node) -> None:
    configured(node, "StartContainer", plugins="a").plugins(
        a=saying(updates=[{"id": id_, "resources": {"cpu": {"cpus": "0-1"}}} for id_ in ("c0", "c9")])
    )
    known(node, "c0", "c9")
    node.wait(node.create("c1"))
    node.serving.on_runtime_gone()
    back = Taking(node)
    known(node, "c0")
    node.loop.settle()
    assert [cpus_of(updates) for updates in back.calls] == [{"c0": "0-1"}]


def test_an_answer_that_can_carry_updates_carries_them(node: Node) -> None:
    configured(node, "CreateContainer").plugins(a=asking("0"), b=asking("1"))
    known(node, "c0")
    answer = creating(node)
    node.wait(answer)
    [update] = answer.reply.update
    assert (cpus_of([update]), update.ignore_failure) == ({"c0": "1"}, True)
    assert not answer.reply.HasField("adjust")


def test_the_answer_to_a_stop_carries_updates(node: Node) -> None:
    configured(node, "StopContainer").plugins(a="case $state in delete) " + asking("0-1") + ";; *) answer;; esac")
    known(node, "c0")
    node.wait(node.create("c1"))
    answer = node.delete("c1")
    node.wait(answer)
    assert cpus_of(answer.reply.update) == {"c0": "0-1"}
    assert isinstance(answer.reply, api.StopContainerResponse)


def test_one_call_is_under_way_at_a_time_and_the_rest_is_merged(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    configured(node, "StartContainer").plugins(
        a="case $id in c1) " + asking("1") + ";; c2) " + asking("2") + ";; *) " + asking("3") + ";; esac"
    )
    known(node, "c0")
    runtime = Taking(node)
    for id_ in ("c1", "c2", "c3"):
        node.wait(node.create(id_))
        node.loop.settle()
    assert [cpus_of(call) for call in runtime.calls] == [{"c0": "1"}]
    runtime.done.pop()(runtime.calls[0], None)
    assert [cpus_of(call) for call in runtime.calls] == [{"c0": "1"}, {"c0": "3"}]
    assert "the runtime could not update container c0" in caplog.text
    runtime.done.pop()([], CallError(Code.UNKNOWN, "not now"))
    assert "the runtime has refused updates of containers: not now" in caplog.text


def test_updates_of_an_event_that_fails_are_dropped(node: Node) -> None:
    configured(node, "CreateContainer").plugins(a=asking("0"), b=saying(error="no"))
    known(node, "c0")
    runtime = Taking(node)
    answer = creating(node)
    node.wait(answer)
    assert answer.outcome == "plugin: b: no"
    node.loop.settle()
    assert runtime.calls == []
    assert creating(node, "c2").outcome == "pending"  # and nothing waits for it
    node.idle()


@pytest.mark.parametrize("event", ["CreateContainer", "StartContainer"])
@pytest.mark.parametrize("is_called", [False, True])
def test_what_comes_late_goes_out_with_the_next_answer_or_by_a_call_of_its_own(
    node: Node, is_called: bool, event: str
) -> None:
    configured(node, event, fail_create=False, plugins="a").plugins(a="hold; " + asking("0"))
    known(node, "c0")
    calls = Taking(node).calls if is_called else []
    answer = creating(node) if event == "CreateContainer" else node.create("c1")
    node.hear("a create c1 holds")
    node.loop.advance(2.0 - RESERVE)
    assert answer.reply is None
    node.release("a")
    node.idle()
    node.loop.settle()
    late = calls or [node.delete("c1").reply.update]
    assert (len(calls), *map(cpus_of, late)) == (is_called, {"c0": "0"})


def test_a_change_of_an_update_too_late_is_refused_by_name(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    wish = saying(spec={"linux": {"resources": {"cpu": {"shares": 7}}}})
    configured(node, "UpdateContainer", fail_create=False).plugins(a="hold; " + wish, b="answer")
    answer = node.handle("UpdateContainer", api.UpdateContainerRequest(pod=a_pod(), container=container()))
    node.hear("a update c1 holds")
    node.loop.advance(2.0 - RESERVE)
    node.release("a")
    node.idle()
    assert (answer.outcome, answer.reply) == ("ok", None)
    assert caplog.text.count("plugin: a: spec: it comes too late, the container is being updated without it") == 1
    assert "plugin: b" not in caplog.text, "it wishes for nothing"
    assert node.runs == ["a update c1", "b update c1"]


def test_what_an_answer_has_carried_does_not_go_out_again_with_what_comes_late(node: Node) -> None:
    configured(node, "CreateContainer", fail_create=False).plugins(a=asking("1", "c9"), b="hold; " + asking("0"))
    known(node, "c0", "c9")
    answer = creating(node)
    node.hear("b create c1 holds")
    node.loop.advance(2.0 - RESERVE)
    assert cpus_of(answer.reply.update) == {"c9": "1"}
    node.release("b")
    node.idle()
    assert cpus_of(node.delete("c1").reply.update) == {"c0": "0"}


# What waits, until something takes it to the runtime


def update(id_: str, **resources: object) -> api.ContainerUpdate:
    linux = api.LinuxContainerUpdate(resources=api.LinuxResources(**resources))  # type: ignore[arg-type]
    return api.ContainerUpdate(container_id=id_, linux=linux)


def test_what_is_for_the_container_that_an_answer_is_about_waits_on(loop: SteppedLoop) -> None:
    updates = PendingUpdates(loop)
    updates.existing |= {"a", "b"}
    a, b = (update(id_, cpu=api.LinuxCPU(cpus="1")) for id_ in ("a", "b"))
    updates.add([a, b])
    assert [updates.pop(besides="b"), updates.pop(besides="c"), updates.pop()] == [[a], [b], []]


def test_a_later_update_changes_an_earlier_one(loop: SteppedLoop) -> None:
    updates = PendingUpdates(loop)
    updates.existing.add("a")
    sizes = {"2MB": 1, "1GB": 2}
    first = [api.HugepageLimit(page_size=size, limit=limit) for size, limit in sizes.items()]
    shares = api.LinuxCPU(shares=api.OptionalUInt64(value=2), cpus="0")
    updates.add([update("a", cpu=shares, unified={"x": "1", "y": "1"}, hugepage_limits=first)])
    second = [api.HugepageLimit(page_size="2MB", limit=3)]
    updates.add([update("a", cpu=api.LinuxCPU(cpus="1"), unified={"y": "2"}, hugepage_limits=second)])
    [merged] = updates.pop()
    resources = merged.linux.resources
    assert (resources.cpu.shares.value, resources.cpu.cpus) == (2, "1")
    assert dict(resources.unified) == {"x": "1", "y": "2"}
    assert [(limit.page_size, limit.limit) for limit in resources.hugepage_limits] == [("1GB", 2), ("2MB", 3)]
