"""What plugins answer at events that the original never had, and what the runtime gets of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapter.nri import api
from adapter.nri.stub import MARGIN
from adapter.settings import PluginSettings

from .node import Answer, Node, a_container, a_pod

ANNOTATIONS = {"of": "c1", "zone": "a"}


def configured(node: Node, *events: str, plugins: str = "a b", **own: Any) -> Node:
    """A node whose plugins are configured for these events."""
    settings = {name: PluginSettings(events=frozenset(events), **own) for name in plugins.split()}
    node.build(plugins=settings)
    return node


def container(id_: str = "c1", **fields: Any) -> api.Container:
    made = a_container(id_, env=["PATH=/bin", "A=1"], args=["sleep", "9"], **fields)
    made.annotations["zone"] = "a"
    made.pid = 0
    return made


def creating(node: Node, id_: str = "c1", within: float = 2.0) -> Answer:
    request = api.CreateContainerRequest(pod=a_pod(), container=container(id_))
    return node.handle("CreateContainer", request, within)


def saying(**result: object) -> str:
    """A plugin's script that prints a result."""
    return f"printf '%s' '{json.dumps(result)}'"


def created(node: Node, id_: str = "c1") -> api.ContainerAdjustment:
    answer = creating(node, id_)
    node.wait(answer)
    assert answer.outcome == "ok"
    return api.ContainerAdjustment() if answer.reply is None else answer.reply.adjust


# Whose turn it is


def test_a_plugin_without_a_list_of_events_has_no_turn_at_others(node: Node) -> None:
    node.plugins(a="answer")
    answer = creating(node)
    assert answer.outcome == "nothing to do"
    assert answer.reply is None


def test_a_list_of_events_replaces_the_usual_four(node: Node) -> None:
    configured(node, "CreateContainer", plugins="a").plugins(a="answer", b="answer")
    created(node)
    node.wait(node.create_pod(), node.create("c1"))
    node.wait(node.delete("c1"), node.delete_pod())
    assert node.runs == ["a create c1", "b create pod", "b create c1", "b delete c1", "b delete pod"]


EVENTS = [
    ("PostCreateContainer", api.PostCreateContainerRequest(pod=a_pod(), container=container()), "create c1"),
    ("PostStartContainer", api.PostStartContainerRequest(pod=a_pod(), container=container()), "create c1"),
    ("UpdateContainer", api.UpdateContainerRequest(pod=a_pod(), container=container()), "update c1"),
    ("PostUpdateContainer", api.PostUpdateContainerRequest(pod=a_pod(), container=container()), "update c1"),
    ("UpdatePodSandbox", api.UpdatePodSandboxRequest(pod=a_pod()), "update pod"),
    ("PostUpdatePodSandbox", api.PostUpdatePodSandboxRequest(pod=a_pod()), "update pod"),
    ("RemoveContainer", api.RemoveContainerRequest(pod=a_pod(), container=container()), "delete c1"),
    ("RemovePodSandbox", api.RemovePodSandboxRequest(pod=a_pod()), "delete pod"),
]


@pytest.mark.parametrize(("event", "request_", "run"), EVENTS, ids=[event for event, *_ in EVENTS])
def test_every_event_can_be_listed(node: Node, event: str, request_: Any, run: str) -> None:
    configured(node, event).plugins(a="answer")
    answer = node.handle(event, request_)
    node.wait(answer)
    assert answer.outcome == "ok"
    assert node.runs == [f"a {run}"]
    [request] = node.requests("a")
    assert request["event"] == event
    assert request["pod"]["id"] == "pod"
    assert ("container" in request) == run.endswith("c1")


# Exactly one delete for a create, whatever the list


def test_a_create_at_creation_is_owed_its_stop(node: Node) -> None:
    configured(node, "CreateContainer", "StopContainer").plugins(a="answer")
    created(node)
    node.wait(node.delete("c1"))
    node.delete("c1")
    node.delete("c1", event="RemoveContainer")
    node.delete("c2")
    node.idle()
    assert node.runs == ["a create c1", "a delete c1"]


def test_two_creates_of_one_container_are_owed_one_stop_with_the_pid_of_the_later(node: Node) -> None:
    configured(node, "CreateContainer", "StartContainer", "StopContainer").plugins(a="answer")
    created(node)
    node.wait(node.create("c1", pid=33))
    node.wait(node.delete("c1"))
    assert node.runs == ["a create c1", "a create c1", "a delete c1"]
    assert node.requests("a")[-1]["pid"] == 33


