"""The samples that change containers, one behind the other, and what the adapter makes of their answers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict

from adapter import settings
from adapter.nri import api

from ..legacy.node import Answer, Node
from ..processes import SteppedLoop
from .plugins import PATH, SAMPLES, sample

CONFIGURATION = """
legacy:
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


def answer_to(node: Node, event: str, request: Any) -> Answer:
    answer = node.handle(event, request)
    node.wait(answer)
    assert answer.outcome == "ok"
    return answer


def test_all_answers_become_one_adjustment_and_the_answer_to_an_update_changes_it(
    loop: SteppedLoop, tmp_path: Path
) -> None:
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
