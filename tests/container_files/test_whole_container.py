"""What is read of a container besides what hooks look at: everything that NRI can tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from nri import api
from v010_adapter.container_files.recording import read
from v010_adapter.errors import ConfigError
from v010_adapter.hooks.facts import facts
from v010_adapter.oci.resources import resources_from
from v010_adapter.oci.spec import spec_from

from ..oci.cases import edited
from .conftest import Files, Json

GOLDEN = sorted((Path(__file__).resolve().parents[1] / "golden").glob("*/events-one-pod.jsonl"))
MEMORY = {
    **{"limit": 1, "reservation": 2, "swap": 3, "kernel": 4, "kernelTCP": 5, "swappiness": 6},
    **{"disableOOMKiller": False, "useHierarchy": True},
}
CPU = {"shares": 1, "quota": -1, "period": 3, "realtimeRuntime": 4, "realtimePeriod": 5, "cpus": "0", "mems": "1"}
TOLD = edited(("linux", "resources", "memory"), MEMORY, edited(("linux", "resources", "cpu"), CPU))
NOT_TOLD: list[tuple[tuple[str | int, ...], Any]] = [
    (("ociVersion",), "1.2.0"),
    (("root",), {"path": "rootfs"}),
    (("hostname",), "h"),
    (("process", "terminal"), True),
    (("process", "cwd"), "/"),
    (("process", "user", "umask"), 18),
    (("linux", "maskedPaths"), ["/proc/kcore"]),
    (("mounts", 0, "uidMappings"), []),
]


def test_an_oci_config_says_of_the_container_all_that_nri_can_tell(files: Files) -> None:
    config = TOLD
    for path, value in NOT_TOLD:
        config = edited(path, value, config)
    found = files.read(config)
    assert found.spec == config
    assert spec_from(found.container) == TOLD


def test_a_config_has_the_empty_parts_that_runtimes_always_send(files: Files) -> None:
    container = files.read({"ociVersion": "1.0.2", "root": {"path": "rootfs"}}).container
    assert MessageToDict(container) == {"hooks": {}, "linux": {"resources": {"memory": {}, "cpu": {}}}}


def test_what_nri_told_of_a_container_is_read_from_each_event_from_a_config_and_from_its_own_json(files: Files) -> None:
    for file in GOLDEN:
        (request,) = [request for event, request in read(file) if event == "CreateContainer"]
        assert isinstance(request, api.CreateContainerRequest)
        described = files.read(file.read_bytes())
        assert (described.kind, described.pod, described.container) == (
            *("a recorded CreateContainer", request.pod, request.container),
        )
        assert facts(described.pod, described.container).command == "/bin/sh"
        for event in map(json.loads, file.read_text().splitlines()):
            if event["container"]:
                assert files.read(event).kind == f"a recorded {event['event']}"
            else:
                assert files.refused(json.dumps(event, indent=1)) == "c:1: it has no container"

        spec = spec_from(request.container)
        config = json.loads(json.dumps({"ociVersion": "1.0.2", **spec}))
        if spec["linux"]["resources"].get("pids") == {}:
            config["linux"]["resources"]["pids"] = {"limit": -1}  # so it is in a real one
        from_config = files.read(config)
        assert spec_from(from_config.container) == spec
        from_nri = files.read(MessageToDict(request, preserving_proto_field_name=True))
        assert (from_nri.pod, from_nri.container) == (request.pod, request.container)


LEAST = {"shares": 2}
RESOURCES: list[tuple[Json, Json, Json]] = [  # requests, limits, and what the kubelet makes of them
    ({}, {}, {"cpu": LEAST}),
    ({"cpu": "500m"}, {}, {"cpu": {"shares": 512}}),
    ({}, {"cpu": "2"}, {"cpu": {"shares": 2048, "quota": 200_000, "period": 100_000}}),
    ({"cpu": "1000"}, {"cpu": "1m"}, {"cpu": {"shares": 262_144, "quota": 1000, "period": 100_000}}),
    ({}, {"memory": "64Mi"}, {"cpu": LEAST, "memory": {"limit": 64 << 20}}),
    ({}, {"memory": "100m"}, {"cpu": LEAST, "memory": {"limit": 1}}),
    ({}, {"memory": "0.1Gi"}, {"cpu": LEAST, "memory": {"limit": 107_374_183}}),
    ({"cpu": "1.0001"}, {"cpu": "1.5001"}, {"cpu": {"shares": 1025, "quota": 150_100, "period": 100_000}}),
    ({}, {"memory": "9e99"}, {"cpu": LEAST, "memory": {"limit": (1 << 63) - 1}}),
    ({}, {"cpu": "9e99"}, {"cpu": {"shares": 262_144, "quota": (1 << 63) - 1, "period": 100_000}}),
    ({}, {"memory": "1.5k"}, {"cpu": LEAST, "memory": {"limit": 1500}}),
]


def test_a_manifests_resources_are_what_the_kubelet_makes_of_them(files: Files) -> None:
    def limited(requests: Json, limits: Json) -> Json:
        container = {"name": "c", "command": ["/x"], "resources": {"requests": requests, "limits": limits}}
        return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}

    for requests, limits, expected in RESOURCES:
        found = files.read(limited(requests, limits))
        assert resources_from(found.container.linux.resources) == expected, (requests, limits)
    for quantity in ("x", "1Zi", "-1", "1 Mi", "", "nan", "9" * 5000):
        with pytest.raises(ConfigError, match=r"resources.limits.cpu: .* is no quantity"):
            files.read(limited({}, {"cpu": quantity}))
