"""What becomes of adjustments that others make, not only of ours."""

from __future__ import annotations

from typing import Any

from google.protobuf.json_format import ParseDict

from adapter.oci.spec import apply
from adapter.oci.values import Spec
from adapter.proto import nri_pb2 as api

from .cases import FULL, as_text, copied

MOUNT = {"destination": "/a", "type": "bind"}
DEVICE = {"path": "/dev/a", "type": "c", "major": 1, "minor": 2}
# fmt: off
CASES: dict[str, tuple[Spec, dict[str, Any], Spec]] = {"nothing": (FULL, {}, FULL),
    "nothing to nothing": ({}, {"linux": {"resources": {}}}, {}),
    "an annotation of nothing": ({}, {"annotations": {"a": "1"}}, {"annotations": {"a": "1"}}),
    "an annotation removed and set": ({"annotations": {"a": "1", "b": "2"}},
    {"annotations": {"a": "3", "-a": "", "-b": "", "-c": ""}}, {"annotations": {"a": "3"}}),
    "arguments that nobody has cleared": ({}, {"args": ["a", ""]}, {"process": {"args": ["a", ""]}}),
    "no arguments": ({"process": {"args": ["a"]}}, {"args": []}, {"process": {"args": ["a"]}}),
    "a variable in its place": ({"process": {"env": ["A=1", "B=2", "A=3"]}},
    {"env": [{"key": "A", "value": "4"}, {"key": "C"}]}, {"process": {"env": ["A=4", "B=2", "C="]}}),
    "a variable removed": ({"process": {"env": ["A=1", "B=2"]}}, {"env": [{"key": "-A"}]},
    {"process": {"env": ["B=2"]}}),
    "a mount in its place": ({"mounts": [{"destination": "/a", "source": "/s"}, {"destination": "/b"}]},
    {"mounts": [MOUNT]}, {"mounts": [MOUNT, {"destination": "/b"}]}),
    "a mount removed, whatever its name": ({"mounts": [{"destination": "-a"}]}, {"mounts": [{"destination": "--a"}]},
    {"mounts": []}), "a device removed": ({"linux": {"devices": [DEVICE]}},
    {"linux": {"devices": [{"path": "-/dev/a"}]}}, {"linux": {"devices": []}}),
    "a hook behind those there are": ({"hooks": {"prestart": [{"path": "/a"}]}},
    {"hooks": {"prestart": [{"path": "/b"}], "poststart": [{"path": "/c"}]}},
    {"hooks": {"prestart": [{"path": "/a"}, {"path": "/b"}], "poststart": [{"path": "/c"}]}}),
    "words for none": ({"process": {"scheduler": {"policy": "SCHED_FIFO"},
    "ioPriority": {"class": "IOPRIO_CLASS_RT", "priority": 0}}}, {"linux": {"scheduler": {}, "ioPriority": {}}},
    {"process": {}}), "a limit of 0": ({"linux": {"resources": {"memory": {"limit": 5}}}},
    {"linux": {"resources": {"memory": {"limit": {}}}}}, {"linux": {"resources": {"memory": {"limit": 5}}}}),
    "memory that runtimes ignore": ({},
    {"linux": {"resources": {"memory": {"swappiness": {}, "reservation": {"value": "5"}}}}},
    {"linux": {"resources": {"memory": {"reservation": 5, "swappiness": 0}}}}),
    "pids below 0": ({"linux": {"resources": {"pids": {"limit": 5}}}},
    {"linux": {"resources": {"pids": {"limit": "-1"}}}}, {"linux": {"resources": {"pids": {"limit": 5}}}}),
    "parts of resources": ({"linux": {"resources": {"cpu": {"shares": 1, "burst": 2}, "unified": {"a": "1"}}}},
    {"linux": {"resources": {"cpu": {"cpus": "0"}, "unified": {"b": "2"}}}},
    {"linux": {"resources": {"cpu": {"shares": 1, "burst": 2, "cpus": "0"}, "unified": {"a": "1", "b": "2"}}}}),
    "huge pages": ({"linux": {"resources": {"hugepageLimits": [{"pageSize": "2MB", "limit": 1}]}}},
    {"linux": {"resources": {"hugepageLimits": [{"pageSize": "1GB", "limit": "5"}, {"pageSize": "2MB"}]}}},
    {"linux": {"resources": {"hugepageLimits": [{"pageSize": "2MB", "limit": 0}, {"pageSize": "1GB", "limit": 5}]}}}),
    "a part of RDT": ({"linux": {"intelRdt": {"closID": "a", "memBwSchema": "MB"}}},
    {"linux": {"rdt": {"schemata": {"value": ["L3"]}}}},
    {"linux": {"intelRdt": {"closID": "a", "memBwSchema": "MB", "schemata": ["L3"]}}}),
    "RDT removed": ({"linux": {"intelRdt": {"closID": "a"}}}, {"linux": {"rdt": {"remove": True}}},
    {"linux": {"intelRdt": {}}}),
    "null where something comes": ({"annotations": None, "process": None, "mounts": None, "linux": None},
    {"annotations": {"a": "1"}, "env": [{"key": "A"}], "mounts": [MOUNT], "linux": {"sysctl": {"a": "1"}}},
    {"annotations": {"a": "1"}, "process": {"env": ["A="]}, "mounts": [MOUNT], "linux": {"sysctl": {"a": "1"}}}),
    "what has no place": ({}, {"CDIDevices": [{"name": "a/b=c"}],
    "linux": {"resources": {"blockioClass": {"value": "a"}, "rdtClass": {}}}}, {})}
# fmt: on


def test_an_adjustment_makes_a_new_specification() -> None:
    for what, (before, adjusted, expected) in CASES.items():
        had = as_text(before)
        assert apply(before, ParseDict(adjusted, api.ContainerAdjustment())) == expected, what
        assert as_text(before) == had, what


def test_what_is_not_touched_is_shared() -> None:
    spec = copied(FULL)
    applied = apply(spec, api.ContainerAdjustment(annotations={"a": "2"}))
    assert applied is not spec
    assert applied["mounts"] is spec["mounts"]
