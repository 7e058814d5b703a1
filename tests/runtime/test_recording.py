from __future__ import annotations

from pathlib import Path

import pytest

from adapter.errors import ConfigError
from adapter.nri import api
from adapter.runtime import POD_LIFE, read

GOLDEN = Path(__file__).parents[1] / "golden"

# fmt: off
LIFE = [
    "RunPodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer",
    "UpdateContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
]
# fmt: on


def recordings() -> list[Path]:
    return sorted(GOLDEN.glob("*/events-one-pod.jsonl"))


def test_every_recorded_life_of_a_pod_can_be_read() -> None:
    assert {path.parent.name.rsplit("-", 1)[0] for path in recordings()} == {"containerd", "cri-o"}
    for path in recordings():
        life = {event: request for event, request in read(path) if event not in ("Configure", "Synchronize")}
        assert list(life) == LIFE
        start, update = life["StartContainer"], life["UpdateContainer"]
        assert isinstance(start, api.StartContainerRequest)
        assert start.container.linux.cgroups_path.startswith("/e2e/p1/")
        assert start.pod.labels["app"] == "demo"
        assert isinstance(update, api.UpdateContainerRequest)
        assert update.linux_resources.memory.limit.value == 33554432
        assert update.linux_resources.cpu.HasField("quota")


def test_protojson_and_gos_own_json_mean_the_same() -> None:
    old, new = (dict(read(GOLDEN / f"containerd-{version}" / "events-one-pod.jsonl")) for version in ("2.3.4", "2.4.2"))
    one, other = old["StartContainer"], new["StartContainer"]
    assert isinstance(one, api.StartContainerRequest)
    assert isinstance(other, api.StartContainerRequest)
    assert one.container.linux.resources == other.container.linux.resources
    assert one.container.state == other.container.state == api.CONTAINER_CREATED


def test_configure_says_which_runtime_it_was() -> None:
    configure = next(iter(read(POD_LIFE))).request
    assert isinstance(configure, api.ConfigureRequest)
    assert (configure.runtime_name, configure.runtime_version) == ("containerd", "2.4.2+unknown")


def test_the_package_has_a_copy_of_the_golden_recording() -> None:
    assert POD_LIFE.read_bytes() == (GOLDEN / "containerd-2.4.2" / "events-one-pod.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "unexpected 'n'"),
        ("[7]", "no recorded event: [0]: must be a mapping, not a number"),
        ('{"event": "Nonsense"}', "no recorded event: event: 'Nonsense' is no event"),
        ('{"event": "StartContainer", "pod": {"pid": "x"}}', "no recorded event: pod.pid: must be a whole number"),
        ("{}", "no recorded event: event: '' is no event"),
    ],
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event": "RunPodSandbox", "pod": {"id": "p"}}\n\n' + line + "\n")
    with pytest.raises(ConfigError) as refused:
        list(read(path))
    assert str(refused.value) == f"{path}:3: {reason}"
