"""Scenarios that runtimes' own suites name, under the runtime side that containerd and CRI-O have."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from .harness import COMMAND, Chain
from .test_runtime import CONTAINER, LIFE, NAME, POD, external, launched


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