def test_a_plugin_that_has_no_turn_at_creates_gets_every_stop(node: Node) -> None:
    configured(node, "StopContainer").plugins(a="answer")
    node.wait(node.delete("c1"))
    assert node.runs == ["a delete c1"]
    assert "event" not in node.requests("a")[0]


def test_a_missed_stop_is_made_up_for_by_a_removal_that_is_listed_itself(node: Node) -> None:
    configured(node, "StartContainer", "StopContainer", "RemoveContainer", plugins="a").plugins(a="answer", b="answer")
    node.wait(node.create("c1"))
    node.wait(node.delete("c1", event="RemoveContainer"))
    assert node.runs == ["a create c1", "b create c1", "b delete c1", "a delete c1"]
    assert node.requests("a")[-1]["event"] == "RemoveContainer"
    assert "event" not in node.requests("b")[-1]


# The request


def test_the_request_has_the_whole_spec_and_the_messages(node: Node) -> None:
    configured(node, "CreateContainer").plugins(a="answer")
    created(node)
    [request] = node.requests("a")
    assert list(request) == ["version", "state", "id", "sandboxID", "spec", "labels", "event", "pod", "container"]
    assert request["spec"]["process"]["args"] == ["sleep", "9"]
    assert request["spec"]["process"]["env"] == ["PATH=/bin", "A=1"]
    assert request["spec"]["annotations"] == ANNOTATIONS
    assert request["spec"]["linux"]["cgroupsPath"] == "/c1"
    assert request["container"]["linux"]["cgroups_path"] == "/c1"
    assert request["pod"]["labels"] == {"of": "pod"}


def test_each_plugin_sees_the_edits_before_it(node: Node) -> None:
    configured(node, "CreateContainer").plugins(
        a=saying(spec={"process": {"env": ["A=2", "B=3"]}, "annotations": {"zone": "b"}}), b="answer"
    )
    adjustment = created(node)
    [request] = node.requests("b")
    assert request["spec"]["process"]["env"] == ["PATH=/bin", "A=2", "B=3"]
    assert request["spec"]["annotations"] == {**ANNOTATIONS, "zone": "b"}
    assert {entry.key: entry.value for entry in adjustment.env if not entry.key.startswith("-")} == {"A": "2", "B": "3"}
    assert adjustment.annotations["zone"] == "b"


def test_at_the_originals_events_the_request_is_the_originals(node: Node) -> None:
    configured(node, "StartContainer").plugins(a="answer")
    node.wait(node.create("c1"))
    assert list(node.requests("a")[0]) == ["version", "state", "id", "sandboxID", "pid", "spec", "labels"]
    assert "process" not in node.requests("a")[0]["spec"]


# Adjustments


def test_an_adjustment_brings_what_has_no_place_in_a_spec(node: Node) -> None:
    adjust = {"CDI_devices": [{"name": "example.com/dev=1"}], "env": [{"key": "C", "value": "4"}]}
    configured(node, "CreateContainer").plugins(
        a=saying(spec={"process": {"env": ["C=3"]}}, adjust=adjust),
        b=saying(adjust={"CDI_devices": [{"name": "x/y=2"}]}),
    )
    adjustment = created(node)
    assert [device.name for device in adjustment.CDI_devices] == ["example.com/dev=1", "x/y=2"]
    assert [(entry.key, entry.value) for entry in adjustment.env] == [("C", "4")]


def test_the_cgroup_stands_beside_the_spec_too(node: Node) -> None:
    configured(node, "CreateContainer").plugins(a=saying(cgroupsPath="/elsewhere"))
    assert created(node).linux.cgroups_path == "/elsewhere"


def test_to_answer_with_the_whole_spec_changes_nothing(node: Node) -> None:
    configured(node, "CreateContainer").plugins(
        a="""spec=${request#*'"spec":'}; spec=${spec%%',"labels"'*}; printf '{"spec":%s}' "$spec" """
    )
    answer = creating(node)
    node.wait(answer)
    assert (answer.outcome, answer.reply) == ("ok", None)


def test_metadata_becomes_annotations_where_a_prefix_is_configured(node: Node) -> None:
    listed = {"a": PluginSettings(events=frozenset(["CreateContainer"]))}
    node.build(plugins=listed, metadata_prefix="nri.example.com/")
    node.plugins(a=saying(metadata={"cpus": "0-3"}))
    assert dict(created(node).annotations) == {"nri.example.com/a.cpus": "0-3"}
    node.build(plugins=listed)
    assert not created(node, "c2").annotations


