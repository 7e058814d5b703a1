"""The running daemon adjusts containers: what it asks for, the order at a creation, updates that it sends."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from adapter.nri import api
from adapter.nri.events import mask
from adapter.wire import Code

from .harness import Daemon, Node, start, stop

USUAL = mask(
    ["RunPodSandbox", "StartContainer", "StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"]
)


def configured(
    node: Node, legacy: dict[str, Any], nri: str = "v0.12.5", runtime: str = "test", **more: Any
) -> tuple[Daemon, int]:
    daemon = node.spawn()
    daemon.registration()
    events = daemon.configure(node.settings(legacy, **more), runtime, nri=nri).events
    container = api.Container(id="c0", state=api.CONTAINER_RUNNING, pid=1)
    daemon.call("Synchronize", api.SynchronizeRequest(containers=[container]))
    return daemon, events


def creation(id_: str = "c1") -> api.CreateContainerRequest:
    container = api.Container(id=id_, name=id_, args=["sleep"], env=["A=1"], annotations={"note": "x"})
    return api.CreateContainerRequest(pod=api.PodSandbox(id="p", name="p", namespace="default"), container=container)


def created(daemon: Daemon, id_: str = "c1") -> api.CreateContainerResponse:
    reply = daemon.call("CreateContainer", creation(id_))
    assert reply.code == Code.OK, reply.message
    return api.CreateContainerResponse.FromString(reply.payload)


def variables(response: api.CreateContainerResponse) -> dict[str, str]:
    return {entry.key: entry.value for entry in response.adjust.env if not entry.key.startswith("-")}


def test_the_events_that_plugins_are_configured_for_are_asked_for_where_the_runtime_knows_them(node: Node) -> None:
    for events in ([], ["CreateContainer"], ["UpdateContainer", "PostStartContainer"], ["UpdatePodSandbox"]):
        assert configured(node, {"plugins": {"a": {"events": events}}})[1] == USUAL | mask(events)
    both = {"plugins": {"a": {"events": ["UpdatePodSandbox", "CreateContainer"]}}}
    assert configured(node, both, nri="")[1] == USUAL | mask(["CreateContainer"])


def hook(folder: Path, name: str, path: Path, stage: str, key: str = ".*") -> None:
    when = {"annotations": {key: ".*"}}
    text = json.dumps({"version": "1.0.0", "hook": {"path": str(path)}, "when": when, "stages": [stage]})
    (folder / f"{name}.json").write_text(text)


def test_legacy_plugins_come_first_then_hooks_then_precreate_hooks(node: Node, tmp_path: Path) -> None:
    """Hooks are matched on the container as it came: one for what a plugin adds does not match."""
    folder = tmp_path / "hooks.d"
    folder.mkdir()
    patch = {"spec": {"process": {"env": ["A=2", "B=1"]}, "annotations": {"added": "y"}}}
    node.plugin("first", node.record("first", json.dumps(patch)))
    node.plugin("second", node.record("second"))
    node.configure("first", "second")
    log = tmp_path / "spec"
    editor = node.plugin("editor", f"tee {log} | sed {shlex.quote('s/B=1/B=2/')}")
    hook(folder, "a", Path("/bin/true"), "createRuntime", "^note$")
    hook(folder, "b", Path("/bin/true"), "createRuntime", "^added$")
    editing = {"path": str(editor), "env": ["PATH=/usr/bin:/bin"]}
    text = {"version": "1.0.0", "hook": editing, "when": {"always": True}, "stages": ["precreate"]}
    (folder / "c.json").write_text(json.dumps(text))
    events = {"events": ["CreateContainer"]}
    daemon, _ = configured(
        node,
        {"plugins": {"first": events, "second": events}},
        hooks={"enabled": True, "directories": [str(folder)], "precreate": True},
    )
    response = created(daemon)
    assert [request["spec"]["process"]["env"] for request in node.requests("second")] == [["A=2", "B=1"]]
    seen = json.loads(log.read_text())
    assert seen["process"]["env"] == ["A=2", "B=1"]
    assert [entry["path"] for entry in seen["hooks"]["createRuntime"]] == ["/bin/true"]
    assert variables(response) == {"A": "2", "B": "2"}
    assert dict(response.adjust.annotations) == {"added": "y"}
    assert len(response.adjust.hooks.create_runtime) == 1
    node.still_serves(daemon)


PRECREATE = {"enabled": True, "precreate": True}


def test_a_precreate_hook_that_fails_fails_the_creation_by_name_and_is_refused_where_it_is_not_enabled(
    node: Node, tmp_path: Path
) -> None:
    hook(tmp_path, "bad", Path("/bin/false"), "precreate")
    daemon, _ = configured(node, {}, hooks={**PRECREATE, "directories": [str(tmp_path)]})
    reply = daemon.call("CreateContainer", creation())
    assert (reply.code, reply.message) == (Code.UNKNOWN, f"precreate hook {tmp_path}/bad.json: exit code 1")
    node.still_serves(daemon)
    daemon, _ = configured(node, {}, hooks={"enabled": True, "directories": [str(tmp_path)]})
    assert not created(daemon).ByteSize()
    daemon.logged("bad.json", "the stage 'precreate' is not enabled")


def test_sigterm_lets_a_precreate_hook_that_runs_be_finished_and_its_edits_be_answered(
    node: Node, tmp_path: Path
) -> None:
    gate = node.gate()
    editing = f"IFS= read -r spec; {gate.script}; printf '%s' \"${{spec%%A=1*}}A=2${{spec#*A=1}}\""
    hook(tmp_path, "edit", node.plugin("editor", editing), "precreate")
    daemon, _ = configured(node, {}, hooks={**PRECREATE, "directories": [str(tmp_path)]})
    call = daemon.send("CreateContainer", creation())
    gate.arrival()
    daemon.signal(signal.SIGTERM)
    daemon.logged("INFO ending on SIGTERM")
    gate.let_on()
    reply = daemon.reply(call)
    assert (reply.code, reply.message) == (Code.OK, "")
    assert variables(api.CreateContainerResponse.FromString(reply.payload)) == {"A": "2"}
    assert daemon.ended() == 0


@pytest.mark.deadline
def test_a_precreate_hook_gets_no_more_than_the_calls_time(node: Node, tmp_path: Path) -> None:
    gate = node.gate()
    hook(tmp_path, "slow", node.plugin("slow", gate.script), "precreate")
    daemon, _ = configured(node, {}, hooks={**PRECREATE, "directories": [str(tmp_path)]})
    daemon.logged("hooks: 1 in force")
    reply = daemon.reply(daemon.send("CreateContainer", creation(), timeout=0.5))
    assert reply.code == Code.UNKNOWN
    assert reply.message.startswith(f"precreate hook {tmp_path}/slow.json: no result within ")
    node.still_serves(daemon)
    assert daemon.children() == {}, "the hook was killed and reaped"


ASKING = {"plugins": {"asks": {"events": ["StartContainer"]}}}


def asking(node: Node) -> str:
    return node.record("asks", json.dumps({"updates": [{"id": "c0", "resources": {"cpu": {"cpus": "0-1"}}}]}))


@pytest.mark.parametrize("nri", ["v0.12.1", "v0.12.0", "", "(devel)"])
def test_updates_go_out_behind_the_answer_or_wait_for_one_where_the_call_can_deadlock_the_runtime(
    node: Node, nri: str
) -> None:
    node.plugin("asks", asking(node))
    node.configure("asks")
    daemon, _ = configured(node, ASKING, nri=nri)
    assert daemon.call("StartContainer", start("c1")).code == Code.OK
    if nri == "v0.12.1":
        request = daemon.request()
        assert request.method == "UpdateContainers"
        [update] = api.UpdateContainersRequest.FromString(request.payload).update
        daemon.answer(request)
        node.still_serves(daemon)
    else:
        node.configure()
        reply = daemon.call("StopContainer", stop("c2"))
        [update] = api.StopContainerResponse.FromString(reply.payload).update
    assert (update.container_id, update.linux.resources.cpu.cpus) == ("c0", "0-1")


# ---- metadata


FORGED = {"nri.example.com/a.cpus": "all", "nri.example.com/other": "x", "nri.example.com": "y", "note": "x"}


def brought(id_: str = "c1") -> api.CreateContainerRequest:
    """A container whose pod's author has written annotations under the prefix."""
    request = creation(id_)
    request.container.annotations.update(FORGED)
    request.pod.annotations.update({"nri.example.com/pod": "z"})
    return request


