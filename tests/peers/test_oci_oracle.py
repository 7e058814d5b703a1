"""Our adjustments against what NRI and the Go generator make of them.

Where the result differs from the specification that was wanted stands in tests/oci/deviations.py, and nowhere else;
`habits` plays these, and each is shown by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given, settings
from hypothesis import strategies as st

from adapter.oci.spec import adjustment, apply, spec_from
from adapter.oci.values import Spec
from adapter.proto import nri_pb2 as api

from ..oci.cases import FULL, normal
from ..oci.deviations import DEVIATIONS
from ..oci.edits import GOOD_EDITS, SPECS, Edit, after
from ..oci.test_spec import ZEROS_WRITTEN
from .generator import VERSIONS, Generator, collected, plain
from .harness import golden

NEWEST, BEFORE_SYSCTL = VERSIONS[-1], "v0.12.0"
EDITS = st.lists(GOOD_EDITS, min_size=1, max_size=6)


@pytest.fixture(scope="module")
def generator() -> Iterator[Generator]:
    with Generator(NEWEST) as started:
        yield started


@pytest.fixture(scope="module")
def older() -> Iterator[Generator]:
    with Generator(BEFORE_SYSCTL) as started:
        yield started


@given(before=SPECS, edits=EDITS)
@settings(max_examples=200)
def test_what_go_programs_make_of_a_specification_is_no_difference(
    generator: Generator, before: Spec, edits: list[Edit]
) -> None:
    spec = after(before, edits)
    assert adjustment(spec, generator.adjusted(spec)["spec"]) == api.ContainerAdjustment()


def test_specifications_are_written_as_go_writes_them(generator: Generator) -> None:
    told = [ParseDict(dict(each.container), api.Container()) for each in golden() if each.container]
    assert len(told) > 2
    for spec in (FULL, ZEROS_WRITTEN, *(spec_from(api.PodSandbox(), container) for container in told)):
        assert generator.spec(spec) == spec


MARKED_AND_ADDED = [
    api.ContainerAdjustment(annotations={"-a": "", "a": "2"}),
    api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(sysctl={"-a": "", "a": "2"})),
    ParseDict({"linux": {"netDevices": {"-a": {}, "a": {"name": "2"}}}}, api.ContainerAdjustment()),
]


def test_why_maps_are_changed_without_a_removal(generator: Generator) -> None:
    spec: Spec = {"annotations": {"a": "1"}, "linux": {"sysctl": {"a": "1"}, "netDevices": {"a": {"name": "1"}}}}
    for marked in MARKED_AND_ADDED:
        results = [normal(generator.spec(spec, marked)) for _ in range(100)]
        assert normal(apply(spec, marked)) in results
        assert [result for result in results if result != results[0]], marked


# What is simulated: what a runtime makes of what it has collected.


PID, OTHER_PID = {"type": "pid", "path": "/a"}, {"type": "pid", "path": "/b"}
SRV, OTHER_SRV = ({"destination": "/srv", "source": source} for source in ("/a", "/b"))
PAGES, OTHER_PAGES = ({"pageSize": "2MB", "limit": limit} for limit in (1, 2))
# fmt: off
COLLECTED: dict[str, tuple[Spec, dict[str, Any]]] = {
    "a first argument that is empty": ({"process": {"args": ["a"]}}, {"args": ["", "", "x"]}),
    "an rlimit with a mark": ({"process": {"rlimits": []}}, {"rlimits": [{"type": "-RLIMIT_CORE"}]}),
    "huge pages with a mark": ({"linux": {"resources": {"hugepageLimits": [PAGES]}}},
        {"linux": {"resources": {"hugepageLimits": [{"pageSize": "-2MB", "limit": "1"}]}}}),
    "huge pages twice": ({"linux": {"resources": {"hugepageLimits": [PAGES, OTHER_PAGES]}}},
        {"linux": {"resources": {"hugepageLimits": [{"pageSize": "2MB", "limit": "9"}]}}}),
    "a namespace twice, removed": ({"linux": {"namespaces": [PID, OTHER_PID]}},
        {"linux": {"namespaces": [{"type": "-pid"}]}}),
    "a namespace twice, changed": ({"linux": {"namespaces": [PID, OTHER_PID]}},
        {"linux": {"namespaces": [{"type": "pid", "path": "/c"}]}}),
    "a mount twice, removed": ({"mounts": [SRV, OTHER_SRV]}, {"mounts": [{"destination": "-/srv"}]}),
    "a mount twice, changed": ({"mounts": [SRV, OTHER_SRV]}, {"mounts": [{"destination": "/srv", "source": "/c"}]}),
    "a mount removed and added": ({"mounts": [SRV]}, {"mounts": [{"destination": "-/srv"}, {"destination": "/srv",
        "source": "/c"}]}),
}
# fmt: on


def test_what_is_collected_is_applied_as_the_generator_does_it(generator: Generator, subtests: pytest.Subtests) -> None:
    for what, (spec, wanted) in COLLECTED.items():
        with subtests.test(what):
            whole = {"process": {}, "linux": {}, **spec}
            answer = generator.adjusted(whole, ParseDict(wanted, api.ContainerAdjustment()))
            ours = apply(whole, collected(answer), collected=True)
            assert normal(plain(answer["spec"], whole)) == normal(ours)


# The habits, each by itself.


class Habit(NamedTuple):
    """A row of the table: of an adjustment `apply` makes `ours` at `place`, and runtimes `theirs`."""

    place: str
    spec: Spec
    adjustment: dict[str, Any]
    ours: Any
    theirs: Any


def env(*entries: str) -> Spec:
    return {"process": {"env": list(entries)}, "linux": {}}


def linux(**members: Any) -> dict[str, Any]:
    return {"linux": members}


SYSCTLS = {"annotations": {"a": "1"}, "linux": {"sysctl": {"a": "1", "b": "2"}}}
ANOTHER = {"env": [{"key": "B", "value": "2"}]}
OLD, NEW = ({"type": "RLIMIT_CORE", "hard": 9, "soft": soft} for soft in (1, 2))
FIRST, CHANGED = ({"path": "/dev/a", "type": "b", "major": 1, "minor": minor} for minor in (1, 2))
OTHER = {"path": "/dev/b", "type": "c", "major": 1, "minor": 2}
RULE = {"allow": True, "type": "b", "major": 1, "minor": 2, "access": "rwm"}
MOUNTS = [{"destination": name} for name in ("/b/c", "/b", "/a")]
LATER = {"destination": "/0"}
POLICY = {"defaultAction": "SCMP_ACT_LOG"}
CAPITAL = {"defaultErrno": {"value": 1}, **POLICY}
# fmt: off
HABITS = [
    Habit("annotations", SYSCTLS, linux(sysctl={"-a": ""}), {"a": "1"}, None),
    Habit("linux.sysctl", SYSCTLS, linux(sysctl={"-a": ""}), {"b": "2"}, {"a": "1", "b": "2"}),
    Habit("process.env", env("A", "=a"), ANOTHER, ["A", "=a", "B=2"], ["B=2"]),
    Habit("process.env", env("A=1", "C=", "A=2"), ANOTHER, ["A=1", "C=", "A=2", "B=2"], ["A=2", "C=", "B=2"]),
    Habit("process.env", env("A=1", "A=2"), {"env": [{"key": "-A"}, {"key": "A", "value": "3"}]}, ["A=3"], ["A=2"]),
    Habit("process.env", env("A=1", "B=2"), {"env": [{"key": "-A"}]}, ["B=2"], ["A=1", "B=2"]),
    Habit("process.rlimits", {"process": {"rlimits": [OLD]}}, {"rlimits": [NEW]}, [NEW], [OLD, NEW]),
    Habit("mounts", {"mounts": MOUNTS}, {"mounts": [LATER]}, [*MOUNTS, LATER], [LATER, MOUNTS[2], MOUNTS[1],
        MOUNTS[0]]),
    Habit("linux.devices", {"linux": {"devices": [FIRST]}}, linux(devices=[{"path": "-/dev/a"}]), None, [FIRST]),
    Habit("linux.devices", {"linux": {"devices": [FIRST, OTHER]}}, linux(devices=[CHANGED]), [CHANGED, OTHER], [OTHER,
        CHANGED]),
    Habit("linux.devices", {"linux": {"devices": [FIRST, OTHER, FIRST]}}, linux(devices=[CHANGED]), [CHANGED, OTHER,
        FIRST], [OTHER, CHANGED]),
    Habit("linux.resources.devices", {"linux": {"resources": {}}}, linux(devices=[CHANGED]), None, [RULE]),
    Habit("linux.resources.memory.swap", {"linux": {"resources": {}}},
        linux(resources={"memory": {"limit": {"value": 5}}}), None, 5),
    Habit("linux.resources.memory", {"linux": {"resources": {}}},
        linux(resources={"memory": {"swappiness": {"value": 5}}}), {"swappiness": 5}, None),
    Habit("linux.seccomp", {"linux": {}}, linux(seccompPolicy=CAPITAL), {**POLICY, "defaultErrnoRet": 1}, POLICY),
    Habit("linux.intelRdt", {"linux": {"intelRdt": {"closID": "a"}}}, linux(rdt={"remove": True,
        "enableMonitoring": {"value": True}}), {"enableMonitoring": True}, {"closID": "a", "enableMonitoring": True}),
]
# fmt: on


def at(spec: Spec, place: str) -> Any:
    found: Any = spec
    for key in place.split("."):
        found = (found or {}).get(key)
    return found or None


def test_the_habits_are_as_the_table_has_them(
    generator: Generator, older: Generator, subtests: pytest.Subtests
) -> None:
    for number, habit in enumerate(HABITS):
        with subtests.test(habit.place, number=number):
            message = ParseDict(habit.adjustment, api.ContainerAdjustment())
            assert at(apply(habit.spec, message), habit.place) == habit.ours
            assert at(older.spec(habit.spec, message), habit.place) == habit.theirs
            newer = at(generator.spec(habit.spec, message), habit.place)
            assert newer == (habit.ours if habit.spec is SYSCTLS else habit.theirs)


def test_a_mount_that_propagates_changes_the_root_s_propagation_where_its_source_is_shared(
    generator: Generator,
) -> None:
    mount = api.Mount(destination="/a", type="bind", source="/nonexistent", options=["rbind", "rslave"])
    answer = generator.adjusted({"linux": {}}, api.ContainerAdjustment(mounts=[mount]))
    assert "failed to adjust mounts" in answer["error"]


def test_every_row_of_the_table_is_shown() -> None:
    shown = [habit.place for habit in HABITS] + ["annotations", "linux.rootfsPropagation"]
    assert sorted(shown) == sorted(deviation.place for deviation in DEVIATIONS)