REFUSED = [
    ({"spec": {"process": {"user": {"uid": 7}}}}, "process.user"),
    ({"spec": {"process": {"env": 3}}}, "process.env"),
    ({"spec": []}, "spec"),
    ({"spec": 5}, "spec"),
    ({"spec": {"a": json.loads("[" * 120 + "]" * 120)}}, "spec: nested too deeply"),
    ({"adjust": {"no_such": 1}}, "adjust: "),
    ({"adjust": [1]}, "adjust: "),
    ({"adjust": {"env": [{"key": "-A"}]}}, "process.env[A]"),
    ({"updates": {}}, "updates: must be an array, not an object"),
    ({"updates": [7]}, "updates[0]: must be an object"),
    ({"updates": [{"resources": {}}]}, "updates[0]: must be an object with the `id`"),
    ({"updates": [{"id": "zz", "resources": {}}]}, "updates[0].id: there is no container 'zz'"),
    ({"updates": [{"id": "c1", "resources": {}}]}, "updates[0].id: c1 is what the event is about"),
    ({"updates": [{"id": "c0", "cpu": {}}]}, "updates[0].cpu: unknown"),
    ({"updates": [{"id": "c0"}]}, "updates[0].resources: must be an object, not null"),
    ({"updates": [{"id": "c0", "resources": {"pids": {"limit": 3}}}]}, "updates[0].resources.pids: "),
    ({"updates": [{"id": "c0", "resources": {"memory": {"swap": 3}}}]}, "updates[0].resources.memory.swap: "),
    ({"updates": [{"id": "c0", "resources": {"cpu": {"shares": "many"}}}]}, "updates[0].resources.cpu.shares: "),
]


