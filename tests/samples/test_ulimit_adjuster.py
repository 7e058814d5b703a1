"""ulimit-adjuster: of the same annotations the same limits as upstream's plugin of that name sets."""

from __future__ import annotations

from typing import Any

import pytest

from .plugins import code, run, sample
from .plugins import event as denied

KEY = "ulimits.noderesource.dev/container.web"
OLD_KEY = "ulimits.nri.containerd.io/container.web"
MOST = 2**64 - 1

# An annotation, and the limits that upstream's plugin makes of it, as (type, soft, hard). Seen by calling its
# CreateContainer (plugins/ulimit-adjuster/adjuster.go).
Limits = list[tuple[str, int, int]]
CASES: dict[str, Limits] = {
    "- type: RLIMIT_NOFILE\n  soft: 1\n  hard: 2\n- type: memlock\n  hard: 987654\n": [
        *(("RLIMIT_NOFILE", 1, 2), ("RLIMIT_MEMLOCK", 0, 987654)),
    ],
    "- {type: AS, soft: 1, hard: 2}": [("RLIMIT_AS", 1, 2)],
    "- {type: rlimit_core, soft: 1, hard: 2}": [("RLIMIT_CORE", 1, 2)],
    "- {type: RLimit_Cpu}": [("RLIMIT_CPU", 0, 0)],
    # numbers
    f"- {{type: nofile, soft: {MOST}, hard: {MOST}}}": [("RLIMIT_NOFILE", MOST, MOST)],
    "- {type: nofile, hard: +5}": [("RLIMIT_NOFILE", 0, 5)],
    "- {type: nofile, hard: 010}": [("RLIMIT_NOFILE", 0, 8)],
    "- {type: nofile, hard: null, soft: ~}": [("RLIMIT_NOFILE", 0, 0)],
    # keys
    "- Type: nofile\n  SOFT: 1\n  Hard: 2": [("RLIMIT_NOFILE", 1, 2)],
    "- type: nofile\n  hard: 5\n  Hard: 7": [("RLIMIT_NOFILE", 0, 5)],
    "- type: nofile\n  hard: 5\n  hard: 7": [("RLIMIT_NOFILE", 0, 7)],
    "- type: nofile\n  hard: 5\n  color: red": [("RLIMIT_NOFILE", 0, 5)],
    # forms
    '[{"type": "nofile", "soft": 1, "hard": 2}]': [("RLIMIT_NOFILE", 1, 2)],
    "  # files\n  -   type: nofile # many\n\n      hard: 3": [("RLIMIT_NOFILE", 0, 3)],
    **{nothing: [] for nothing in ("", "~", "[]", "# nothing")},
}
REFUSED = [
    *("- {type: ULIMIT_NOFILE}", "- {type: RLIMIT_FOO}", "- {type: RLIMIT_RLIMIT_NOFILE}", "- {type: ' nofile'}"),
    *("- {type: 5}", "- {type: ''}", "- {soft: 1, hard: 2}", "- {type: [nofile]}"),
    *("- {type: nofile}\n- {type: RLIMIT_BAR}", f"- {{type: nofile, hard: {MOST + 1}}}"),
    *("- {type: nofile, soft: 5, hard: 4}", "- {type: nofile, soft: 5}", "- {type: nofile, hard: -1}"),
    *("- {type: nofile, hard: unlimited}", "- {type: nofile, hard: '5'}", "- {type: nofile, hard: 1.5}"),
    *("- {type: nofile, hard: yes}", "- {type: nofile, hard: [5]}", "{}", "nofile", "- nofile", "-"),
    *("type: nofile\nhard: 5", "- type: nofile\n\thard: 5", "- type: nofile\n   hard: 5", "- type: ["),
    # These upstream's plugin takes, or leaves to the runtime.
    *("- {type: nofile, hard: 1e3}", "- {type: nofile, hard: 0x10}", "- &a {type: nofile}", "- type: !!str nofile"),
    *("- type: |\n    nofile", "- type: nofile\n---\n- type: core", '[{"type":\t"nofile"}]'),
    "- {type: nofile, hard: 1}\n- {type: NOFILE, hard: 2}",
]


INVOKE = code("ulimit-adjuster")["invoke"]


def event(annotations: dict[str, str]) -> dict[str, Any]:
    """Returns the request of CreateContainer for a pod that may ask for everything."""
    return denied(annotations, allow="everything")


def spec_of(limits: Limits) -> dict[str, Any]:
    return {"process": {"rlimits": [{"type": kind, "hard": hard, "soft": soft} for kind, soft, hard in limits]}}


def test_an_annotation_becomes_the_limits_that_upstream_sets_or_is_refused(subtests: pytest.Subtests) -> None:
    for annotation, limits in CASES.items():
        with subtests.test(annotation):
            assert INVOKE(event({KEY: annotation}))["spec"] == spec_of(limits)
    for annotation in REFUSED:
        with subtests.test(annotation), pytest.raises(ValueError, match=f"annotation {KEY}: "):
            INVOKE(event({KEY: annotation}))


def test_the_newer_key_goes_before_the_older() -> None:
    core: Limits = [("RLIMIT_CORE", 0, 0)]
    for annotated, limits in (
        ({KEY: "[{type: core}]", OLD_KEY: "[{type: cpu}]"}, core),
        ({OLD_KEY: "[{type: core}]"}, core),
        ({KEY: "", OLD_KEY: "[{type: cpu}]"}, []),
        ({KEY: "[{type: core}]", OLD_KEY: "["}, core),
    ):
        assert INVOKE(event(annotated))["spec"] == spec_of(limits), annotated


def test_annotations_of_others_a_pod_without_annotations_and_an_update_do_not_matter() -> None:
    nothing = {"metadata": {"skipped": "no limits are annotated"}}
    for key in ("ulimits.noderesource.dev/pod", "ulimits.noderesource.dev", f"{KEY}2", "other"):
        assert INVOKE(event({key: "["})) == nothing, key
    changes: dict[str, Any]
    for changes in ({"pod": None}, {"pod": {}}, {"container": None}):
        assert INVOKE(event({KEY: "["}) | changes) == nothing, changes
    assert list(run("ulimit-adjuster", sample("update-container-event")).metadata) == ["skipped"]


def test_an_error_is_a_result_without_any_change() -> None:
    answer = run("ulimit-adjuster", event({KEY: "- {type: nofile}\n- {type: core, hard: -1}"}))
    answer.is_error("ulimit-adjuster", f"annotation {KEY}: core: -1 is not a number from 0 to {MOST}")
    answer = run("ulimit-adjuster", event({KEY: "- {type: nofile}\n- {type: core}"}))
    assert answer.metadata == {"adjusted": "RLIMIT_NOFILE RLIMIT_CORE"}
