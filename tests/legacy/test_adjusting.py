"""What plugins answer at the creation of a container, and what the runtime gets of it."""

from __future__ import annotations

import json
from unittest.mock import Mock

import pytest

from nri import api
from nri.plugin import RESERVE
from nri.runtimes import Runtime
from v010_adapter.settings import PluginSettings

from ..rig.node import Node, a_container, a_pod, configured, created, creating, saying
from .scenarios import done

ANNOTATIONS = {"of": "c1", "zone": "a"}


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


def test_the_same_result_means_the_same_for_each_container(node: Node) -> None:
    """Results that come again are kept: what the first container takes of one must not change it."""
    hook = {"path": "/bin/true", "args": ["true"]}
    spec = {
        "process": {"env": ["B=3"]},
        "hooks": {"poststop": [hook]},
        "mounts": [{"destination": "/m", "source": "/"}],
    }
    configured(node, "CreateContainer").plugins(a=saying(spec=spec, metadata={"k": "v"}), b=saying(spec=spec))
    first = created(node)
    assert len(first.mounts) == 1
    assert created(node) == first
    assert len(node.requests("b")) == 2


def test_a_container_that_is_its_own_pod_as_dockers_are_is_a_container(node: Node) -> None:
    """The plugins read, and edit, its whole specification, and it is refused if it is too large to run."""
    configured(node, "CreateContainer").plugins(a=saying(spec={"process": {"env": ["A=2"]}}), b="answer")
    for env, outcome in ((["A=1"], "ok"), (["A=" + "x" * 131_070], "plugin: a: env[0]: 131072 bytes, at most 131071")):
        own = api.Container(id="c1", pod_sandbox_id="c1", args=["true"], env=env)
        request = api.CreateContainerRequest(pod=api.PodSandbox(id="c1"), container=own)
        assert done(node, node.handle("CreateContainer", request, 2.0)) == outcome
    seen = [request["spec"]["process"] for name in "ab" for request in node.requests(name)]
    assert seen == [{"args": ["true"], "env": ["A=1"]}, {"args": ["true"], "env": ["A=2"]}]


# Adjustments


def test_an_adjustment_brings_what_has_no_place_in_a_spec(node: Node) -> None:
    classes = {"blockio_class": {"value": "slow"}, "rdt_class": {"value": "gold"}}
    beside = {"CDI_devices": [{"name": "example.com/dev=1"}], "linux": {"resources": classes}}
    adjust = {**beside, "env": [{"key": "C", "value": "4"}]}
    configured(node, "CreateContainer").plugins(
        a=saying(spec={"process": {"env": ["C=3"]}, "cgroupsPath": "/a"}, cgroupsPath="/b", adjust=adjust),
        b=saying(adjust={"CDI_devices": [{"name": "x/y=2"}]}),
    )
    adjustment = created(node)
    assert [device.name for device in adjustment.CDI_devices] == ["example.com/dev=1", "x/y=2"]
    assert [(entry.key, entry.value) for entry in adjustment.env] == [("C", "4")]
    assert adjustment.linux.cgroups_path == "/a", "the one in the spec comes first"
    resources = adjustment.linux.resources
    assert (resources.blockio_class.value, resources.rdt_class.value) == ("slow", "gold")


def test_a_cdi_device_is_sent_once_though_two_plugins_ask_for_it(node: Node) -> None:
    """The runtime would take the second for a conflict, and fail the container."""
    adjust = {"CDI_devices": [{"name": "x/y=1"}, {"name": "x/y=2"}, {"name": "x/y=1"}]}
    configured(node, "CreateContainer").plugins(a=saying(adjust=adjust), b=saying(adjust=adjust))
    assert [device.name for device in created(node).CDI_devices] == ["x/y=1", "x/y=2"]


WHOLE_SPEC = """spec=${request#*'"spec":'}; spec=${spec%%',"labels"'*}; printf '{"spec":%s}' "$spec" """
NO_WISHES = {
    "an empty adjustment or cgroup": saying(adjust={}, cgroupsPath="", spec={}),
    "the whole spec as it was": WHOLE_SPEC,
    "a wish beside an error": saying(error="no", spec={"process": {"env": ["B=1"]}}),
}


