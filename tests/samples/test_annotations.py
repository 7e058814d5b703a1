"""device-injector and ulimit-adjuster: of the same annotations the same changes as upstream's plugins make."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from google.protobuf.json_format import ParseDict
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri import api
from v010_adapter.oci.spec import adjustment, apply, outside_spec

from .plugins import SAMPLES, code, run, sample
from .plugins import event as denied

INJECT, ADJUST = (code(plugin)["invoke"] for plugin in ("device-injector", "ulimit-adjuster"))
KEY = "ulimits.noderesource.dev/container.web"
MOST = 2**64 - 1

# Of each kind: an annotation, and what upstream's plugin makes of it. Seen by calling its CreateContainer
# (plugins/device-injector/device-injector.go).
NULL = {"path": "/dev/null2", "type": "c", "major": "1", "minor": "3"}
OWNED = {**NULL, "file_mode": {"value": 438}, "uid": {"value": 1000}, "gid": {"value": 4294967295}}
ADJUSTED: list[tuple[str, str, dict[str, Any]]] = [
    ("devices", "- {Path: /dev/null2, TYPE: c, major: 1, minor: 3, file_mode: 0, color: red}", {"devices": [NULL]}),
    ("devices", "- {path: /dev/null2, type: c, major: 1, minor: 3, file_mode: 0666, uid: 1000, gid: 4294967295}",
        {"devices": [OWNED]}),
    ("network-devices", "- {hostIf: a, name: b}\n- {hostIf: a, name: c}\n- hostif: d",
        {"net_devices": {"a": {"name": "c"}, "d": {}}}),
    ("sysctl", "a: 256\nb: 010\nc:\nd: -1", {"sysctl": {"a": "256", "b": "8", "c": "", "d": "-1"}}),
    ("memory-policy", "mode: MPOL_BIND\nnodes: 0-3\nflags: [MPOL_F_STATIC_NODES]",
        {"memory_policy": {"mode": "MPOL_BIND", "nodes": "0-3", "flags": ["MPOL_F_STATIC_NODES"]}}),
    ("io-priority", "class: IOPRIO_CLASS_RT\npriority: 4",
        {"io_priority": {"class": "IOPRIO_CLASS_RT", "priority": 4}}),
    ("scheduling-policy", "policy: SCHED_DEADLINE\nruntime: 1\ndeadline: 2\nperiod: 3\nflags: [SCHED_FLAG_RECLAIM]",
        {"scheduler": {"policy": "SCHED_DEADLINE", "runtime": "1", "deadline": "2", "period": "3",
                       "flags": ["SCHED_FLAG_RECLAIM"]}}),
    ("scheduling-policy", "policy: SCHED_OTHER\nnice: -5", {"scheduler": {"policy": "SCHED_OTHER", "nice": -5}}),
]  # fmt: skip
AT_THE_TOP: list[tuple[str, str, dict[str, Any]]] = [
    ("devices", "[]", {}),
    ("cdi-devices", '["v.com/d=0", "v.com/d=1"]', {"CDI_devices": [{"name": "v.com/d=0"}, {"name": "v.com/d=1"}]}),
    ("mounts", "- {destination: /x, options: [1, ~, a b]}", {"mounts": [
        {"destination": "/x", "options": ["1", "", "a b"]}]}),
]  # fmt: skip
REFUSED = {
    "devices": [
        *("- {path: /dev/x, major: '1'}", "- {path: /dev/x, major: 9223372036854775808}", "- {path: [/dev/x]}"),
        *("- {path: /dev/x, file_mode: -1}", "- {path: /dev/x, uid: 4294967296}", "- /dev/x", "path: /dev/x"),
        "- {type: c}",  # upstream takes it without path
    ],
    "cdi-devices": ["- - vendor0.com/device=zero", "vendor0.com/device=zero", "- "],  # upstream takes one without name
    "mounts": ["- {destination: /x, options: ro}", "- {source: /foo}"],  # upstream takes it without destination
    "network-devices": ["ens2: netdev0", "- {name: netdev0}"],  # upstream takes nobody's
    "sysctl": ["a: [1]", "- a", "a: yes", "a: 0.10"],  # upstream takes a word for true, cuts a fraction
    "memory-policy": ["mode: mpol_bind", "mode: MPOL_BIND\nflags: [MPOL_F_NONE]", "nodes: '0'", ""],
    "io-priority": ["class: IOPRIO_CLASS_BE\npriority: 2147483648", "class: rt"],  # upstream ignores this class
    "scheduling-policy": ["policy: SCHED_OTHER\nperiod: -5", "policy: batch", "policy: SCHED_RR\nflags: [x]"],
}


def event(annotations: dict[str, str]) -> dict[str, Any]:
    """Returns the request of CreateContainer for a pod that may ask for everything."""
    return denied(annotations, allow="everything")


def test_an_annotation_becomes_the_adjustment_that_upstream_makes_or_is_refused() -> None:
    linux = [(kind, annotation, {"linux": wanted}) for kind, annotation, wanted in ADJUSTED]
    for kind, annotation, wanted in [*linux, *AT_THE_TOP]:
        answer = INJECT(event({f"{kind}.noderesource.dev/container.web": annotation}))["adjust"]
        assert ParseDict(answer, api.ContainerAdjustment()) == ParseDict(wanted, api.ContainerAdjustment()), annotation
    for kind, refused in REFUSED.items():
        for annotation in refused:
            with pytest.raises(ValueError, match=f"annotation {kind}.noderesource.dev/container.web: "):
                INJECT(event({f"{kind}.noderesource.dev/container.web": annotation}))


A_VALUE = {
    **{"sysctl": "a: 1", "memory-policy": "mode: MPOL_BIND", "io-priority": "class: IOPRIO_CLASS_RT"},
    **{"scheduling-policy": "policy: SCHED_RR", "network-devices": "- hostIf: a", "cdi-devices": "- a"},
    **{"devices": "- path: /a", "mounts": "- destination: /a"},
}


def test_the_most_specific_key_counts_and_of_two_such_the_newer_and_others_keys_do_not_matter() -> None:
    places = [f"{domain}{of}" for of in ("/container.web", "/pod", "") for domain in ("noderesource.dev", "nri.io")]
    for first, place in enumerate(places):
        broken = dict.fromkeys([f"devices.{less}" for less in places[first + 1 :]], "[")
        others = dict.fromkeys(["sysctl.nri.io", "devices.noderesource.dev/container.db", "devices"], "[")
        request = event({**broken, **others, f"devices.{place}": "- path: /a"})
        assert INJECT(request)["metadata"] == {"adjusted": "devices"}, place
    newer, older = (f"ulimits.{domain}/container.web" for domain in ("noderesource.dev", "nri.containerd.io"))
    for annotated in ({newer: "[{type: core}]", older: "["}, {older: "[{type: core}]"}):
        assert ADJUST(event(annotated))["metadata"] == {"adjusted": "RLIMIT_CORE"}
    assert list(run("ulimit-adjuster", sample("update-container-event")).metadata) == ["skipped"]


def test_all_kinds_together_are_one_adjustment_that_the_adapter_can_make() -> None:
    request = event({f"{kind}.noderesource.dev": annotation for kind, annotation in A_VALUE.items()})
    answer = run("device-injector", request)
    assert sorted(answer.metadata["adjusted"].split()) == sorted(A_VALUE)
    wanted = ParseDict(answer.result["adjust"], api.ContainerAdjustment())
    made = adjustment(request["spec"], apply(request["spec"], wanted))
    made.MergeFrom(outside_spec(wanted))
    assert made == wanted


# An annotation, and the limits that upstream's plugin makes of it, as (type, soft, hard). Seen by calling its
# CreateContainer (plugins/ulimit-adjuster/adjuster.go).
LIMITED: dict[str, list[tuple[str, int, int]]] = {
    "- type: RLIMIT_NOFILE\n  soft: 1\n  hard: 2\n- {type: memlock, hard: 987654, color: red}": [
        *(("RLIMIT_NOFILE", 1, 2), ("RLIMIT_MEMLOCK", 0, 987654)),
    ],
    "- {type: RLimit_Cpu}": [("RLIMIT_CPU", 0, 0)],
    f"- {{type: AS, soft: {MOST}, hard: {MOST}}}": [("RLIMIT_AS", MOST, MOST)],
    "- {type: nofile, hard: null, soft: ~}": [("RLIMIT_NOFILE", 0, 0)],
    "- type: nofile\n  hard: 5\n  Hard: 7": [("RLIMIT_NOFILE", 0, 5)],
    **{nothing: [] for nothing in ("", "~", "[]", "# nothing")},
}
NO_LIMITS = [
    *("- {type: ULIMIT_NOFILE}", "- {type: RLIMIT_FOO}", "- {type: 5}", "- {soft: 1, hard: 2}", "{}", "nofile"),
    *("- {type: nofile}\n- {type: RLIMIT_BAR}", f"- {{type: nofile, hard: {MOST + 1}}}", "- {type: nofile, hard: yes}"),
    *("- {type: nofile, soft: 5, hard: 4}", "- {type: nofile, hard: -1}", "- {type: nofile, hard: '5'}"),
    *("- {type: nofile, hard: 1e3}", "- {type: nofile, hard: 1}\n- {type: NOFILE, hard: 2}"),  # upstream takes these
]


def test_an_annotation_becomes_the_limits_that_upstream_sets_or_is_refused() -> None:
    for annotation, limits in LIMITED.items():
        rlimits = [{"type": kind, "hard": hard, "soft": soft} for kind, soft, hard in limits]
        assert ADJUST(event({KEY: annotation}))["spec"] == {"process": {"rlimits": rlimits}}, annotation
    for annotation in NO_LIMITS:
        with pytest.raises(ValueError, match=f"annotation {KEY}: "):
            ADJUST(event({KEY: annotation}))
    reason = f"annotation {KEY}: core: -1 is not a number from 0 to {MOST}"
    run("ulimit-adjuster", event({KEY: "- {type: core, hard: -1}"})).is_error("ulimit-adjuster", reason)


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


BEYOND = (
    *("a: &x b", "a: *x", "a: !!str b", "a: |\n  b", "a: b\n  c", "a: 'b\n  c'", "%YAML 1.1\n--- a", "\ta: b"),
    *("a: y", "a: N"),
)


def test_usual_lists_and_mappings_are_understood_and_what_is_beyond_is_refused() -> None:
    text = "a:\n- b\n-\n  c: ~\nd:\n  - [e, 'it''s', \"f # g\"]\n# end\ne: 010"
    assert load(text) == yaml.safe_load(text) == {"a": ["b", {"c": None}], "d": [["e", "it's", "f # g"]], "e": 8}
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
@example("[a?]")
@example("[a:?b]")
@example("{a\n: b}")
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_what_is_understood_is_understood_as_pyyaml_does(text: str) -> None:
    try:
        value = load(text)
    except (ValueError, RecursionError):
        return
    assert json.dumps(value) == json.dumps(yaml.safe_load(text))


KEYS = {KEY: ADJUST, **{f"{kind}.noderesource.dev/pod": INJECT for kind in A_VALUE}}


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
