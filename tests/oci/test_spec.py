"""What NRI's data say as an OCI specification."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from google.protobuf.json_format import ParseDict

from adapter.oci.spec import adjustment, spec_from
from adapter.proto import nri_pb2 as api

from .cases import FULL

CONTAINER: dict[str, Any] = {
    "id": "c",
    "name": "a",
    "labels": {"a": "1"},
    "args": ["/bin/sh", "-c", "true"],
    "env": ["PATH=/bin", "HOME=/", "EMPTY="],
    "user": {"uid": 1000, "gid": 1000, "additionalGids": [5]},
    "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 512}],
    "mounts": FULL["mounts"],
    "hooks": {"createRuntime": [{"path": "/bin/hook", "args": ["hook", "a"], "env": ["A=1"], "timeout": {}}]},
    "annotations": FULL["annotations"],
    "CDIDevices": [{"name": "vendor.com/class=a"}],
    "linux": {
        "oomScoreAdj": {"value": 3},
        "scheduler": {"policy": "SCHED_BATCH", "nice": 5},
        "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 4},
        "sysctl": {"net.core.somaxconn": "128"},
        "cgroupsPath": "/pods/a",
        "namespaces": [{"type": "pid"}, {"type": "network", "path": "/run/netns/a"}],
        "netDevices": {"eth0": {"name": "eth1"}, "eth2": {}},
        "devices": [
            {"path": "/dev/a", "type": "c", "major": 1, "minor": 3, "fileMode": {"value": 438}, "uid": {}, "gid": {}}
        ],
        "resources": {
            "devices": [{"access": "rwm"}, {"allow": True, "type": "c", "major": {"value": 1}, "minor": {}}],
            "memory": {"limit": {"value": 1 << 26}, "swap": {"value": 1 << 26}, "disableOomKiller": {}},
            "cpu": {"shares": {"value": 512}, "quota": {}, "cpus": "0-1"},
            "pids": {"limit": 100},
            "hugepageLimits": [{"pageSize": "2MB"}],
            "unified": {"memory.high": "1"},
            "blockioClass": {"value": "slow"},
            "rdtClass": {"value": "gold"},
        },
        "seccompPolicy": {
            "defaultAction": "SCMP_ACT_ERRNO",
            "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [
                {"names": ["read"], "action": "SCMP_ACT_ALLOW"},
                {
                    "names": ["clone"],
                    "action": "SCMP_ACT_ERRNO",
                    "errnoRet": {},
                    "args": [{"value": 1, "op": "SCMP_CMP_MASKED_EQ"}],
                },
            ],
        },
        "rdt": {"closId": {"value": "gold"}, "schemata": {"value": ["L3:0=f"]}, "enableMonitoring": {"value": True}},
    },
}


# What Go writes of members that are 0, and what not.
ZEROS: dict[str, Any] = {
    "user": {},
    "rlimits": [{}],
    "mounts": [{}],
    "hooks": {"prestart": [{}]},
    "linux": {
        "oomScoreAdj": {},
        "scheduler": {"policy": "SCHED_FIFO"},
        "ioPriority": {"class": "IOPRIO_CLASS_RT"},
        "namespaces": [{}],
        "devices": [{}],
        "netDevices": {"a": {}},
        "resources": {"memory": {}, "cpu": {}, "pids": {}, "devices": [{}], "hugepageLimits": [{}]},
        "seccompPolicy": {"syscalls": [{"names": [""], "args": [{}]}]},
    },
}
ZEROS_WRITTEN = {
    "process": {
        "user": {"uid": 0, "gid": 0},
        "rlimits": [{"type": "", "hard": 0, "soft": 0}],
        "oomScoreAdj": 0,
        "scheduler": {"policy": "SCHED_FIFO"},
        "ioPriority": {"class": "IOPRIO_CLASS_RT", "priority": 0},
    },
    "mounts": [{"destination": ""}],
    "hooks": {"prestart": [{"path": ""}]},
    "linux": {
        "resources": {
            "devices": [{"allow": False}],
            "memory": {},
            "cpu": {},
            "pids": {"limit": 0},
            "hugepageLimits": [{"pageSize": "", "limit": 0}],
        },
        "namespaces": [{"type": ""}],
        "devices": [{"path": "", "type": "", "major": 0, "minor": 0}],
        "netDevices": {"a": {}},
        "seccomp": {
            "defaultAction": "",
            "syscalls": [{"names": [""], "action": "", "args": [{"index": 0, "value": 0, "op": ""}]}],
        },
    },
}


def told(container: dict[str, Any]) -> Any:
    return spec_from(api.PodSandbox(id="p"), ParseDict(container, api.Container()))


def test_all_that_nri_tells_is_there_and_nothing_else() -> None:
    assert told(CONTAINER) == FULL


def test_the_members_of_a_map_are_in_the_order_of_their_names() -> None:
    names = [f"key-{number:02}" for number in range(20)]
    container = api.Container(annotations=dict.fromkeys(reversed(names), ""))
    container.linux.sysctl.update(dict.fromkeys(reversed(names), ""))
    spec = spec_from(api.PodSandbox(), container)
    assert [*spec["annotations"]] == [*spec["linux"]["sysctl"]] == names


EMPTY: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (ZEROS, ZEROS_WRITTEN),
    ({}, {}),
    ({"linux": {"scheduler": {}, "ioPriority": {}, "rdt": {}}}, {}),
    ({"linux": {"resources": {"memory": {}}}}, {"linux": {"resources": {"memory": {}}}}),
    ({"linux": {"rdt": {"enableMonitoring": {}, "schemata": {}, "closId": {}}}}, {}),
    # A word of the future; OCI's spelling.
    ({"linux": {"scheduler": {"policy": 77}}}, {"process": {"scheduler": {"policy": "77"}}}),
    (
        {"linux": {"resources": {"memory": {"kernelTcp": {"value": 5}, "disableOomKiller": {"value": True}}}}},
        {"linux": {"resources": {"memory": {"kernelTCP": 5, "disableOOMKiller": True}}}},
    ),
    # Pids without a limit are absent: older Go types would make a limit of 0 of them.
    ({"linux": {"resources": {"pids": {"limit": "-1"}}}}, {}),
    ({"linux": {"resources": {"cpu": {}, "pids": {"limit": "-1"}}}}, {"linux": {"resources": {"cpu": {}}}}),
]


def test_what_is_empty_is_written_as_go_does() -> None:
    for container, expected in EMPTY:
        assert told(container) == expected


def test_every_field_of_a_container_has_its_place_or_none() -> None:
    without = {"id", "pod_sandbox_id", "name", "state", "labels", "pid", "image", "CDI_devices", "exit_code"}
    without |= {"created_at", "started_at", "finished_at", "status_reason", "status_message"}
    given = ParseDict(CONTAINER, api.Container())
    assert {field.name for field, _ in given.ListFields()} | without == set(api.Container.DESCRIPTOR.fields_by_name)
    linux = {field.name for field, _ in given.linux.ListFields()} | {"seccomp_profile"}
    assert linux == set(api.LinuxContainer.DESCRIPTOR.fields_by_name)


def test_every_field_of_an_adjustment_can_come_of_a_specification_but_for_cdi_devices() -> None:
    made = adjustment({}, {key: value for key, value in FULL.items() if key != "annotations"} | POLICY)
    # Of a new container swap comes with the limit only, and nobody else's name begins with a mark.
    names = {field.name for field, _ in made.ListFields()} | {"annotations", "CDI_devices"}
    assert names == set(api.ContainerAdjustment.DESCRIPTOR.fields_by_name)
    linux = {field.name for field, _ in made.linux.ListFields()}
    assert linux == set(api.LinuxContainerAdjustment.DESCRIPTOR.fields_by_name)
    classes = {"blockio_class", "rdt_class"}
    resources = {field.name for field, _ in made.linux.resources.ListFields()} | classes
    assert resources == set(api.LinuxResources.DESCRIPTOR.fields_by_name)


POLICY = {
    "process": {key: value for key, value in FULL["process"].items() if key != "user"},
    "linux": FULL["linux"]
    | {"memoryPolicy": {"mode": "MPOL_BIND", "nodes": "0"}}
    | {"resources": FULL["linux"]["resources"] | {"memory": {"limit": 1 << 26, "swap": 1 << 26}}},
}


def test_requests_of_the_original_s_events_load_the_resources_only() -> None:
    program = "import sys, adapter.legacy.request; print(*(m for m in sys.modules if m.startswith('adapter.oci')))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert loaded.stdout.split() == ["adapter.oci", "adapter.oci.shapes", "adapter.oci.resources"]