def test_annotations_under_the_prefix_of_metadata_are_the_adapters_alone(node: Node, tmp_path: Path) -> None:
    folder = tmp_path / "hooks.d"
    folder.mkdir()
    hook(folder, "forged", Path("/bin/true"), "createRuntime", "^nri.example.com/")
    hook(folder, "honest", Path("/bin/true"), "createRuntime", "^note$")
    node.plugin("a", node.record("a", json.dumps({"metadata": {"cpus": "0-3"}})))
    node.plugin("b", node.record("b"))
    node.configure("a", "b")
    own = {name: {"events": ["CreateContainer"]} for name in ("a", "b")}
    hooks = {"enabled": True, "directories": [str(folder)]}
    daemon, _ = configured(node, {"metadataPrefix": "nri.example.com/", "plugins": own}, hooks=hooks)
    reply = daemon.call("CreateContainer", brought())
    adjust = api.CreateContainerResponse.FromString(reply.payload).adjust
    assert dict(adjust.annotations) == {"nri.example.com/a.cpus": "0-3", "-nri.example.com/other": ""}
    assert len(adjust.hooks.create_runtime) == 1
    seen = [node.requests(name)[0]["spec"]["annotations"] for name in ("a", "b")]
    assert "annotations" not in node.requests("a")[0]["pod"]
    kept = {"note": "x", "nri.example.com": "y"}
    assert seen == [kept, {**kept, "nri.example.com/a.cpus": "0-3"}]
    daemon.logged(
        "container default/p/c1 (c1) brings 3 annotations under nri.example.com/, which are removed;",
        "the first is nri.example.com/a.cpus",
    )


