"""The embedded runtime against a plugin made of upstream's stub: what is played arrives, in both generations."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from adapter.cli import command_line as cli
from adapter.runtime import FLAVOURS, Plugin, Runtime, read
from tests.peers.harness import require

from .fixtures import Plugins

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("name", FLAVOURS)
def test_a_go_plugin_gets_what_is_played(plugins: Plugins, tmp_path: Path, name: str) -> None:
    recorder = require("recorder")
    (plugins.path / "10-recorder").symlink_to(recorder)
    (plugins.config / "recorder.conf").write_text(str(tmp_path / "recorded.jsonl"))
    runtime = plugins.start(FLAVOURS[name])
    assert [plugin.name for plugin in runtime.plugins] == ["10-recorder"]
    golden = GOLDEN / name.replace("/", "-") / "events-one-pod.jsonl"
    played = [one for one in read(golden) if one.event not in ("Configure", "Synchronize")]
    for event, request in played:
        assert runtime.event(event, request).error == ""
    configure, _, *recorded = read(tmp_path / "recorded.jsonl")
    assert recorded == played
    assert getattr(configure.request, "runtime_version", None) == FLAVOURS[name].version


def test_a_go_plugin_that_connects_to_the_simulation_gets_what_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket, out = tmp_path / "nri.sock", tmp_path / "recorded.jsonl"
    command: list[str | Path] = [require("recorder"), "-idx", "10", "-name", "recorder", "-socket", socket, "-out", out]
    accept = Runtime.accept
    started: list[subprocess.Popen[bytes]] = []

    def start_it(runtime: Runtime, timeout: float) -> Plugin:
        """Starts the plugin when its runtime listens."""
        started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        return accept(runtime, timeout)

    monkeypatch.setattr(Runtime, "accept", start_it)
    golden = GOLDEN / "containerd-2.4.2" / "events-one-pod.jsonl"
    assert cli.main(["simulate", "-socket", str(socket), "-events", str(golden)]) == 0
    started[0].wait()
    assert list(read(out))[2:] == list(read(golden))[2:]


@pytest.mark.parametrize("version", ["containerd/1.7.35", "containerd/2.4.2", "cri-o/1.34.0"])
def test_a_go_plugin_that_the_simulation_launches_adjusts_the_container(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    limit = {"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 512}
    annotations = {"ulimits.noderesource.dev/container.c": json.dumps([limit | {"type": "NOFILE"}])}
    (tmp_path / "container").write_text(json.dumps({"id": "ctr", "name": "c"}))
    (tmp_path / "pod").write_text(json.dumps({"id": "pod", "name": "p", "annotations": annotations}))
    files = ["-container", str(tmp_path / "container"), "-pod", str(tmp_path / "pod")]
    plugin = f"10-adjuster={require('adjuster')}"
    assert cli.main(["simulate", "-plugin", plugin, *files, "-runtime", version, "-o", "json"]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    (spec,) = [line["spec"] for line in lines if line["event"] == "CreateContainer"]
    assert spec["process"]["rlimits"] == [limit]
