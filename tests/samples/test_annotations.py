"""device-injector and ulimit-adjuster: of the same annotations the same changes as upstream's plugins make."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from google.protobuf.json_format import ParseDict
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapter.nri import api
from adapter.oci.outside_spec import outside_spec
from adapter.oci.spec import adjustment, apply

from .plugins import SAMPLES, code, run, sample
from .plugins import event as denied

NULL = {"path": "/dev/null2", "type": "c", "major": "1", "minor": "3"}
ZERO = {**NULL, "path": "/dev/zero2", "minor": "5"}
OWNED = {**NULL, "file_mode": {"value": 438}, "uid": {"value": 1000}, "gid": {"value": 4294967295}}
DEADLINE = {"policy": "SCHED_DEADLINE", "flags": ["SCHED_FLAG_RECLAIM"]}
DEADLINE_TEXT = "policy: SCHED_DEADLINE\nruntime: 1000\ndeadline: 2000\nperiod: 3000\nflags: [SCHED_FLAG_RECLAIM]"
INTERLEAVE = {"mode": "MPOL_INTERLEAVE", "nodes": "2,3", "flags": ["MPOL_F_STATIC_NODES"]}
INTERLEAVE_TEXT = 'mode: MPOL_INTERLEAVE\nnodes: "2,3"\nflags: [ MPOL_F_STATIC_NODES ]\n'


def event(annotations: dict[str, str]) -> dict[str, Any]:
    """Returns the request of CreateContainer for a pod that may ask for everything."""
    return denied(annotations, allow="everything")


INJECT, ADJUST = (code(plugin)["invoke"] for plugin in ("device-injector", "ulimit-adjuster"))


def linux(**adjustment: object) -> dict[str, object]:
    return {"linux": adjustment}


def devices(*adjusted: dict[str, Any]) -> dict[str, object]:
    return linux(devices=list(adjusted))


def cdi(*names: str) -> dict[str, object]:
    return {"CDI_devices": [{"name": name} for name in names]}


def mounts(*adjusted: dict[str, Any]) -> dict[str, object]:
    return {"mounts": list(adjusted)}


# Of each kind: an annotation, and what upstream's plugin makes of it. Seen by calling its CreateContainer
# (plugins/device-injector/device-injector.go).
ADJUSTED: dict[str, dict[str, dict[str, object]]] = {
    "devices": {
        "- path: /dev/null2\n  type: c\n  major: 1\n  minor: 3\n"
        "- path: /dev/zero2\n  type: c\n  major: 1\n  minor: 5\n": devices(NULL, ZERO),
        "- {path: /dev/null2, type: c, major: 1, minor: 3, file_mode: 0666, uid: 1000, gid: 4294967295}": devices(
            OWNED
        ),
        "- {path: /dev/null2, type: c, major: 1, minor: 3, file_mode: 0, uid: 0, gid: 0, color: red}": devices(NULL),
        "- {Path: /dev/null2, TYPE: c, major: 1, minor: 3}": devices(NULL),
        "- {path: /dev/x, type: c, major: -1}": devices({"path": "/dev/x", "type": "c", "major": "-1"}),
        "- {path: /dev/7, type: 5}": devices({"path": "/dev/7", "type": "5"}),
        "": {},
        "[]": {},
    },
    "cdi-devices": {
        "- vendor0.com/device=null\n": cdi("vendor0.com/device=null"),
        '["v.com/d=0", "v.com/d=1"]': cdi("v.com/d=0", "v.com/d=1"),
        "null": {},
    },
    "mounts": {
        "- source: /foo\n  destination: /host/foo\n  type: bind\n  options:\n    - bind\n    - ro\n"
        "- destination: /x\n": mounts(
            {"source": "/foo", "destination": "/host/foo", "type": "bind", "options": ["bind", "ro"]},
            {"destination": "/x"},
        ),
        "- {destination: /x, options: [1, ~, a b]}": mounts({"destination": "/x", "options": ["1", "", "a b"]}),
    },
    "network-devices": {
        "- hostIf: ens2.100\n  Name: netdev0\n- hostif: eth1\n": linux(
            net_devices={"ens2.100": {"name": "netdev0"}, "eth1": {}}
        ),
        "- {hostIf: a, name: b}\n- {hostIf: a, name: c}": linux(net_devices={"a": {"name": "c"}}),
    },
    "sysctl": {
        'net.core.somaxconn: "256"\nnet.ipv4.ip_local_port_range: 1024 65535\n': linux(
            sysctl={"net.core.somaxconn": "256", "net.ipv4.ip_local_port_range": "1024 65535"}
        ),
        "a: 256\nb: 010\nc:\nd: -1": linux(sysctl={"a": "256", "b": "8", "c": "", "d": "-1"}),
        "": {},
    },
    "memory-policy": {
        INTERLEAVE_TEXT: linux(memory_policy=INTERLEAVE),
        "mode: MPOL_BIND\nnodes: 0-3": linux(memory_policy={"mode": "MPOL_BIND", "nodes": "0-3"}),
        "mode: MPOL_DEFAULT": linux(memory_policy={}),
    },
    "io-priority": {
        "class: IOPRIO_CLASS_RT\npriority: 4": linux(io_priority={"class": "IOPRIO_CLASS_RT", "priority": 4}),
    },
    "scheduling-policy": {
        DEADLINE_TEXT: linux(scheduler=DEADLINE | {"runtime": "1000", "deadline": "2000", "period": "3000"}),
        "policy: SCHED_OTHER\nnice: -5": linux(scheduler={"policy": "SCHED_OTHER", "nice": -5}),
    },
}
REFUSED = {
    "devices": [
        *("- {path: /dev/x, major: '1'}", "- {path: /dev/x, major: 9223372036854775808}", "- {path: [/dev/x]}"),
        *("- {path: /dev/x, file_mode: -1}", "- {path: /dev/x, uid: 4294967296}", "- /dev/x", "path: /dev/x"),
        "- {type: c}",  # upstream takes it without path
    ],
    "cdi-devices": ["- - vendor0.com/device=zero", "vendor0.com/device=zero", "- "],  # upstream takes one without name
    "mounts": [
        *("- {destination: /x, options: ro}", "- {destination: /x, options: [[ro]]}"),
        "- {source: /foo}",  # upstream takes it without destination
    ],
    "network-devices": ["ens2: netdev0", "- {name: netdev0}"],  # upstream takes nobody's
    "sysctl": [
        *("a: [1]", "- a"),
        *("a: yes", "a: 0.10", 'a: "x\n  y"'),  # upstream takes a word for true, cuts a fraction, joins two lines
    ],
    "memory-policy": ["mode: mpol_bind", "mode: MPOL_BIND\nflags: [MPOL_F_NONE]", "nodes: '0'", ""],
    "io-priority": [
        "class: IOPRIO_CLASS_BE\npriority: 2147483648",
        "class: rt",  # upstream ignores it
    ],
    "scheduling-policy": [
        "policy: SCHED_OTHER\nperiod: -5",
        *("policy: batch", "policy: SCHED_RR\nflags: [x]"),  # upstream takes them for SCHED_NONE, and another flag
    ],
}


def key_of(kind: str) -> str:
    return f"{kind}.noderesource.dev/container.web"


def test_an_annotation_becomes_the_adjustment_that_upstream_makes_or_is_refused(subtests: pytest.Subtests) -> None:
    for kind, cases in ADJUSTED.items():
        for annotation, wanted in cases.items():
            with subtests.test(kind, annotation=annotation):
                answer = INJECT(event({key_of(kind): annotation}))["adjust"]
                assert ParseDict(answer, api.ContainerAdjustment()) == ParseDict(wanted, api.ContainerAdjustment())
        for annotation in REFUSED[kind]:
            with pytest.raises(ValueError, match=f"annotation {key_of(kind)}: "):
                INJECT(event({key_of(kind): annotation}))


PRECEDENCE = [
    f"{{}}.{domain}{of}" for of in ("/container.web", "/pod", "") for domain in ("noderesource.dev", "nri.io")
]
A_VALUE = {
    **{"sysctl": "a: 1", "memory-policy": "mode: MPOL_BIND", "io-priority": "class: IOPRIO_CLASS_RT"},
    **{"scheduling-policy": "policy: SCHED_RR", "network-devices": "- hostIf: a", "cdi-devices": "- a"},
    **{"devices": "- path: /a", "mounts": "- destination: /a"},
}
NOTHING = {"metadata": {"skipped": "nothing is annotated"}}


def test_the_most_specific_key_counts_and_of_two_such_the_newer_and_sysctls_have_no_older_one() -> None:
    for kind in A_VALUE:
        keys = [key.format(kind) for key in PRECEDENCE if kind != "sysctl" or "nri.io" not in key]
        for first, key in enumerate(keys):
            broken = dict.fromkeys(keys[first + 1 :], "[")
            assert INJECT(event({**broken, key: A_VALUE[kind]}))["metadata"] == {"adjusted": kind}, key
    assert INJECT(event({key.format("sysctl"): "[" for key in PRECEDENCE if "nri.io" in key})) == NOTHING


def test_all_kinds_together_are_one_adjustment_that_the_adapter_can_make() -> None:
    request = event({f"{kind}.noderesource.dev": annotation for kind, annotation in A_VALUE.items()})
    answer = run("device-injector", request)
    assert sorted(answer.metadata["adjusted"].split()) == sorted(A_VALUE)
    wanted = ParseDict(answer.result["adjust"], api.ContainerAdjustment())
    made = adjustment(request["spec"], apply(request["spec"], wanted))
    made.MergeFrom(outside_spec(wanted))
    assert made == wanted


# ---- ulimit-adjuster

KEY = "ulimits.noderesource.dev/container.web"
OLD_KEY = "ulimits.nri.containerd.io/container.web"
MOST = 2**64 - 1

# An annotation, and the limits that upstream's plugin makes of it, as (type, soft, hard). Seen by calling its
# CreateContainer (plugins/ulimit-adjuster/adjuster.go).
Limits = list[tuple[str, int, int]]
LIMITED: dict[str, Limits] = {
    "- type: RLIMIT_NOFILE\n  soft: 1\n  hard: 2\n- {type: memlock, hard: 987654, color: red}": [
        *(("RLIMIT_NOFILE", 1, 2), ("RLIMIT_MEMLOCK", 0, 987654)),
    ],
    "- {type: rlimit_core, soft: 1, hard: 2}": [("RLIMIT_CORE", 1, 2)],
    "- {type: RLimit_Cpu}": [("RLIMIT_CPU", 0, 0)],
    f"- {{type: AS, soft: {MOST}, hard: {MOST}}}": [("RLIMIT_AS", MOST, MOST)],
    "- {type: nofile, hard: +5}": [("RLIMIT_NOFILE", 0, 5)],
    "- {type: nofile, hard: null, soft: ~}": [("RLIMIT_NOFILE", 0, 0)],
    "- Type: nofile\n  SOFT: 1\n  Hard: 2": [("RLIMIT_NOFILE", 1, 2)],
    "- type: nofile\n  hard: 5\n  Hard: 7": [("RLIMIT_NOFILE", 0, 5)],
    "- type: nofile\n  hard: 5\n  hard: 7": [("RLIMIT_NOFILE", 0, 7)],
    **{nothing: [] for nothing in ("", "~", "[]", "# nothing")},
}
NO_LIMITS = [
    *("- {type: ULIMIT_NOFILE}", "- {type: RLIMIT_FOO}", "- {type: RLIMIT_RLIMIT_NOFILE}", "- {type: ' nofile'}"),
    *("- {type: 5}", "- {type: ''}", "- {soft: 1, hard: 2}", "- {type: [nofile]}", "{}", "nofile", "- nofile", "-"),
    *("- {type: nofile}\n- {type: RLIMIT_BAR}", f"- {{type: nofile, hard: {MOST + 1}}}", "- {type: nofile, hard: yes}"),
    *("- {type: nofile, soft: 5, hard: 4}", "- {type: nofile, soft: 5}", "- {type: nofile, hard: -1}"),
    *("- {type: nofile, hard: '5'}", "- {type: nofile, hard: 1.5}", "- {type: nofile, hard: [5]}"),
    # These upstream's plugin takes, or leaves to the runtime.
    *("- {type: nofile, hard: 1e3}", "- {type: nofile, hard: 0x10}"),
    "- {type: nofile, hard: 1}\n- {type: NOFILE, hard: 2}",
]


def spec_of(limits: Limits) -> dict[str, Any]:
    return {"process": {"rlimits": [{"type": kind, "hard": hard, "soft": soft} for kind, soft, hard in limits]}}


def test_an_annotation_becomes_the_limits_that_upstream_sets_or_is_refused(subtests: pytest.Subtests) -> None:
    for annotation, limits in LIMITED.items():
        with subtests.test(annotation):
            assert ADJUST(event({KEY: annotation}))["spec"] == spec_of(limits)
    for annotation in NO_LIMITS:
        with subtests.test(annotation), pytest.raises(ValueError, match=f"annotation {KEY}: "):
            ADJUST(event({KEY: annotation}))


def test_the_newer_key_goes_before_the_older() -> None:
    core: Limits = [("RLIMIT_CORE", 0, 0)]
    for annotated, limits in (
        ({KEY: "[{type: core}]", OLD_KEY: "[{type: cpu}]"}, core),
        ({OLD_KEY: "[{type: core}]"}, core),
        ({KEY: "", OLD_KEY: "[{type: cpu}]"}, []),
        ({KEY: "[{type: core}]", OLD_KEY: "["}, core),
    ):
        assert ADJUST(event(annotated))["spec"] == spec_of(limits), annotated


# ---- both


def test_annotations_of_others_a_pod_without_annotations_and_an_update_do_not_matter() -> None:
    for plugin, invoke, kind, reason in (
        ("device-injector", INJECT, "devices", "nothing is annotated"),
        ("ulimit-adjuster", ADJUST, "ulimits", "no limits are annotated"),
    ):
        nothing = {"metadata": {"skipped": reason}}
        for key in (f"{kind}.noderesource.dev/container.db", f"{kind}.noderesource.dev/pods", f"{key_of(kind)}2", kind):
            assert invoke(event({key: "["})) == nothing, key
        changes: dict[str, Any]
        for changes in ({"pod": None}, {"pod": {}}, {"container": None}):
            assert invoke(event({key_of(kind): "["}) | changes) == nothing, changes
        assert list(run(plugin, sample("update-container-event")).metadata) == ["skipped"]


def test_an_error_is_a_result_without_any_change() -> None:
    for plugin, kind, annotation, reason in (
        ("device-injector", "devices", "- {path: 5: 6}", "cannot read '{path: 5: 6}'"),
        ("ulimit-adjuster", "ulimits", "- {type: core, hard: -1}", f"core: -1 is not a number from 0 to {MOST}"),
    ):
        annotations = {"mounts.nri.io/pod": "- destination: /a", key_of(kind): annotation}
        run(plugin, event(annotations)).is_error(plugin, f"annotation {key_of(kind)}: {reason}")
    answer = run("ulimit-adjuster", event({KEY: "- {type: nofile}\n- {type: core}"}))
    assert answer.metadata == {"adjusted": "RLIMIT_NOFILE RLIMIT_CORE"}


# ---- the YAML that both read: what they understand they understand as PyYAML does, the rest they refuse

load = code("device-injector")["load"]
PIECES = (
    *("a", "b: ", "key", ": ", ":", "- ", "-", "\n", "\n  ", "\n    ", " ", "  ", "#", " #", ",", ", ", "[", "]", "{"),
    *("}", "'", "''", '"', "\\", "\\n", "\\u00e9", "|", ">", "&a", "*a", "!", "%", "@", "`", "?", "? ", "<<", "=", "é"),
    *("1", "-1", "+", "0", "010", "08", "0x1f", "0o7", "0b1", "1_000", "1.5", ".", "1e3", "1:30", ".inf", "2001-01-01"),
    *("~", "null", "true", "yes", "Off", "y", "---", "...", "/dev/null", "ens2.100", "0-3", "2,3", "v.com/d=0", "\r\n"),
)  # fmt: skip
TEXT = st.text(st.sampled_from("ab1 :-#,'\"[]{}é/=.0~%"), max_size=6)
VALUES = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXT, values, max_size=3),
    max_leaves=8,
)


def as_pyyaml(text: str) -> None:
    try:
        value = load(text)
    except (ValueError, RecursionError):
        return
    assert json.dumps(value) == json.dumps(yaml.safe_load(text))


UNDERSTOOD = {
    "- a\n- b: c\n  d: 1\n": ["a", {"b": "c", "d": 1}],
    "a:\n- b\n-\n  c: ~\nd:\n  - [e, 'it''s', \"f # g\"]": {"a": ["b", {"c": None}], "d": [["e", "it's", "f # g"]]},
    "# a\n- # b\n  c: # d\n    e # f\n\n-\n": [{"c": "e"}, None],
    "- - -1\n  - 010\n- {a: /b c, d: [e#f, g:h]}\r\n": [[-1, 8], {"a": "/b c", "d": ["e#f", "g:h"]}],
    '\n[{"a": "\\u00e9\\"",\n  b: null}]\n': [{"a": 'é"', "b": None}],
    "a": "a",
    "": None,
}
BEYOND = (
    *("a: &x b", "a: *x", "a: !!str b", "a: |\n  b", "a: b\n  c", "a: 'b\n  c'", "%YAML 1.1\n--- a", "\ta: b"),
    *("a: y", "a: N"),
)


def test_lists_and_mappings_are_understood_in_all_their_usual_forms_and_what_is_beyond_is_refused() -> None:
    for text, value in UNDERSTOOD.items():
        assert load(text) == value == yaml.safe_load(text)
    for text in BEYOND:
        with pytest.raises(ValueError, match=r"\w"):
            load(text)


def test_both_samples_have_the_same_reader() -> None:
    texts = [(SAMPLES / plugin).read_text() for plugin in ("device-injector", "ulimit-adjuster")]
    first, second = (
        text.partition("# --- The part of YAML")[2].partition('\n\n\nif __name__ == "__main__":')[0] for text in texts
    )
    assert first == second
    assert "def load(" in first


@settings(max_examples=1000)
@example("a:\n- b\n- c: 1\n  d: [x, {y: 'it''s'}]\n# end")
@example("- a: b # c\n-\n- - d\n  - e\n- # f\n  g: h")
@example('- "a # b": [ c d,\n  -1 ]')
@example("- a\n -b")
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_what_is_understood_is_understood_as_pyyaml_does(text: str) -> None:
    as_pyyaml(text)


@settings(max_examples=300)
@given(VALUES, st.sampled_from([True, False, None]))
def test_what_pyyaml_writes_is_understood_as_pyyaml_does(value: object, style: bool | None) -> None:
    as_pyyaml(yaml.safe_dump(value, default_flow_style=style, width=10**6, allow_unicode=True))


KEYS = {KEY: ADJUST, **{f"{kind}.noderesource.dev/pod": INJECT for kind in ADJUSTED}}


@settings(max_examples=500)
@given(
    st.sampled_from(sorted(KEYS)),
    st.text(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | VALUES.map(json.dumps),
)
@example("sysctl.noderesource.dev/pod", "[" * 10_000)
@example("devices.noderesource.dev/pod", "- " * 10_000)
@example("ulimits.noderesource.dev/container.web", "- hard: " + "9" * 5000)
def test_any_annotation_gets_a_result_or_an_error_that_names_it(key: str, annotation: str) -> None:
    try:
        result = KEYS[key](event({key: annotation}))
    except ValueError as problem:
        assert str(problem).startswith(f"annotation {key}: ")  # noqa: PT017 - either is fine
    else:
        assert json.loads(json.dumps(result))["metadata"].keys() == {"adjusted"}
