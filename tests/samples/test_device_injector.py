"""device-injector: of the same annotations the same adjustments as upstream's plugin of that name makes."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from adapter.nri import api
from adapter.oci.outside_spec import outside_spec
from adapter.oci.spec import adjustment, apply

from .plugins import code, run, sample
from .plugins import event as denied

NULL = {"path": "/dev/null2", "type": "c", "major": "1", "minor": "3"}
NULL_TEXT = "- path: /dev/null2\n  type: c\n  major: 1\n  minor: 3\n"
ZERO_TEXT = "- path: /dev/zero2\n  type: c\n  major: 1\n  minor: 5\n"


def linux(**adjustment: object) -> dict[str, object]:
    return {"linux": adjustment}


# Kind, annotation, and what upstream's plugin makes of it: an adjustment, or an error. Seen by calling its
# CreateContainer (plugins/device-injector/device-injector.go).
CASES: list[tuple[str, str, dict[str, object] | None]] = [
    ("devices", NULL_TEXT, linux(devices=[NULL])),
    ("devices", NULL_TEXT + ZERO_TEXT, linux(devices=[NULL, {**NULL, "path": "/dev/zero2", "minor": "5"}])),
    (
        "devices",
        "- {path: /dev/null2, type: c, major: 1, minor: 3, file_mode: 0666, uid: 1000, gid: 4294967295}",
        linux(devices=[{**NULL, "file_mode": {"value": 438}, "uid": {"value": 1000}, "gid": {"value": 4294967295}}]),
    ),
    (
        "devices",
        "- {path: /dev/null2, type: c, major: 1, minor: 3, file_mode: 0, uid: 0, gid: 0, color: red}",
        linux(devices=[NULL]),
    ),
    ("devices", "- {Path: /dev/null2, TYPE: c, major: 1, minor: 3}", linux(devices=[NULL])),
    (
        "devices",
        "- {path: /dev/x, type: c, major: -1}",
        linux(devices=[{"path": "/dev/x", "type": "c", "major": "-1"}]),
    ),
    ("devices", "- {path: /dev/7, type: 5}", linux(devices=[{"path": "/dev/7", "type": "5"}])),
    ("devices", "- {path: /dev/x, major: '1'}", None),
    ("devices", "- {path: /dev/x, major: 9223372036854775808}", None),
    ("devices", "- {path: /dev/x, file_mode: -1}", None),
    ("devices", "- {path: /dev/x, uid: 4294967296}", None),
    ("devices", "- {path: [/dev/x]}", None),
    ("devices", "- /dev/x", None),
    ("devices", "path: /dev/x", None),
    ("devices", "", {}),
    ("devices", "[]", {}),
    ("cdi-devices", "- vendor0.com/device=null\n", {"CDI_devices": [{"name": "vendor0.com/device=null"}]}),
    ("cdi-devices", '["v.com/d=0", "v.com/d=1"]', {"CDI_devices": [{"name": "v.com/d=0"}, {"name": "v.com/d=1"}]}),
    ("cdi-devices", "- - vendor0.com/device=zero", None),
    ("cdi-devices", "vendor0.com/device=zero", None),
    ("cdi-devices", "null", {}),
    (
        "mounts",
        "- source: /foo\n  destination: /host/foo\n  type: bind\n  options:\n    - bind\n    - ro\n",
        {"mounts": [{"source": "/foo", "destination": "/host/foo", "type": "bind", "options": ["bind", "ro"]}]},
    ),
    (
        "mounts",
        "- source: tmpfs\n  destination: /scratch\n  options:\n  - size=65536k\n  - mode=0755\n- destination: /x\n",
        {
            "mounts": [
                {"source": "tmpfs", "destination": "/scratch", "options": ["size=65536k", "mode=0755"]},
                {"destination": "/x"},
            ]
        },
    ),
    (
        "mounts",
        "- {destination: /x, options: [1, ~, a b]}",
        {"mounts": [{"destination": "/x", "options": ["1", "", "a b"]}]},
    ),
    ("mounts", "- {destination: /x, options: ro}", None),
    ("mounts", "- {destination: /x, options: [[ro]]}", None),
    (
        "network-devices",
        "- hostIf: ens2.100\n  Name: netdev0\n- hostif: eth1\n",
        linux(net_devices={"ens2.100": {"name": "netdev0"}, "eth1": {}}),
    ),
    ("network-devices", "- {hostIf: a, name: b}\n- {hostIf: a, name: c}", linux(net_devices={"a": {"name": "c"}})),
    ("network-devices", "ens2: netdev0", None),
    (
        "sysctl",
        'net.core.somaxconn: "256"\nnet.ipv4.ip_local_port_range: 1024 65535\n',
        linux(sysctl={"net.core.somaxconn": "256", "net.ipv4.ip_local_port_range": "1024 65535"}),
    ),
    ("sysctl", "a: 256\nb: 010\nc:\nd: -1", linux(sysctl={"a": "256", "b": "8", "c": "", "d": "-1"})),
    ("sysctl", "a: [1]", None),
    ("sysctl", "- a", None),
    ("sysctl", "", {}),
    (
        "memory-policy",
        'mode: MPOL_INTERLEAVE\nnodes: "2,3"\nflags: [ MPOL_F_STATIC_NODES ]\n',
        linux(memory_policy={"mode": "MPOL_INTERLEAVE", "nodes": "2,3", "flags": ["MPOL_F_STATIC_NODES"]}),
    ),
    ("memory-policy", "mode: MPOL_BIND\nnodes: 0-3", linux(memory_policy={"mode": "MPOL_BIND", "nodes": "0-3"})),
    ("memory-policy", "mode: MPOL_DEFAULT", linux(memory_policy={})),
    ("memory-policy", "mode: mpol_bind", None),
    ("memory-policy", "mode: MPOL_BIND\nflags: [MPOL_F_NONE]", None),
    ("memory-policy", "nodes: '0'", None),
    ("memory-policy", "", None),
    (
        "io-priority",
        "class: IOPRIO_CLASS_RT\npriority: 4",
        linux(io_priority={"class": "IOPRIO_CLASS_RT", "priority": 4}),
    ),
    ("io-priority", "class: IOPRIO_CLASS_BE\npriority: 2147483648", None),
    (
        "scheduling-policy",
        "policy: SCHED_DEADLINE\nruntime: 1000\ndeadline: 2000\nperiod: 3000\nflags: [SCHED_FLAG_RECLAIM]",
        linux(
            scheduler={
                **{"policy": "SCHED_DEADLINE", "flags": ["SCHED_FLAG_RECLAIM"]},
                **{"runtime": "1000", "deadline": "2000", "period": "3000"},
            }
        ),
    ),
    ("scheduling-policy", "policy: SCHED_OTHER\nnice: -5", linux(scheduler={"policy": "SCHED_OTHER", "nice": -5})),
    ("scheduling-policy", "policy: SCHED_OTHER\nperiod: -5", None),
]

# What upstream's plugin takes, mostly for something else, and the sample refuses.
REFUSED = {
    "a device without path": ("devices", "- {type: c}"),
    "a mount without destination": ("mounts", "- {source: /foo}"),
    "a CDI device without name": ("cdi-devices", "- "),
    "a network device of nobody": ("network-devices", "- {name: netdev0}"),
    "a class that upstream ignores": ("io-priority", "class: rt"),
    "a policy that upstream takes for SCHED_NONE": ("scheduling-policy", "policy: batch"),
    "a flag that upstream takes for SCHED_FLAG_RESET_ON_FORK": ("scheduling-policy", "policy: SCHED_RR\nflags: [x]"),
    "a word that is true to some": ("sysctl", "a: yes"),
    "a number with a fraction": ("sysctl", "a: 0.10"),
    "a text over two lines": ("sysctl", 'a: "x\n  y"'),
}


INVOKE = code("device-injector")["invoke"]


def event(annotations: dict[str, str]) -> dict[str, Any]:
    """Returns the request of CreateContainer for a pod that may ask for everything."""
    return denied(annotations, allow="everything")


def key_of(kind: str) -> str:
    return f"{kind}.noderesource.dev/container.web"


def refuses(kind: str, annotation: str) -> None:
    with pytest.raises(ValueError, match=f"annotation {key_of(kind)}: "):
        INVOKE(event({key_of(kind): annotation}))


def test_an_annotation_becomes_the_adjustment_that_upstream_makes(subtests: pytest.Subtests) -> None:
    for kind, annotation, wanted in CASES:
        with subtests.test(kind, annotation=annotation):
            if wanted is None:
                refuses(kind, annotation)
                continue
            answer = INVOKE(event({key_of(kind): annotation}))["adjust"]
            assert ParseDict(answer, api.ContainerAdjustment()) == ParseDict(wanted, api.ContainerAdjustment())


def test_what_upstream_takes_for_something_else_is_refused(subtests: pytest.Subtests) -> None:
    for name, (kind, annotation) in REFUSED.items():
        with subtests.test(name):
            refuses(kind, annotation)


PRECEDENCE = [
    f"{{}}.{domain}{of}" for of in ("/container.web", "/pod", "") for domain in ("noderesource.dev", "nri.io")
]
A_VALUE = {"sysctl": "a: 1", "memory-policy": "mode: MPOL_BIND", "io-priority": "class: IOPRIO_CLASS_RT"}
A_VALUE |= {"scheduling-policy": "policy: SCHED_RR", "network-devices": "- hostIf: a", "cdi-devices": "- a"}
A_VALUE |= {"devices": "- path: /a", "mounts": "- destination: /a"}
NOTHING = {"metadata": {"skipped": "nothing is annotated"}}


def test_the_most_specific_key_counts_and_of_two_such_the_newer() -> None:
    for kind in A_VALUE.keys() - {"sysctl"}:
        for first, key in enumerate(PRECEDENCE):
            broken = {key.format(kind): "[" for key in PRECEDENCE[first + 1 :]}
            answer = INVOKE(event({**broken, key.format(kind): A_VALUE[kind]}))
            assert answer["metadata"] == {"adjusted": kind}, key


def test_sysctls_have_no_older_key() -> None:
    older = {key.format("sysctl"): "[" for key in PRECEDENCE if "nri.io" in key}
    assert INVOKE(event(older)) == NOTHING
    answer = INVOKE(event({**older, "sysctl.noderesource.dev": "a: 1"}))
    assert answer["adjust"] == linux(sysctl={"a": "1"})


def test_annotations_of_others_and_a_pod_without_annotations_do_not_matter() -> None:
    for key in ("devices.noderesource.dev/container.db", "devices.noderesource.dev/pods", "devices"):
        assert INVOKE(event({key: "["})) == NOTHING, key
    changes: dict[str, Any]
    for changes in ({"pod": None}, {"pod": {}}, {"container": None}):
        assert INVOKE(event({key_of("devices"): "["}) | changes) == NOTHING, changes


def test_an_update_is_left_alone() -> None:
    assert list(run("device-injector", sample("update-container-event")).metadata) == ["skipped"]


def test_all_kinds_together_are_one_adjustment_that_the_adapter_can_make() -> None:
    request = event({f"{kind}.noderesource.dev": annotation for kind, annotation in A_VALUE.items()})
    answer = run("device-injector", request)
    assert sorted(answer.metadata["adjusted"].split()) == sorted(A_VALUE)
    wanted = ParseDict(answer.result["adjust"], api.ContainerAdjustment())
    made = adjustment(request["spec"], apply(request["spec"], wanted))
    made.MergeFrom(outside_spec(wanted))
    assert made == wanted


def test_an_error_is_a_result_without_any_change() -> None:
    annotations = {"mounts.nri.io/pod": "- destination: /a", key_of("devices"): "- {path: 5: 6}"}
    reason = f"annotation {key_of('devices')}: cannot read '{{path: 5: 6}}'"
    run("device-injector", event(annotations)).is_error("device-injector", reason)
