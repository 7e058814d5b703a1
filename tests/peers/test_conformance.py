"""Scenarios that runtimes' own suites name, under the runtime side that containerd and CRI-O have."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from .harness import COMMAND, LEGACY_EVENTS, PATIENT, Chain, GoRuntime
from .test_adjusting import STATE, UNSOLICITED, arrived, saying
from .test_runtime import CONTAINER, HAS_CALLS, LIFE, NAME, POD, external, launched, play

EVENTS = [recorded.event for recorded in LIFE]
AT_ALL = f"  plugins: {{plugin: {{events: [{', '.join(EVENTS)}]}}}}\n"
CARRIERS = "CreateContainer", "UpdateContainer", "StopContainer"
"""The events whose answers carry updates of other containers."""


def runs(chain: Chain) -> list[tuple[str, str]]:
    """State and id of each run of the plugin."""
    return [(one["state"], one["id"]) for one in map(json.loads, chain.requests("plugin"))]


def test_a_create_that_a_plugin_refuses_leaves_nothing_behind_and_may_be_tried_again(
    chain: Chain, tmp_path: Path, version: str
) -> None:
    refuses = tmp_path / "refuses"
    refuses.touch()
    chain.add("plugin", f"""[ -e {refuses} ] && echo '{{"error": "no"}}' || echo '{{}}'""")
    with launched(chain, tmp_path, version) as runtime:
        assert "plugin: plugin: no" in runtime.event("StartContainer", POD, CONTAINER).error
        for event in ("StopContainer", "RemoveContainer"):  # which containerd sends for what was not started
            assert runtime.event(event, POD, CONTAINER).error == ""
        refuses.unlink()
        for id_ in (CONTAINER["id"], "another"):  # a runtime takes another id, others the same
            for event in ("StartContainer", "StopContainer", "RemoveContainer"):
                reply = runtime.event(event, POD, {**CONTAINER, "id": id_})
                assert (reply.error, reply.names) == ("", [NAME])
    first = CONTAINER["id"]
    assert runs(chain) == [(state, id_) for id_ in (first, first, "another") for state in ("create", "delete")]


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
    assert runs(chain) == [("create", pod), ("create", container), ("delete", container), ("delete", pod)]


def test_a_container_that_no_event_and_no_synchronize_has_told_of_gets_no_delete(
    chain: Chain, tmp_path: Path, version: str
) -> None:
    """containerd may lose a container that is created while a plugin synchronizes (containerd issue 13698)."""
    chain.add("plugin")
    with launched(chain, tmp_path, version) as runtime:
        for event in ("StopContainer", "RemoveContainer"):
            assert runtime.event(event, POD, {**CONTAINER, "id": "unseen"}).error == ""
    assert runs(chain) == []


def test_a_containers_events_reach_a_plugin_in_their_order(chain: Chain, tmp_path: Path, version: str) -> None:
    chain.add("plugin")
    with launched(chain, tmp_path, version, AT_ALL) as runtime:
        for recorded in LIFE:
            play(runtime, recorded)
    requests = [json.loads(request) for request in chain.requests("plugin")]
    assert [one.get("event", one["state"]) for one in requests] == [LEGACY_EVENTS.get(event, event) for event in EVENTS]


def test_each_event_can_ask_for_an_update_of_another_container(chain: Chain, tmp_path: Path, version: str) -> None:
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
