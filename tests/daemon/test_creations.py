"""The running daemon at creations: what it asks for, plugins and hooks in their order, and metadata."""

from __future__ import annotations

import json
import shlex

import pytest

from nri import api
from nri.events import mask

from ..rig.machine import POD, Machine, container, create, listed, start

USUAL = mask(
    ["RunPodSandbox", "StartContainer", "StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"]
)
CREATIONS = mask(["CreateContainer"])


def test_the_events_that_plugins_are_configured_for_are_asked_for_where_the_runtime_knows_them(node: Machine) -> None:
    for events, nri in (([], "v0.12.5"), (["UpdateContainer", "PostStartContainer", "UpdatePodSandbox"], "v0.12.5")):
        daemon = node.spawn().handshake(node.settings({"plugins": {"a": {"events": events}}}), nri=nri)
        assert daemon.configured.events == USUAL | mask(events)
    both = {"plugins": {"a": {"events": ["UpdatePodSandbox", "CreateContainer"]}}}
    assert node.spawn().handshake(node.settings(both), nri="").configured.events == USUAL | CREATIONS


# ---- hooks


def test_hooks_are_injected_a_change_counts_for_the_next_container_and_bad_files_are_named(node: Machine) -> None:
    folder = node.hook("one", "/bin/true", "createRuntime", "poststop")
    (folder / "bad.json").write_text('{"version": "1.0.0",')
    daemon = node.launch(hooks={"directories": [str(folder)]})
    hooks = daemon.created(create("c0")).hooks
    assert [entry.path for entry in (*hooks.create_runtime, *hooks.poststop)] == ["/bin/true"] * 2
    for number in range(20):
        (folder / "one.json").unlink()
        assert not daemon.created(create(f"without{number}")).ByteSize()
        node.hook("one", "/bin/true", "prestart")
        assert daemon.created(create(f"with{number}")).hooks.create_runtime
    for name in ("two", "three"):  # while no container comes
        (folder / f"{name}.json").write_text("[]")
        daemon.logged(f"{name}.json")
    assert [line for line in daemon.log if "bad.json" in line] == [daemon.logged("bad.json", "line 1")]
    node.still_serves(daemon)


def test_legacy_plugins_come_first_then_hooks_then_precreate_hooks(node: Machine) -> None:
    """Hooks are matched on the container as it came: one for what a plugin adds does not match."""
    patch = {"spec": {"process": {"env": ["A=2", "B=1"]}, "annotations": {"added": "y"}}}
    node.plugin("first", node.record("first", json.dumps(patch)))
    node.plugin("second", node.record("second"))
    node.configure("first", "second")
    seen = node.path / "spec"
    edit = shlex.quote('s/B=1/B=2/; s/"sleep"/"true"/')
    editor = node.plugin("editor", f"tee {seen} | sed {edit}")
    node.hook("a", "/bin/true", "createRuntime", annotations={"^note$": ".*"})
    node.hook("b", "/bin/true", "createRuntime", annotations={"^added$": ".*"})
    folder = node.hook("c", editor, "precreate")
    plugins = {name: {"events": ["CreateContainer"]} for name in ("first", "second")}
    hooks = {"enabled": True, "directories": [str(folder)], "precreate": True}
    daemon = node.launch({"plugins": plugins}, hooks=hooks)
    request = create("c1", {"note": "x"})
    request.container.env.append("A=1")
    request.container.args[:] = ["sleep"]
    adjust = daemon.created(request)
    assert [told["spec"]["process"]["env"] for told in node.requests("second")] == [["A=2", "B=1"]]
    spec = json.loads(seen.read_text())
    assert spec["process"]["env"] == ["A=2", "B=1"]
    assert [entry["path"] for entry in spec["hooks"]["createRuntime"]] == ["/bin/true"]
    assert {entry.key: entry.value for entry in adjust.env if entry.key[0] != "-"} == {"A": "2", "B": "2"}
    assert dict(adjust.annotations) == {"added": "y"}
    assert adjust.args[-1] == "true", "the runtime's NRI has it"
    assert len(adjust.hooks.create_runtime) == 1
    node.still_serves(daemon)


def test_sigterm_lets_a_precreate_hook_be_finished(node: Machine) -> None:
    gate = node.slow()
    node.plugin("slow", gate.script.join(("IFS= read -r spec; ", "; printf '%s' \"${spec%%A=1*}A=2${spec#*A=1}\"")))
    folder = node.hook("slow", node.bin / "slow", "precreate")
    daemon = node.launch(hooks={"enabled": True, "precreate": True, "directories": [str(folder)]})
    request = create("c1")
    request.container.env.append("A=1")
    call = daemon.send(request)
    gate.arrival()
    daemon.terminate()
    gate.let_on()
    reply = daemon.reply(call)
    adjust = api.CreateContainerResponse.FromString(reply.payload).adjust
    assert [entry.value for entry in adjust.env if entry.key == "A"] == ["2"], reply.message
    assert daemon.ended() == 0