def test_they_are_removed_also_where_no_plugin_and_no_hook_is_but_not_without_a_prefix(node: Node) -> None:
    node.configure()
    daemon, events = configured(node, {"metadataPrefix": "nri.example.com/"})
    assert events == USUAL | mask(["CreateContainer"])
    reply = daemon.call("CreateContainer", brought())
    adjust = api.CreateContainerResponse.FromString(reply.payload).adjust
    assert dict(adjust.annotations) == {"-nri.example.com/a.cpus": "", "-nri.example.com/other": ""}
    daemon, _ = configured(node, {"plugins": {"a": {"events": ["CreateContainer"]}}})
    assert daemon.call("CreateContainer", brought()).payload == b""


def test_on_cri_o_which_announces_no_end_of_it_a_creation_that_a_hook_refuses_gets_its_delete_behind_the_answer(
    node: Node, tmp_path: Path
) -> None:
    hook(tmp_path, "bad", Path("/bin/false"), "precreate")
    node.plugin("a", node.record("a"))
    node.configure("a")
    events = {"a": {"events": ["CreateContainer", "StopContainer"]}}
    hooks = {**PRECREATE, "directories": [str(tmp_path)]}
    daemon, _ = configured(node, {"plugins": events}, runtime="cri-o", hooks=hooks)
    assert daemon.call("CreateContainer", creation()).code == Code.UNKNOWN
    daemon.signal(signal.SIGTERM)  # which lets chains under way be finished
    assert daemon.ended() == 0
    assert node.runs("a") == [("create", "c1"), ("delete", "c1")]
