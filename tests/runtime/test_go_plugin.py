"""The embedded runtime against a plugin made of upstream's stub: what is played arrives, in both generations."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapter.nri import api
from adapter.runtime import FLAVOURS, read
from adapter.runtime.synchronize import parts
from tests.peers.harness import require

from .fixtures import Plugins

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("name", FLAVOURS)
def test_a_go_plugin_gets_what_is_played(plugins: Plugins, tmp_path: Path, name: str) -> None:
    recorder = require("recorder")
    (plugins.path / "10-recorder").symlink_to(recorder)
    (plugins.config / "recorder.conf").write_text(str(tmp_path / "recorded.jsonl"))
    runtime = plugins.runtime(FLAVOURS[name])
    runtime.start()
    assert [plugin.name for plugin in runtime.plugins] == ["10-recorder"]
    played = [
        one for one in read(GOLDEN / name / "events-one-pod.jsonl") if one.event not in ("Configure", "Synchronize")
    ]
    for event, request in played:
        assert runtime.event(event, request).error == ""
    configure, _, *recorded = read(tmp_path / "recorded.jsonl")
    assert recorded == played
    assert getattr(configure.request, "runtime_version", None) == FLAVOURS[name].version


def test_a_go_plugin_understands_a_state_in_parts(plugins: Plugins, tmp_path: Path) -> None:
    (plugins.path / "10-recorder").symlink_to(require("recorder"))
    (plugins.config / "recorder.conf").write_text(str(tmp_path / "recorded.jsonl"))
    runtime = plugins.runtime()
    runtime.pods = [api.PodSandbox(id=f"pod{n}", annotations={"x": "x" * 10_000}) for n in range(500)]
    runtime.containers = [api.Container(id=f"ctr{n}", pod_sandbox_id=f"pod{n % 500}") for n in range(700)]
    assert len(parts(runtime.pods, runtime.containers)) > 1
    runtime.launch(plugins.path / "10-recorder")
    _, (_, synchronize) = read(tmp_path / "recorded.jsonl")
    assert synchronize == api.SynchronizeRequest(pods=runtime.pods, containers=runtime.containers)