@pytest.mark.parametrize("script", NO_WISHES.values(), ids=list(NO_WISHES))
def test_what_is_no_wish_changes_nothing(node: Node, script: str) -> None:
    configured(node, "CreateContainer", fail_create=False).plugins(a=script, b="answer")
    answer = creating(node)
    assert (done(node, answer), answer.reply) == ("ok", None)


def test_metadata_becomes_annotations_by_the_programs_name_where_a_prefix_is_configured(node: Node) -> None:
    node.plugin("a", saying(metadata={"cpus": "0-3"}))
    node.plugin("b", saying())
    for type_ in ("a", f"{node.folder}/a"):
        listed = {name: PluginSettings(events=frozenset(["CreateContainer"])) for name in (type_, "b")}
        node.build(plugins=listed, metadata_prefix="nri.example.com/")
        node.configure(type_, "b")
        added = {"nri.example.com/a.cpus": "0-3"}
        assert dict(created(node).annotations) == added
        assert node.requests("b")[-1]["spec"]["annotations"] == {**ANNOTATIONS, **added}
    node.build(plugins=listed)
    assert not created(node, "c2").annotations


NO = "a wrong value: "


def nested(path: str, value: object) -> dict[str, object]:
    """Returns a wish with one value, at a place such as `spec.linux.resources`."""
    for name in reversed(path.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


REFUSED: list[tuple[dict[str, object], str]] = [
    (nested("spec.process.user.uid", 7), "process.user"),
    ({"spec": {"a": json.loads("[" * 120 + "]" * 120)}}, "spec: nested too deeply"),
    (nested("spec.process.oomScoreAdj", 10**2000), "spec: a number with more than 1000 digits"),
    ({"spec": [1], "cgroupsPath": "/x"}, f"spec: {NO}an array instead of an object"),
    ({"spec": {"": 1}}, '"": NRI has no field for it'),
    (nested("spec.linux.cgroupsPath", []), f"linux.cgroupsPath: {NO}an array instead of a str"),
    ({"cgroupsPath": []}, f"linux.cgroupsPath: {NO}an array instead of a string"),
    (nested("adjust.no_such", 1), "adjust.no_such: unknown field; known: annotations, mounts, env, "),
    (nested("adjust.linux.resourcs", {}), "adjust.linux.resourcs: unknown field; did you mean `resources`?"),
    (nested("adjust.annotations.a", 1), f"adjust.annotations[a]: {NO}a number instead of a str"),
    (
        nested("adjust.linux.ioPriority.class", "BE"),
        f"adjust.linux.ioPriority.class: {NO}a string instead of one of IOPRIO_CLASS_NONE, IOPRIO_",
    ),
    (nested("adjust.env", [[]]), f"adjust.env[0]: {NO}an array instead of an object"),
    (nested("adjust.linux.resources.pids.limit", -1), "linux.resources.pids.limit: runtimes take"),
    (nested("adjust.env", [{"key": "-A"}]), "process.env[A]"),
    ({**nested("spec.linux.sysctl", 5), **nested("adjust.linux.sysctl", {"a": "b"})}, f"linux.sysctl: {NO}a number"),
    ({"updates": {}}, "updates: must be an array, not an object"),
    ({"updates": [{"resources": {}}]}, "updates[0]: must be an object with the `id`"),
    ({"updates": [{"id": "zz", "resources": {}}]}, "updates[0].id: there is no container 'zz'"),
    ({"updates": [{"id": "id", "resources": {}}]}, "updates[0].id: {id} is the container of the event"),
    ({"updates": [{"id": "c0", "x": 1, "cpu": {}, "y": 2}]}, "updates[0].cpu: unknown"),
    ({"updates": [{"id": "c0"}]}, "updates[0].resources: must be an object, not null"),
    ({"updates": [{"id": "c0", "resources": {"pids": {"limit": 3}}}]}, "updates[0].resources.pids: "),
    ({"updates": [{"id": "c0", "resources": {"cpu": {"shares": "many"}}}]}, "updates[0].resources.cpu.shares: "),
]


def test_a_wish_that_cannot_be_fails_the_plugin_by_name(node: Node, subtests: pytest.Subtests) -> None:
    configured(node, "CreateContainer", plugins="a")
    node.serving.updates.existing.add("c0")
    for number, (result, reason) in enumerate(REFUSED, 1):
        id_ = f"c{number}"
        with subtests.test(reason):
            node.plugins(a=saying(**result).replace('"id": "id"', f'"id": "{id_}"'))
            assert done(node, creating(node, id_)).startswith(f"plugin: a: {reason.replace('{id}', id_)}")


def test_a_container_that_is_too_large_to_run_fails_the_plugins_that_read_all_of_it(node: Node) -> None:
    """Before they are started, and by their policies. At other events, it exists, and is not refused."""
    plugins = {"a": PluginSettings(events=frozenset({"CreateContainer"})), "b": PluginSettings()}
    large = api.Container(id="c1", env=["B=2", "A=" + "x" * 131_070])
    request = api.CreateContainerRequest(pod=api.PodSandbox(id="p"), container=large)
    for fail, outcome in ((True, "plugin: a: env[1]: 131072 bytes, at most 131071"), (False, "ok")):
        node.build(plugins={**plugins, "a": plugins["a"]._replace(fail_create=fail)})
        node.plugins(a="answer", b="answer")
        assert done(node, node.handle("CreateContainer", request, 2.0)) == outcome
        assert node.requests("a") == []
    start = api.StartContainerRequest(pod=request.pod, container=large)
    node.build(plugins={"a": PluginSettings(events=frozenset({"StartContainer"})), "b": PluginSettings()})
    node.plugins(a="answer", b="answer")
    assert done(node, node.handle("StartContainer", start, 2.0)) == "ok"
    assert [len(node.requests(name)) for name in "ab"] == [1, 1]


def test_of_a_refused_result_nothing_is_taken(node: Node) -> None:
    """Policy lets the container be, and the next plugin sees no trace of it."""
    bad = {"spec": {"process": {"env": ["B=1"]}, "hostname": "x"}, "updates": [{"id": "c0", "resources": {"cpu": {}}}]}
    configured(node, "CreateContainer", fail_create=False).plugins(
        a=saying(**bad), b=saying(spec={"annotations": {"n": "1"}})
    )
    node.serving.updates.existing.add("c0")
    answer = creating(node)
    node.wait(answer)
    assert "B=1" not in node.requests("b")[0]["spec"]["process"]["env"]
    assert answer.reply == api.CreateContainerResponse(adjust=api.ContainerAdjustment(annotations={"n": "1"}))


@pytest.mark.parametrize("wish", [{"spec": {"process": {"env": ["A=1"]}}}, {"adjust": {"env": [{"key": "A"}]}}])
def test_at_the_originals_events_nothing_can_be_adjusted(node: Node, wish: dict[str, object]) -> None:
    configured(node, "StartContainer", plugins="a").plugins(a=saying(**wish))
    said = f"plugin: a: {next(iter(wish))}: the container exists already; to change it, add CreateContain"
    assert done(node, node.create("c1")).startswith(said)
    configured(node, "PostCreateContainer", plugins="a")
    request = api.PostCreateContainerRequest(pod=a_pod(), container=a_container("c2"))
    said = f"plugin: a: {next(iter(wish))}: not at PostCreateContainer"
    assert done(node, node.handle("PostCreateContainer", request)) == said


ORIGINAL_WISHES = [{"spec": {"process": 7}}, {"adjust": 5, "SPEC": []}, {"updates": "c1"}, {"cgroupsPath": 5}]


@pytest.mark.parametrize("wish", ORIGINAL_WISHES, ids=str)
def test_to_a_plugin_without_a_list_the_keys_mean_nothing_as_to_the_original(
    node: Node, wish: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    node.plugins(a=saying(**wish))
    for id_ in ("c1", "c2"):
        answer = node.create(id_)
        node.wait(answer)
        assert (answer.outcome, answer.reply) == ("ok", None)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == ("cgroupsPath" not in wish), "one for the plugin, not one for each result"
    for warning in warnings:
        assert "legacy: {plugins: {a: {events: [CreateContainer]}}}" in warning


def test_a_plugin_that_echoes_its_whole_request_succeeds(node: Node) -> None:
    node.plugins(a="printf '%s' \"$request\"", b="answer")
    answers = node.create_pod(), node.create("c1"), node.delete("c1"), node.delete_pod()
    node.wait(*answers)
    assert [answer.outcome for answer in answers] == ["ok"] * 4
    result = {"plugin": "", "version": "0.1", "error": ""}
    assert [request["results"] for request in node.requests("b")] == [[result]] * 4


def test_an_edit_that_is_there_when_the_time_is_up_counts_though_its_plugin_works_on(node: Node) -> None:
    configured(node, "CreateContainer", plugins="a").plugins(a=saying(spec={"annotations": {"n": "1"}}) + "; hold")
    answer = creating(node)
    node.hear("a create c1 holds")
    node.loop.advance(2.0 - RESERVE)
    assert (answer.outcome, dict(answer.reply.adjust.annotations)) == ("ok", {"n": "1"})


def test_an_edit_that_comes_too_late_is_refused_by_name(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    configured(node, "CreateContainer", fail_create=False).plugins(a="hold; " + saying(spec={"hostname": "x"}))
    answer = creating(node)
    node.hear("a create c1 holds")
    node.loop.advance(2.0 - RESERVE)
    assert (answer.outcome, answer.reply) == ("ok", None)
    node.release("a")
    node.idle()
    assert "spec: it comes too late, the container is being created without it" in caplog.text


def test_what_the_runtime_does_not_know_is_refused(node: Node) -> None:
    configured(node, "CreateContainer").plugins(a=saying(spec={"process": {"args": ["true"]}}))
    node.serving.set_runtime(Runtime("containerd", "1.7.35", (0, 8, 0)))
    assert done(node, creating(node)).startswith("plugin: a: process.args: needs NRI 0.10.0, the runtime has 0.8.0")
    node.serving.set_runtime(Runtime("containerd", "2.4.2", (0, 12, 3)))
    assert list(created(node, "c2").args) == ["", "true"]


@pytest.mark.parametrize(
    ("result", "place"),
    [
        (nested("spec.linux.devices", [{"path": "/dev/x", "type": "c"}]), "linux.devices: "),
        (
            nested("spec.mounts", [{"destination": "/x", "type": "tmpfs", "options": ["nosuid"]}]),
            "mounts[/x].options: ",
        ),
        ({"updates": [{"id": "c0", "resources": {"cpu": {"shares": 2}}}]}, "updates[0]: "),
    ],
)
def test_what_docker_does_not_take_is_refused(node: Node, result: dict[str, object], place: str) -> None:
    configured(node, "CreateContainer").plugins(a=saying(**result))
    node.serving.set_runtime(Runtime("docker", "29.0.0", (0, 12, 3)))
    assert done(node, creating(node)).startswith(f"plugin: a: {place}Docker takes no")


@pytest.mark.parametrize("events", [["CreateContainer"], ["CreateContainer", "StopContainer"]])
def test_a_refused_creation_whose_end_no_runtime_tells_leaves_nothing(node: Node, events: list[str]) -> None:
    configured(node, *events).plugins(a=saying(error="no"))
    node.wait(creating(node))
    node.serving.run_for_gone("c1")
    node.idle()
    assert node.runs == ["a create c1", "a delete c1"][: len(events)]
    serving = node.serving
    assert (len(serving.ledger.ids()), serving.ledger.target("c1"), serving.updates.existing) == (0, None, set())


def test_docker_announces_no_stop_and_no_delete_is_owed(node: Node) -> None:
    configured(node, "CreateContainer", "StopContainer").plugins(a="answer")
    node.serving.set_runtime(Runtime("docker", "29.0.0", (0, 12, 3)))
    node.wait(creating(node))
    serving = node.serving
    assert node.runs == ["a create c1"]
    assert (len(serving.ledger.ids()), serving.ledger.target("c1"), serving.updates.existing) == (0, None, set())


def test_a_bug_that_a_result_meets_fails_its_plugin_and_nobody_else(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setattr("v010_adapter.legacy.create_answer.merged", Mock(side_effect=KeyError("bug")))
    configured(node, "CreateContainer", fail_create=False).plugins(a=saying(spec={"annotations": {}}), b="answer")
    created(node)
    assert node.runs == ["a create c1", "b create c1"]
    assert "plugin: a: its result meets a bug of the adapter" in caplog.text
    assert "KeyError" in caplog.text
    assert """create of container c1: its program has printed: b'{"spec":""" in caplog.text
