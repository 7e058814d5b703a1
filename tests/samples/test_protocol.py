"""What holds for every sample plugin; and what the adapter makes of the answers of those that change containers."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from nri import api
from v010_adapter import settings

from ..rig.loop import SteppedLoop
from ..rig.node import Answer as Reply
from ..rig.node import Node
from .plugins import GOLDEN, PATH, REQUESTS, SAMPLES, Answer, execute, run, sample

ADJUSTING = ("device-injector", "konfine", "timezone", "ulimit-adjuster")
PLUGINS = ("clearcfs", "dump", "logger", *ADJUSTING)
PYTHON = [plugin for plugin in PLUGINS if b"python3" in (SAMPLES / plugin).read_bytes().splitlines()[0]]
EVERY_PLUGIN = pytest.mark.parametrize("plugin", PLUGINS)
GARBAGE = {
    "nothing": b"",
    "binary": bytes(range(256)),
    "half a request": json.dumps(sample("create-container")).encode()[:-2],
    "cut within a string": b'{"version":"0.1","state":"create","id":"a4',
    "an array": b"[]",
    "deep nesting": b"[" * 200_000,
}
SYSTEMD_CGROUP = (
    "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod8b6f2a4e_6a0b_4e0c_9d55_0c1f7a9e3b21.slice/"
    "cri-containerd-a42d519714d616e9411dbceec4b52808bd6b1ee53e6f6497a281d655357d8b71.scope"
)


def ask(plugin: str, request: object, *arguments: str, instead: Path | None = None) -> Answer:
    """Calls a sample in Python; runs one that is a shell script, or what stands in its place."""
    return run(plugin, request, *arguments) if plugin in PYTHON else execute(instead or plugin, request, *arguments)


@pytest.fixture
def confs(tmp_path: Path) -> dict[str, dict[str, object]]:
    """The `conf` of each plugin that keeps it within the test's own folder."""
    for request in (json.loads(path.read_text()) for path in (*REQUESTS, *GOLDEN)):
        for cgroup in (request["spec"]["cgroupsPath"], SYSTEMD_CGROUP):
            quota = tmp_path / "cgroup/cpu" / cgroup.lstrip("/") / "cpu.cfs_quota_us"
            quota.parent.mkdir(parents=True, exist_ok=True)
            quota.write_text("50000\n")
    return {
        "clearcfs": {"cgroupRoot": str(tmp_path / "cgroup"), "allow": {"namespaces": ["default"]}},
        "dump": {"directory": str(tmp_path / "dump")},
        "logger": {"file": str(tmp_path / "log")},
        "konfine": {"systemReserved": [0], "online": "0-3", "state": str(tmp_path / "konfine")},
        "timezone": {"zone": "Europe/Berlin"},
    }


@EVERY_PLUGIN
def test_every_plugin_answers_every_recorded_request_with_a_result_of_its_own(
    plugin: str, confs: dict[str, dict[str, object]], subtests: pytest.Subtests
) -> None:
    for path in (*REQUESTS, *GOLDEN):
        with subtests.test(path.stem):
            conf = confs.get(plugin, {})
            answer = ask(plugin, {**json.loads(path.read_text()), "conf": conf, "version": "0.7"})
            assert list(answer.result) == ["plugin", "version", "error", "metadata"]
            assert (answer.result["plugin"], answer.result["version"]) == (plugin, "0.7")
            assert answer.metadata
            assert all(isinstance(value, str) for value in answer.metadata.values())
            assert answer.stdout.count("\n") == 1
            assert (answer.stderr != "") == (plugin == "logger")
            assert plugin not in ADJUSTING or list(answer.metadata) == ["skipped"]


@EVERY_PLUGIN
def test_garbage_on_stdin_is_answered_with_an_error(plugin: str, tame_dump: Path, subtests: pytest.Subtests) -> None:
    for name, stdin in GARBAGE.items():
        with subtests.test(name):
            answer = ask(plugin, stdin, instead=tame_dump if plugin == "dump" else None)
            assert (answer.code, answer.result["plugin"], answer.result["version"]) == (1, plugin, "0.1")
            assert "request on stdin" in answer.result["error"]
            assert answer.stderr == ""


def test_a_sample_is_python_3_9() -> None:
    for plugin in PYTHON:
        ast.parse((SAMPLES / plugin).read_text(), plugin, feature_version=(3, 9))


def test_the_sample_configuration_names_every_sample_for_the_originals_events_once() -> None:
    conf: dict[str, Any] = json.loads((SAMPLES / "conf.json").read_text())
    types = [entry["type"] for entry in conf["plugins"]]
    assert (conf["version"], sorted(map(os.path.basename, types))) == ("0.1", sorted({*PLUGINS} - {*ADJUSTING}))
    assert {path.name for path in SAMPLES.iterdir() if path.is_file() and path.stat().st_mode & 0o111} == {*PLUGINS}
    assert "/opt/nri/bin/logger" in types, "by its name, the original client finds /usr/bin/logger first"