def test_updates_that_no_answer_can_carry_are_asked_for(node: Machine) -> None:
    wish = {"updates": [{"id": "c0", "resources": {"cpu": {"shares": 2}}}]}
    node.plugin("asks", node.record("asks", json.dumps(wish)))
    node.configure("asks")
    settings = node.settings({"plugins": {"asks": {"events": ["StartContainer"]}}})
    daemon = node.spawn().handshake(settings, listed("c0", api.CONTAINER_RUNNING))
    daemon.serves(start("c1"))
    asked = api.UpdateContainersRequest.FromString(daemon.request().payload)
    assert [(update.container_id, update.linux.resources.cpu.shares.value) for update in asked.update] == [("c0", 2)]


# ---- metadata


def test_annotations_under_the_prefix_of_metadata_are_the_adapters_alone(node: Machine) -> None:
    """Whether or not a plugin or a hook is there; without a prefix, nobody's."""
    request = create("c1", {"nri.example.com/a.cpus": "all", "nri.example.com/other": "x", "nri.example.com": "y"})
    request.pod.annotations.update({"nri.example.com/pod": "z"})
    node.plugin("a", node.record("a", json.dumps({"metadata": {"cpus": "0-3"}})))
    node.configure("a", "good")
    node.hook("forged", "/bin/true", "createRuntime", annotations={"^nri.example.com/": ".*"})
    folder = node.hook("honest", "/bin/true", "createRuntime", annotations={"^nri.example.com$": ".*"})
    own = {name: {"events": ["CreateContainer"]} for name in ("a", "good")}
    prefixed = {"metadataPrefix": "nri.example.com/", "plugins": own}
    daemon = node.launch(prefixed, hooks={"enabled": True, "directories": [str(folder)]})
    adjust = daemon.created(request)
    assert dict(adjust.annotations) == {"nri.example.com/a.cpus": "0-3", "-nri.example.com/other": ""}
    assert len(adjust.hooks.create_runtime) == 1
    (first,), (second,) = node.requests("a"), node.requests("good")
    assert "annotations" not in first["pod"]
    assert first["spec"]["annotations"] == {"nri.example.com": "y"}
    assert second["spec"]["annotations"] == {"nri.example.com": "y", "nri.example.com/a.cpus": "0-3"}
    brings = "container default/web/c1 (c1) brings 3 annotations under nri.example.com/, which are removed;"
    daemon.logged(brings, "the first is nri.example.com/a.cpus")
    node.configure()
    daemon = node.launch({"metadataPrefix": "nri.example.com/"})
    assert daemon.configured.events == USUAL | CREATIONS
    removed = {"-nri.example.com/a.cpus": "", "-nri.example.com/other": ""}
    assert dict(daemon.created(request).annotations) == removed
    assert not node.launch({"plugins": own}).created(request).ByteSize()


FORGED, HONEST = {"nri.example.com/pod": "z"}, {"nri.example.com": "y"}
EVENTS = (
    *("RunPodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer"),
    *("UpdateContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer"),
    *("UpdatePodSandbox", "PostUpdatePodSandbox", "StopPodSandbox", "RemovePodSandbox"),
)


@pytest.mark.parametrize(("own", "runs"), [({}, 4), ({"good": {"events": EVENTS}}, len(EVENTS))])
def test_no_event_shows_a_plugin_annotations_under_the_prefix(node: Machine, own: object, runs: int) -> None:
    """Neither those that a pod brings, nor what a plugin has recorded: nobody can tell them apart any more."""
    node.configure("good")
    daemon = node.launch({"metadataPrefix": "nri.example.com/", "plugins": own})
    pod = api.PodSandbox()
    pod.CopyFrom(POD)
    pod.annotations.update({**FORGED, **HONEST})
    made = container("c1", {"nri.example.com/good.x": "recorded", **HONEST})
    for event in EVENTS:
        of_container = {} if event.endswith("PodSandbox") else {"container": made}
        daemon.call(getattr(api, f"{event}Request")(pod=pod, **of_container))
    told = node.requests("good")
    assert len(told) == runs, [request.get("event", request["state"]) for request in told]
    for request in told:
        assert request["spec"]["annotations"] == HONEST, request
        for part in ("pod", "container"):
            if part in request:
                assert request[part]["annotations"] == HONEST, request


def test_what_runs_before_the_first_adapter_is_deleted_without_annotations_under_the_prefix(node: Machine) -> None:
    node.configure("good")
    runs = listed("c1", api.CONTAINER_RUNNING)
    for brought in (runs.pods[0].annotations, runs.containers[0].annotations):
        brought.update({**FORGED, **HONEST})
    daemon = node.spawn().handshake(node.settings({"metadataPrefix": "nri.example.com/"}), told=runs)
    daemon.call(api.RemoveContainerRequest(pod=api.PodSandbox(id=POD.id), container=api.Container(id="c1")))
    daemon.call(api.RemovePodSandboxRequest(pod=api.PodSandbox(id=POD.id)))
    daemon.end()
    told = node.requests("good")
    assert node.runs() == [("delete", "c1"), ("delete", POD.id)]
    assert [request["spec"]["annotations"] for request in told] == [HONEST, HONEST]
