"""What is read of a container besides what hooks look at: everything that NRI can tell."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from adapter import container_files
from adapter.errors import ConfigError
from adapter.nri import api
from adapter.oci.resources import resources_from
from adapter.oci.spec import spec_from
from adapter.runtime import read

from . import GOLDEN, Files, Json

EVERYTHING: dict[str, Any] = {
    "ociVersion": "1.2.0",
    "root": {"path": "rootfs"},
    "hostname": "h",
    "annotations": {"a": "1"},
    "process": {
        "terminal": True,
        "user": {"uid": 1, "gid": 2, "additionalGids": [3], "umask": 18},
        "args": ["/x", "y"],
        "env": ["A=1", "B"],
        "cwd": "/",
        "rlimits": [{"type": "RLIMIT_CORE", "hard": 18446744073709551615, "soft": 0}],
        "oomScoreAdj": -5,
        "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 4},
        "scheduler": {"policy": "SCHED_FIFO", "priority": 3, "flags": ["SCHED_FLAG_RECLAIM"]},
    },
    "mounts": [{"destination": "/m", "type": "bind", "source": "/s", "options": ["ro"], "uidMappings": []}],
    "hooks": {"createRuntime": [{"path": "/h", "args": ["h"], "env": ["E=1"], "timeout": 5}]},
    "linux": {
        "cgroupsPath": "/c",
        "maskedPaths": ["/proc/kcore"],
        "sysctl": {"net.x": "1"},
        "namespaces": [{"type": "pid"}, {"type": "network", "path": "/n"}],
        "devices": [{"path": "/dev/x", "type": "c", "major": 1, "minor": 2, "fileMode": 438, "uid": 0}],
        "netDevices": {"eth0": {"name": "eth1"}},
        "seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["bpf"], "action": "SCMP_ACT_ERRNO"}]},
        "resources": {
            "devices": [{"allow": False, "access": "rwm"}, {"allow": True, "type": "c", "major": 1, "minor": 3}],
            "memory": {
                "limit": 1, "reservation": 2, "swap": 3, "kernel": 4, "kernelTCP": 5, "swappiness": 6,
                "disableOOMKiller": False, "useHierarchy": True,
            },
            "cpu": {"shares": 1, "quota": -1, "period": 3, "realtimeRuntime": 4, "realtimePeriod": 5, "cpus": "0"},
            "pids": {"limit": 7},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 9}],
            "unified": {"memory.high": "1"},
        },
    },
}  # fmt: skip
NOT_TOLD = [
    ("ociVersion",),
    ("root",),
    ("hostname",),
    ("process", "terminal"),
    ("process", "cwd"),
    ("linux", "maskedPaths"),
]


def without(spec: dict[str, Any], *paths: tuple[str, ...]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(spec))
    for *parents, name in paths:
        inside = copy
        for parent in parents:
            inside = inside[parent]
        del inside[name]
    return copy


def test_an_oci_config_says_of_the_container_all_that_nri_can_tell(files: Files) -> None:
    found = files.read(EVERYTHING)
    assert found.spec == EVERYTHING
    expected = without(EVERYTHING, *NOT_TOLD)
    expected["process"]["user"] = {"uid": 1, "gid": 2, "additionalGids": [3]}
    del expected["mounts"][0]["uidMappings"]
    assert spec_from(found.pod, found.container) == expected


def test_what_nri_told_of_a_container_is_read_from_a_config_of_it_and_from_its_own_json(files: Files) -> None:
    for file in GOLDEN:
        (request,) = [request for event, request in read(file) if event == "CreateContainer"]
        assert isinstance(request, api.CreateContainerRequest)
        spec = spec_from(request.pod, request.container)
        config = json.loads(json.dumps({"ociVersion": "1.0.2", **spec}))
        if spec["linux"]["resources"].get("pids") == {}:
            config["linux"]["resources"]["pids"] = {"limit": -1}  # so it is in a real one
        from_config = files.read(config)
        assert spec_from(from_config.pod, from_config.container) == spec
        from_nri = files.read(MessageToDict(request, preserving_proto_field_name=True))
        assert (from_nri.pod, from_nri.container) == (request.pod, request.container)


def limited(files: Files, **resources: Json) -> container_files.Described:
    container = {"name": "c", "command": ["/x"], "resources": resources}
    return files.read({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}})


# fmt: off
RESOURCES: list[tuple[Json, Json, Json]] = [
    ({}, {}, {"cpu": {"shares": 2}}),
    ({"cpu": "500m"}, {}, {"cpu": {"shares": 512}}),
    ({}, {"cpu": "2"}, {"cpu": {"shares": 2048, "quota": 200_000, "period": 100_000}}),
    ({"cpu": 0.1}, {"cpu": 1.5}, {"cpu": {"shares": 102, "quota": 150_000, "period": 100_000}}),
    ({"cpu": "1000"}, {"cpu": "1m"}, {"cpu": {"shares": 262_144, "quota": 1000, "period": 100_000}}),
    ({}, {"memory": "64Mi"}, {"cpu": {"shares": 2}, "memory": {"limit": 64 << 20}}),
    ({}, {"memory": "1e3"}, {"cpu": {"shares": 2}, "memory": {"limit": 1000}}),
    ({}, {"memory": "9e99"}, {"cpu": {"shares": 2}, "memory": {"limit": (1 << 63) - 1}}),
    ({}, {"cpu": "9e99"}, {"cpu": {"shares": 262_144, "quota": (1 << 63) - 1, "period": 100_000}}),
    ({}, {"memory": "1.5k"}, {"cpu": {"shares": 2}, "memory": {"limit": 1500}}),
]
# fmt: on


def test_a_manifests_resources_are_what_the_kubelet_makes_of_them(files: Files) -> None:
    for requests, limits, expected in RESOURCES:
        found = limited(files, requests=requests, limits=limits)
        assert resources_from(found.container.linux.resources) == expected, (requests, limits)
    for quantity in ("x", "1Zi", "-1", "1 Mi", "", "nan", "9" * 5000):
        with pytest.raises(ConfigError, match=r"resources.limits.cpu: .* is no quantity"):
            limited(files, limits={"cpu": quantity})