# ---- one behind the other

CONFIGURATION = """legacy:
  plugins:
    timezone: {events: [CreateContainer]}
    ulimit-adjuster: {events: [CreateContainer]}
    device-injector: {events: [CreateContainer]}
    konfine: {events: [CreateContainer, UpdateContainer]}
"""
LISTS = {"devices": ["c 1:3"], "cdi-devices": ["vendor0.com/device=null"], "mounts": ["ro /usr/share/zoneinfo"]}
ZONES = {"source": "/usr/share/zoneinfo", "destination": "/usr/share/zoneinfo", "type": "bind"}
ADJUSTMENT: dict[str, Any] = {
    "env": [{"key": "TZ", "value": "Europe/Berlin"}],
    "rlimits": [{"type": "RLIMIT_NOFILE", "hard": "4096", "soft": "1024"}],
    "CDI_devices": [{"name": "vendor0.com/device=null"}],
    "mounts": [{**ZONES, "options": ["rbind", "ro"]}],
    "linux": {
        "devices": [{"path": "/dev/nri-null", "type": "c", "major": "1", "minor": "3"}],
        "resources": {"cpu": {"cpus": "1-3"}},
    },
}


def answer_to(node: Node, event: str, request: Any) -> Reply:
    answer = node.handle(event, request)
    node.wait(answer)
    assert answer.outcome == "ok"
    return answer


def test_all_answers_become_one_adjustment_and_one_to_an_update_changes_it(loop: SteppedLoop, tmp_path: Path) -> None:
    node = Node(loop, tmp_path)
    found, errors = settings.parse(CONFIGURATION, "here")
    assert errors == []
    node.build(path=(str(SAMPLES),), plugins=found.legacy.plugins, environment={"PATH": PATH})
    node.configure(
        "timezone",
        ("ulimit-adjuster", {"allow": {"nofile": 4096}}),
        ("device-injector", {"allow": {**LISTS, "namespaces": ["default"]}}),
        ("konfine", {"systemReserved": [0], "online": "0-3", "state": str(tmp_path / "state")}),
    )
    recorded = sample("create-container-event")
    message = {key: recorded[key] for key in ("pod", "container")}
    created = answer_to(node, "CreateContainer", ParseDict(message, api.CreateContainerRequest()))
    assert created.reply.adjust == ParseDict(ADJUSTMENT, api.ContainerAdjustment())
    assert sorted(os.listdir(tmp_path / "state")) == [".lock", recorded["id"]]

    message["linux_resources"] = {"cpu": {"cpus": "0-1"}}
    updated = answer_to(node, "UpdateContainer", ParseDict(message, api.UpdateContainerRequest()))
    assert [(update.container_id, update.linux.resources.cpu.cpus) for update in updated.reply.update] == [
        (recorded["id"], "1")
    ]
    node.close()


# ---- logger: one line per request, whatever stands in the request, and never a pod's undoing

WEB = "container web in pod default/web-0: id a42d519714d6, pid 4017, image localhost/web:1.4"
SANDBOX = "create sandbox of pod default/web-0: id b7ad567477c8, pid 4001"


def test_nothing_in_a_request_can_forge_a_second_line_or_make_it_long() -> None:
    request = sample("create-container")
    request["spec"]["annotations"]["io.kubernetes.cri.container-name"] = "a\ndelete\r\x1b[2J\u2028\u202e\ud800 ö 漢"
    line = run("logger", request).stderr
    assert line.startswith(r"create container a\ndelete\r\x1b[2J\u2028\u202e\ud800 ö 漢 in pod default/web-0")
    assert line.count("\n") == len(line.splitlines()) == 1
    for name in ("sandbox-name", "sandbox-namespace", "container-name", "image-name"):
        request["spec"]["annotations"][f"io.kubernetes.cri.{name}"] = "a" * 250_000
    line = run("logger", request).stderr
    assert (line.count("a" * 512), len(line) < 2300) == (4, True)


def test_lines_are_appended_with_the_time_and_one_that_cannot_be_written_fails_no_pod(tmp_path: Path) -> None:
    file = tmp_path / "log"
    for name in ("create-sandbox", "create-container"):
        assert run("logger", sample(name, file=str(file))).metadata == {"logged": f"stderr, {file}"}
    first, second = file.read_text().splitlines()
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{{4}} {SANDBOX}", first)
    assert second.endswith(f" create {WEB}")

    answer = run("logger", sample("create-sandbox", file=str(tmp_path / "missing/log")))
    assert answer.metadata == {"logged": "stderr"}
    complaint = f"cannot write to {tmp_path}/missing/log: No such file or directory"
    assert answer.stderr.splitlines() == [SANDBOX, complaint]
