"""Recorded events: what can be read, and that a plugin made of upstream's stub gets what is played."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapter.errors import ConfigError
from adapter.nri import api
from adapter.runtime import FLAVOURS, POD_LIFE, read
from tests.peers.harness import require

from .fixtures import Plugins
from .simulation import GOLDEN, LIFE


@pytest.mark.parametrize("name", FLAVOURS)
def test_a_go_plugin_gets_what_was_recorded_on_each_runtime(plugins: Plugins, tmp_path: Path, name: str) -> None:
    (plugins.path / "10-recorder").symlink_to(require("recorder"))
    (plugins.config / "recorder.conf").write_text(str(tmp_path / "recorded.jsonl"))
    runtime = plugins.start(FLAVOURS[name])
    assert [plugin.name for plugin in runtime.plugins] == ["10-recorder"]
    played = [one for one in read(GOLDEN[name]) if one.event not in ("Configure", "Synchronize")]
    for event, request in played:
        assert runtime.event(event, request).error == ""
    configure, _, *recorded = read(tmp_path / "recorded.jsonl")
    assert recorded == played
    assert getattr(configure.request, "runtime_version", None) == FLAVOURS[name].version


def test_every_recorded_life_of_a_pod_is_read_with_its_numbers() -> None:
    for path in GOLDEN.values():
        life = {event: request for event, request in read(path) if event not in ("Configure", "Synchronize")}
        assert list(life) == LIFE
        start, update = life["StartContainer"], life["UpdateContainer"]
        assert isinstance(start, api.StartContainerRequest)
        assert isinstance(update, api.UpdateContainerRequest)
        assert start.container.linux.cgroups_path.startswith("/e2e/p1/")
        assert update.linux_resources.memory.limit.value == 33554432
        assert update.linux_resources.cpu.HasField("quota")


def test_protojson_and_gos_own_json_mean_the_same() -> None:
    old, new = (dict(read(GOLDEN[f"containerd/{version}"]))["StartContainer"] for version in ("2.3.4", "2.4.2"))
    assert isinstance(old, api.StartContainerRequest)
    assert isinstance(new, api.StartContainerRequest)
    assert old.container.linux.resources == new.container.linux.resources
    assert old.container.state == new.container.state == api.CONTAINER_CREATED


def test_the_package_has_a_copy_of_the_golden_recording() -> None:
    assert POD_LIFE.read_bytes() == GOLDEN["containerd/2.4.2"].read_bytes()


EVENT = b'{"event": "RunPodSandbox", "pod": {"id": "p"}}\n\n'
BAD = [
    (EVENT + b"nonsense", "3: unexpected 'n'"),
    (EVENT + b"[7]", "3: not a recorded event: [0]: must be a mapping, not a number"),
    (EVENT + b'{"event": "Nonsense"}', "3: not a recorded event: event: 'Nonsense' is not an event"),
    (EVENT + b"{}", "3: not a recorded event: event: '' is not an event"),
    (b'{"event": ["x"]}', "1: not a recorded event: event: must be a text, not a list"),
    (b'{"event": "CreateContainer", "pod": 5}', "1: not a recorded event: pod: must be a mapping, not a number"),
    (
        b'{"event": "RunPodSandbox", "pod": {"id": 5}}',
        "1: not a recorded event: pod.id: must be a text, not a number (put it in quotes)",
    ),
    (b'{"event": "StartContainer", "pod": {"pid": "x"}}', "1: not a recorded event: pod.pid: must be a whole number"),
    (b'{"event": "UpdateContainer", "extra": 7}', "1: not a recorded event: extra: must be a mapping, not a number"),
    (b'\xff{"event"', "1: not a text: the byte 0xff is not UTF-8"),
    (b"[" * 100_000, "1: nested too deeply"),
]


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for text, reason in BAD:
        path.write_bytes(text)
        with pytest.raises(ConfigError) as refused:
            list(read(path))
        assert str(refused.value) == f"{path}:{reason}"