@pytest.mark.parametrize(("result", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_a_wish_that_cannot_be_fails_the_plugin_by_name(node: Node, result: dict[str, object], reason: str) -> None:
    configured(node, "CreateContainer").plugins(a=saying(**result))
    node.bridge.updates.known.add("c0")
    answer = creating(node)
    node.wait(answer)
    assert answer.outcome.startswith(f"plugin: a: {reason}")


def test_of_a_refused_result_nothing_is_taken(node: Node) -> None:
    """Policy lets the container be, and the next plugin sees no trace of it."""
    bad = {"spec": {"process": {"env": ["B=1"]}, "hostname": "x"}, "updates": [{"id": "c0", "resources": {"cpu": {}}}]}
    configured(node, "CreateContainer", fail_create=False).plugins(
        a=saying(**bad), b=saying(spec={"annotations": {"n": "1"}})
    )
    node.bridge.updates.known.add("c0")
    answer = creating(node)
    node.wait(answer)
    assert "B=1" not in node.requests("b")[0]["spec"]["process"]["env"]
    assert answer.reply == api.CreateContainerResponse(adjust=api.ContainerAdjustment(annotations={"n": "1"}))


@pytest.mark.parametrize("wish", [{"spec": {"process": {"env": ["A=1"]}}}, {"adjust": {"env": [{"key": "A"}]}}])
def test_at_the_originals_events_nothing_can_be_adjusted(node: Node, wish: dict[str, object]) -> None:
    node.plugins(a=saying(**wish))
    answer = node.create("c1")
    node.wait(answer)
    [name] = wish
    assert answer.outcome == f"plugin: a: {name}: the container exists already"


def test_a_plugin_that_only_echoes_its_request_has_no_wish(node: Node) -> None:
    node.plugins(a="""printf '{"state":"create","id":"c1","pid":22,"cgroupsPath":"/elsewhere"}' """)
    answer = node.create("c1")
    node.wait(answer)
    assert (answer.outcome, answer.reply) == ("ok", None)


def test_an_edit_that_comes_too_late_is_refused_by_name(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    configured(node, "CreateContainer", fail_create=False).plugins(a="hold; " + saying(spec={"hostname": "x"}))
    answer = creating(node)
    node.hear("a create c1 holds")
    node.loop.advance(2.0 - MARGIN)
    assert (answer.outcome, answer.reply) == ("ok", None)
    node.release("a")
    node.idle()
    assert "spec: it comes too late, the container is being created without it" in caplog.text


# UpdateContainer


def updating(node: Node, shares: int = 1024) -> Answer:
    have = api.LinuxResources(cpu=api.LinuxCPU(shares=api.OptionalUInt64(value=256), cpus="0-7"))
    asked = api.LinuxResources(cpu=api.LinuxCPU(shares=api.OptionalUInt64(value=shares)))
    made = container()
    made.linux.resources.CopyFrom(have)
    request = api.UpdateContainerRequest(pod=a_pod(), container=made, linux_resources=asked)
    answer = node.handle("UpdateContainer", request)
    node.wait(answer)
    return answer


def test_an_update_shows_what_is_asked_for_and_what_will_be(node: Node) -> None:
    configured(node, "UpdateContainer").plugins(a="answer")
    assert updating(node).reply is None
    [request] = node.requests("a")
    assert request["resources"] == {"cpu": {"shares": 1024}}
    assert request["spec"]["linux"]["resources"]["cpu"] == {"shares": 1024, "cpus": "0-7"}


def test_a_plugin_can_change_what_is_asked_for(node: Node) -> None:
    configured(node, "UpdateContainer").plugins(
        a=saying(spec={"linux": {"resources": {"cpu": {"shares": 256}}}}),
        b=saying(spec={"linux": {"resources": {"cpu": {"cpus": "1"}}}}),
    )
    reply = updating(node).reply
    cpu = api.LinuxCPU(shares=api.OptionalUInt64(value=256), cpus="1")
    linux = api.LinuxContainerUpdate(resources=api.LinuxResources(cpu=cpu))
    [update] = reply.update
    assert (update.container_id, update.linux) == ("c1", linux)


NOT_AT_UPDATES = [
    ({"spec": {"process": {"env": ["A=2"]}}}, "process: only linux.resources"),
    ({"spec": {"linux": {"cgroupsPath": "/x"}}}, "linux.cgroupsPath: only linux.resources"),
    ({"spec": {"linux": None}}, "linux"),
    ({"spec": {"linux": {"resources": {"pids": {"limit": 3}}}}}, "spec.linux.resources.pids: updates do not"),
    ({"adjust": {"env": [{"key": "A"}]}}, "adjust: only linux.resources"),
    ({"updates": [{"id": "c1", "resources": {}}]}, "updates[0].id: c1 is what the event is about"),
]


@pytest.mark.parametrize(("result", "reason"), NOT_AT_UPDATES, ids=[reason for _, reason in NOT_AT_UPDATES])
def test_an_update_changes_resources_only(node: Node, result: dict[str, object], reason: str) -> None:
    configured(node, "UpdateContainer").plugins(a=saying(**result))
    assert updating(node).outcome.startswith(f"plugin: a: {reason}")


# Updates of other containers


class Runtime:
    """Takes updates that come unsolicited, and answers when it is told to."""

    def __init__(self, node: Node) -> None:
        self.calls: list[list[api.ContainerUpdate]] = []
        self.done: list[Any] = []
        node.bridge.updates.send = self._send

    def _send(self, updates: list[api.ContainerUpdate], done: Any) -> None:
        self.calls.append(updates)
        self.done.append(done)


def asking(cpus: str, id_: str = "c0") -> str:
    return saying(updates=[{"id": id_, "resources": {"cpu": {"cpus": cpus}}}])


def cpus_of(updates: Any) -> dict[str, str]:
    return {update.container_id: update.linux.resources.cpu.cpus for update in updates}


def known(node: Node, *ids: str) -> None:
    node.bridge.synchronize([], [a_container(id_) for id_ in ids])


def test_an_answer_that_can_carry_updates_carries_them(node: Node) -> None:
    configured(node, "CreateContainer").plugins(a=asking("0"), b=asking("1"))
    known(node, "c0")
    answer = creating(node)
    node.wait(answer)
    [update] = answer.reply.update
    assert (cpus_of([update]), update.ignore_failure) == ({"c0": "1"}, True)
    assert not answer.reply.HasField("adjust")


def test_the_answer_to_a_stop_carries_updates(node: Node) -> None:
    node.plugins(a="case $state in delete) " + asking("0-1") + ";; *) answer;; esac")
    known(node, "c0")
    node.wait(node.create("c1"))
    answer = node.delete("c1")
    node.wait(answer)
    assert cpus_of(answer.reply.update) == {"c0": "0-1"}
    assert isinstance(answer.reply, api.StopContainerResponse)


def test_what_other_events_ask_for_waits_for_the_next_answer_that_can_carry_it(node: Node) -> None:
    node.plugins(a="case $state in create) " + asking("0-1") + ";; *) answer;; esac")
    known(node, "c0")
    answer = node.create("c1")
    node.wait(answer)
    assert answer.reply is None
    assert node.handle("PostUpdateContainer", api.PostUpdateContainerRequest(container=container())).reply is None
    carrier = creating(node, "c2")
    assert carrier.outcome == "nothing to do"
    assert cpus_of(carrier.reply.update) == {"c0": "0-1"}
    assert creating(node, "c3").reply is None


def test_what_waits_for_a_container_does_not_go_out_with_an_answer_about_it(node: Node) -> None:
    """To a runtime that would be two plugins that change the same thing."""
    lists = {"a": ["StartContainer"], "b": ["UpdateContainer"]}
    node.build(plugins={name: PluginSettings(events=frozenset(events)) for name, events in lists.items()})
    node.plugins(a=asking("3", "c1"), b=saying(spec={"linux": {"resources": {"cpu": {"cpus": "1"}}}}))
    known(node, "c1")
    node.wait(node.create("c0"))
    assert cpus_of(updating(node).reply.update) == {"c1": "1"}
    assert cpus_of(node.delete("c0").reply.update) == {"c1": "3"}


def test_where_the_runtime_can_be_called_at_any_time_updates_go_out_behind_the_answer(node: Node) -> None:
    node.plugins(a=asking("0-1"))
    known(node, "c0")
    runtime = Runtime(node)
    answer = node.create("c1")
    node.wait(answer)
    node.loop.settle()
    assert [cpus_of(call) for call in runtime.calls] == [{"c0": "0-1"}]


def test_one_call_is_under_way_at_a_time_and_what_comes_meanwhile_is_merged(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.plugins(a="case $id in c1) " + asking("1") + ";; c2) " + asking("2") + ";; *) " + asking("3") + ";; esac")
    known(node, "c0")
    runtime = Runtime(node)
    for id_ in ("c1", "c2", "c3"):
        node.wait(node.create(id_))
        node.loop.settle()
    assert [cpus_of(call) for call in runtime.calls] == [{"c0": "1"}]
    runtime.done.pop()(runtime.calls[0], None)
    assert [cpus_of(call) for call in runtime.calls] == [{"c0": "1"}, {"c0": "3"}]
    assert "the runtime could not update container c0" in caplog.text


def test_updates_of_an_event_that_fails_are_dropped(node: Node) -> None:
    configured(node, "CreateContainer").plugins(a=asking("0"), b=saying(error="no"))
    known(node, "c0")
    runtime = Runtime(node)
    answer = creating(node)
    node.wait(answer)
    assert answer.outcome == "plugin: b: no"
    node.loop.settle()
    assert runtime.calls == []
    assert creating(node, "c2").outcome == "pending"  # and nothing waits for it
    node.idle()


def test_what_is_for_a_container_that_has_ended_is_forgotten(node: Node) -> None:
    node.plugins(a="case $id in c1) " + asking("1") + ";; *) answer;; esac")
    known(node, "c0")
    node.wait(node.create("c1"))
    answer = node.delete("c0")
    node.wait(answer)
    assert answer.reply is None


def test_what_comes_late_goes_out_with_the_next_answer(node: Node) -> None:
    configured(node, "CreateContainer", fail_create=False, plugins="a").plugins(a="hold; " + asking("0"))
    known(node, "c0")
    answer = creating(node)
    node.hear("a create c1 holds")
    node.loop.advance(2.0 - MARGIN)
    assert answer.reply is None
    node.release("a")
    node.idle()
    stopped = node.delete("c1")
    assert cpus_of(stopped.reply.update) == {"c0": "0"}


# The rest of whose turn it is


def test_pods_have_their_creates_and_stops_likewise(node: Node) -> None:
    settings = {
        name: PluginSettings(events=frozenset([event]))
        for name, event in (("a", "RunPodSandbox"), ("b", "StopPodSandbox"))
    }
    node.build(plugins=settings)
    node.plugins(a="answer", b="answer")
    node.wait(node.create_pod(), node.delete_pod())
    assert node.runs == ["a create pod", "b delete pod"]


def test_what_containerd_runs_for_pods_itself_is_left_to_it_whatever_is_listed(node: Node) -> None:
    node.build(
        plugins={"a": PluginSettings(events=frozenset(["StopPodSandbox", "RemovePodSandbox"]))}, sandboxes="never"
    )
    node.plugins(a="answer")
    assert node.delete_pod().outcome == "nothing to do"
    node.wait(node.handle("RemovePodSandbox", api.RemovePodSandboxRequest(pod=a_pod())))
    assert node.runs == ["a delete pod"]


def test_what_runs_at_the_start_is_owed_a_stop_by_those_that_have_a_turn_then(node: Node) -> None:
    lists = {"a": ["CreateContainer", "StopContainer"], "b": ["CreateContainer"]}
    node.build(plugins={name: PluginSettings(events=frozenset(events)) for name, events in lists.items()})
    node.plugins(a="answer", b="answer", c="answer")
    node.bridge.synchronize([], [a_container("c1", state=api.CONTAINER_RUNNING, pod_sandbox_id="pod")])
    node.wait(node.delete("c1"))
    assert node.runs == ["a delete c1", "c delete c1"]


def test_before_there_is_a_container_its_process_is_not_looked_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapter.legacy.cgroup.find_pid", lambda path: 77)
    configured(node, "CreateContainer", "StartContainer").plugins(a="answer")
    created(node)
    node.wait(node.create("c1", pid=0))
    assert [request.get("pid") for request in node.requests("a")] == [None, 77]


# The rest of what is taken


def test_a_plugin_that_has_failed_gets_none_of_its_wishes(node: Node) -> None:
    wish = {"error": "no", "spec": {"process": {"env": ["B=1"]}}}
    configured(node, "CreateContainer", fail_create=False).plugins(a=saying(**wish))
    answer = creating(node)
    node.wait(answer)
    assert (answer.outcome, answer.reply) == ("ok", None)


def test_what_the_runtime_does_not_know_is_refused(node: Node) -> None:
    configured(node, "CreateContainer").plugins(a=saying(spec={"process": {"args": ["true"]}}))
    node.bridge.runtime_is("containerd", "1.7.35", (0, 8, 0))
    answer = creating(node)
    node.wait(answer)
    assert answer.outcome.startswith("plugin: a: process.args: the runtime has NRI 0.8.0")
    node.bridge.runtime_is("containerd", "2.4.2", (0, 12, 3))
    assert list(created(node, "c2").args) == ["", "true"]


def test_metadata_goes_by_the_programs_name(node: Node) -> None:
    node.plugin("a", saying(metadata={"k": "v"}))
    path = node.programs.path("a")
    node.build(plugins={path: PluginSettings(events=frozenset(["CreateContainer"]))}, metadata_prefix="x/")
    node.configure(path)
    assert dict(created(node).annotations) == {"x/a.k": "v"}


def test_a_change_of_an_update_that_comes_too_late_is_refused_by_name(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    wish = saying(spec={"linux": {"resources": {"cpu": {"shares": 7}}}})
    configured(node, "UpdateContainer", fail_create=False, plugins="a").plugins(a="hold; " + wish)
    answer = node.handle("UpdateContainer", api.UpdateContainerRequest(pod=a_pod(), container=container()))
    node.hear("a update c1 holds")
    node.loop.advance(2.0 - MARGIN)
    node.release("a")
    node.idle()
    assert (answer.outcome, answer.reply) == ("ok", None)
    assert "spec: it comes too late, the container is being updated without it" in caplog.text


def test_a_failed_update_ends_its_chain(node: Node) -> None:
    configured(node, "UpdateContainer").plugins(a=saying(error="no"), b="answer")
    assert updating(node).outcome == "plugin: a: no"
    assert node.requests("b") == []


def test_the_runtime_is_to_fail_where_it_cannot_do_what_an_update_was_changed_to(node: Node) -> None:
    configured(node, "UpdateContainer").plugins(a=saying(spec={"linux": {"resources": {"cpu": {"shares": 7}}}}))
    [update] = updating(node).reply.update
    assert not update.ignore_failure


def test_a_container_that_was_started_can_be_updated(node: Node) -> None:
    node.plugins(a="case $id in c1) answer;; *) " + asking("1", "c1") + ";; esac")
    node.wait(node.create("c1"))
    answer = node.create("c2")
    node.wait(answer)
    assert answer.outcome == "ok"


def test_a_bug_that_a_result_meets_fails_its_plugin_and_nobody_else(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stumble(*_: object) -> None:
        raise KeyError("bug")

    monkeypatch.setattr("adapter.oci.patch.merged", stumble)
    configured(node, "CreateContainer", fail_create=False).plugins(a=saying(spec={"annotations": {}}), b="answer")
    created(node)
    assert node.runs == ["a create c1", "b create c1"]
    assert "plugin: a: its result meets a bug of the adapter" in caplog.text
    assert "KeyError" in caplog.text
