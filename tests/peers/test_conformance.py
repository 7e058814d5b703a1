"""Scenarios that runtimes' own suites name, under the runtime side that containerd and CRI-O have."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from .harness import COMMAND, LEGACY_EVENTS, PATIENT, Chain, GoRuntime
from .test_adjusting import STATE, UNSOLICITED, arrived, saying
from .test_runtime import CONTAINER, HAS_CALLS, LIFE, POD, external, launched

EVENTS = [recorded.event for recorded in LIFE]
AT_ALL = f"  plugins: {{plugin: {{events: [{', '.join(EVENTS)}]}}}}\n"
CARRIERS = "CreateContainer", "UpdateContainer", "StopContainer"
"""The events whose answers carry updates of other containers."""


def test_of_two_adapters_of_one_name_only_one_runs_the_plugins(chain: Chain, tmp_path: Path, version: str) -> None:
    chain.add("plugin")
    with external(chain, tmp_path, version) as runtime:
        config = tmp_path / "adapter.yaml"
        arguments = ["-idx", "00", "-name", "v010-adapter", "-socket", runtime.socket, "-config", config]
        with subprocess.Popen([str(COMMAND), *map(str, arguments)], stderr=subprocess.PIPE, text=True) as second:
            try:
                assert second.stderr
                assert any("registered with" in line for line in second.stderr)
                for recorded in LIFE[: len(LIFE) // 2]:
                    runtime.event(recorded.event, recorded.pod, recorded.container)
            finally:
                second.terminate()
        for recorded in LIFE[len(LIFE) // 2 :]:  # the runtime may not have noticed yet that one has gone
            assert runtime.event(recorded.event, recorded.pod, recorded.container).error == ""
    pod, container = POD["id"], CONTAINER["id"]
    runs = [(one["state"], one["id"]) for one in map(json.loads, chain.requests("plugin"))]
    assert runs == [("create", pod), ("create", container), ("delete", container), ("delete", pod)]


def test_events_come_in_order_and_each_can_ask_for_an_update_of_another_container(
    chain: Chain, tmp_path: Path, version: str
) -> None:
    """It arrives with the answer, by itself, or with the next answer that can carry it; with the last it waits on."""
    chain.add("plugin", saying(updates=[{"id": "container0", "resources": {"cpu": {"shares": 512}}}]))
    with launched(chain, tmp_path, version, AT_ALL, STATE) as runtime:
        for recorded in LIFE:
            resources = (recorded.extra or {}).get("linux_resources")
            reply = runtime.event(recorded.event, recorded.pod, recorded.container, resources=resources)
            carried = [update["container_id"] for update in reply.update if update]
            carries = recorded.event in CARRIERS
            assert (recorded.event, reply.error, carried.count("container0")) == (recorded.event, "", carries)
            if not carries and UNSOLICITED[version]:
                [[update]] = arrived(runtime, True)
                assert update["container_id"] == "container0"
    requests = [json.loads(request) for request in chain.requests("plugin")]
    assert [one.get("event", one["state"]) for one in requests] == [LEGACY_EVENTS.get(event, event) for event in EVENTS]


def test_an_adapter_whose_registration_is_refused_says_why_and_keeps_nobody_from_joining(
    chain: Chain, tmp_path: Path, version: str
) -> None:
    """NRI checks the letters of a name since 0.12."""
    config = tmp_path / "adapter.yaml"
    config.write_text(f"{chain.settings}state: {{directory: {tmp_path}/state}}\n")
    with GoRuntime(tmp_path, version) as runtime:
        runtime.open(**PATIENT)
        assert runtime.play("start").error == ""
        for name, is_refused in (("two words", HAS_CALLS[version]), ("v010-adapter", False)):
            words = ["-idx", "00", "-name", name, "-socket", runtime.socket, "-config", config]
            with subprocess.Popen([str(COMMAND), *map(str, words)], stderr=subprocess.PIPE, text=True) as adapter:
                if not is_refused:
                    assert runtime.play("wait", plugin=f"00-{name}").error == ""
                    adapter.terminate()
                _, log = adapter.communicate(timeout=60)
            assert adapter.returncode == is_refused
            assert (f"the runtime refused plugin 00-{name}: " in log) == is_refused
