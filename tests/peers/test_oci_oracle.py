"""Our adjustments against what NRI and the Go generator make of them.

Where the result differs from the specification that was wanted stands in adapter.oci.DEVIATIONS, and nowhere else;
`habits` plays these, and each is shown by itself.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from adapter.errors import NotAdjustable
from adapter.oci import DEVIATIONS, Spec, adjustment, apply, spec_from
from adapter.proto import nri_pb2 as api

from ..oci.cases import ABSENT, FULL, copied, edited, normal
from ..oci.edits import GOOD_EDITS, SPECS, Edit, after
from ..oci.test_spec import ZEROS_WRITTEN
from .harness import GOLDEN, require

NEWEST, BEFORE_SYSCTL = "generate-v0.12.5", "generate-v0.12.0"
fuzzed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
EDITS = st.lists(GOOD_EDITS, min_size=1, max_size=6)


class Generator:
    """Runtimes' way from plugins' adjustments to a specification, in a process of its own."""

    def __init__(self, version: str) -> None:
        command = [require("generate", version)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def ask(self, spec: Spec, *adjustments: api.ContainerAdjustment) -> dict[str, Any]:
        """Return what cmd/generate/main.go says to the adjustments of as many plugins."""
        assert self._process.stdin
        assert self._process.stdout
        case: dict[str, Any] = {"spec": spec}
        if adjustments:
            case["adjustments"] = [MessageToDict(each) for each in adjustments]
        print(json.dumps(case), file=self._process.stdin)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def spec(self, spec: Spec, *adjustments: api.ContainerAdjustment) -> Spec:
        """Return the specification that comes out, without what Go's encoder always writes."""
        answer = self.ask(spec, *adjustments)
        assert "error" not in answer, answer["error"]
        return plain(answer["spec"], spec)


def plain(written: Spec, source: Spec) -> Spec:
    """Returns a specification without the members that Go's encoder writes though nobody has set them."""
    result = dict(written)
    process = result.get("process", {})
    for target, origin, key in (
        (result, source, "ociVersion"),
        *((process, source.get("process", {}), k) for k in USER),
    ):
        if key not in origin:
            target.pop(key, None)
    return result


USER = ("user", "cwd")


@pytest.fixture(scope="module")
def generator() -> Iterator[Generator]:
    started = Generator(NEWEST)
    yield started
    started.close()


@pytest.fixture(scope="module")
def older() -> Iterator[Generator]:
    started = Generator(BEFORE_SYSCTL)
    yield started
    started.close()


def habits(before: Spec, wanted: Spec, adjusted: api.ContainerAdjustment) -> Spec:
    """What runtimes make of an adjustment that should give `wanted`."""
    spec: Spec = copied(wanted)
    linux, resources = adjusted.linux, adjusted.linux.resources
    if adjusted.env:
        spec["process"]["env"] = last_of_each(spec["process"]["env"])
    if adjusted.rlimits:
        changed = {rlimit.type for rlimit in adjusted.rlimits}
        old = [rlimit for rlimit in before["process"].get("rlimits", []) if rlimit["type"] in changed]
        spec["process"]["rlimits"] = old + spec["process"]["rlimits"]
    if resources.memory.HasField("limit"):
        spec["linux"]["resources"]["memory"]["swap"] = resources.memory.limit.value
    rules = [rule(device) for device in linux.devices if not device.path.startswith("-")]
    if rules:
        had = before["linux"].get("resources", {}).get("devices", [])
        now = spec["linux"].setdefault("resources", {}).get("devices", [])
        spec["linux"]["resources"]["devices"] = had + rules + now[len(had) :]
    if linux.HasField("seccomp_policy"):
        spec["linux"]["seccomp"].pop("defaultErrnoRet", None)
    return spec


def last_of_each(env: Sequence[str]) -> list[str]:
    return [f"{name}={value}" for name, value in dict(e.split("=", 1) for e in env if "=" in e).items() if name]


def rule(device: api.LinuxDevice) -> Spec:
    access = "rwm" if device.type == "b" else "rw"
    return {"allow": True, "type": device.type, "major": device.major, "minor": device.minor, "access": access}


def depth_first(mounts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """As the generator sorts: the root has as many separators as /a."""
    return sorted(mounts, key=lambda mount: (mount["destination"].count("/"), mount["destination"]))


@given(before=SPECS, edits=EDITS)
@settings(parent=fuzzed, max_examples=700)
def test_runtimes_make_of_our_adjustment_what_was_wanted_but_for_the_table(
    generator: Generator, before: Spec, edits: list[Edit]
) -> None:
    wanted = after(before, edits)
    try:
        adjusted = adjustment(before, wanted)
    except NotAdjustable:
        assume(False)
    result = generator.spec(before, adjusted)
    assert normal(result) == normal(habits(before, wanted, adjusted))
    if adjusted.mounts:
        assert result.get("mounts", []) == depth_first(result.get("mounts", []))


@given(before=SPECS, edits=EDITS)
@settings(parent=fuzzed, max_examples=200)
def test_what_go_programs_make_of_a_specification_is_no_difference(
    generator: Generator, before: Spec, edits: list[Edit]
) -> None:
    spec = after(before, edits)
    assert adjustment(spec, generator.ask(spec)["spec"]) == api.ContainerAdjustment()


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/events-one-pod.jsonl")), ids=lambda path: path.parent.name)
def test_specifications_are_written_as_go_writes_them(generator: Generator, path: Path) -> None:
    specs: list[Spec] = [FULL, ZEROS_WRITTEN]
    for line in path.read_text().splitlines():
        event = json.loads(line)
        if event["container"]:
            told = ParseDict(event["container"], api.Container(), ignore_unknown_fields=True)
            specs.append(spec_from(api.PodSandbox(), told))
    assert len(specs) > 2
    for spec in specs:
        assert generator.spec(spec) == spec


# Two plugins that change the same thing.


CURED = {
    "a variable": (("process", "env", 0), "PATH=/a", "PATH=/b"),
    "arguments": (("process", "args"), ["a"], ["b"]),
    "a mount": (("mounts", 1, "source"), "/a", "/b"),
    "a device": (("linux", "devices", 0, "minor"), 7, 8),
    "RDT": (("linux", "intelRdt"), {"closID": "a", "schemata": ["L3:0=1"]}, {"enableMonitoring": True}),
    "no RDT": (("linux", "intelRdt"), {"closID": "a"}, ABSENT),
    "a mount that goes": (("mounts", 1), {**FULL["mounts"][1], "source": "/a"}, ABSENT),
}
FAILING = {
    "an annotation": (("annotations", "a"), "2", "3"),
    "a sysctl": (("linux", "sysctl", "net.core.somaxconn"), "1", "2"),
    "a network device": (("linux", "netDevices", "eth0", "name"), "a", "b"),
    "the memory limit": (("linux", "resources", "memory", "limit"), 1 << 20, 1 << 21),
    "the cgroup": (("linux", "cgroupsPath"), "/a", "/b"),
    "the OOM score": (("process", "oomScoreAdj"), 1, 2),
    "an rlimit": (("process", "rlimits", 0, "soft"), 1, 2),
    "a namespace": (("linux", "namespaces", 1, "path"), "/a", "/b"),
    "seccomp": (("linux", "seccomp", "defaultAction"), "SCMP_ACT_LOG", "SCMP_ACT_ALLOW"),
}


@pytest.mark.parametrize(("path", "first", "second"), CURED.values(), ids=CURED)
def test_a_later_change_of_the_same_thing_holds(generator: Generator, path: Any, first: Any, second: Any) -> None:
    earlier, wanted = edited(path, first), edited(path, second)
    ours = adjustment(earlier, wanted)
    result = generator.spec(FULL, adjustment(FULL, earlier), ours)
    expected = habits(FULL, wanted, ours)
    assert normal(result) == normal(expected)


@pytest.mark.parametrize(("path", "first", "second"), FAILING.values(), ids=FAILING)
def test_a_later_change_of_the_same_thing_fails_the_container_rather_than_being_lost(
    generator: Generator, path: Any, first: Any, second: Any
) -> None:
    earlier, wanted = edited(path, first), edited(path, second)
    answer = generator.ask(FULL, adjustment(FULL, earlier), adjustment(earlier, wanted))
    assert "both tried to set" in answer.get("error", ""), answer


MARKED_AND_ADDED = [
    api.ContainerAdjustment(annotations={"-a": "", "a": "2"}),
    api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(sysctl={"-a": "", "a": "2"})),
    ParseDict({"linux": {"netDevices": {"-a": {}, "a": {"name": "2"}}}}, api.ContainerAdjustment()),
]


@pytest.mark.parametrize("marked", MARKED_AND_ADDED, ids=["annotation", "sysctl", "network device"])
def test_why_maps_are_changed_without_a_removal(generator: Generator, marked: api.ContainerAdjustment) -> None:
    spec: Spec = {"annotations": {"a": "1"}, "linux": {"sysctl": {"a": "1"}, "netDevices": {"a": {"name": "1"}}}}
    results = [normal(generator.spec(spec, marked)) for _ in range(100)]
    assert normal(apply(spec, marked)) in results
    assert [result for result in results if result != results[0]]


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
HABITS = [
    Habit("annotations", SYSCTLS, linux(sysctl={"-a": ""}), {"a": "1"}, None),
    Habit("linux.sysctl", SYSCTLS, linux(sysctl={"-a": ""}), {"b": "2"}, {"a": "1", "b": "2"}),
    Habit("process.env", env("A", "=a"), ANOTHER, ["A", "=a", "B=2"], ["B=2"]),
    Habit("process.env", env("A=1", "C=", "A=2"), ANOTHER, ["A=1", "C=", "A=2", "B=2"], ["A=2", "C=", "B=2"]),
    Habit(
        "process.env",
        env("A=1", "A=2"),
        {"env": [{"key": "-A"}, {"key": "A", "value": "3"}]},
        ["A=3"],
        ["A=2"],
    ),
    Habit("process.env", env("A=1", "B=2"), {"env": [{"key": "-A"}]}, ["B=2"], ["A=1", "B=2"]),
    Habit("process.rlimits", {"process": {"rlimits": [OLD]}}, {"rlimits": [NEW]}, [NEW], [OLD, NEW]),
    Habit(
        "mounts",
        {"mounts": MOUNTS},
        {"mounts": [LATER]},
        [*MOUNTS, LATER],
        [LATER, MOUNTS[2], MOUNTS[1], MOUNTS[0]],
    ),
    Habit("linux.devices", {"linux": {"devices": [FIRST]}}, linux(devices=[{"path": "-/dev/a"}]), None, [FIRST]),
    Habit(
        "linux.devices",
        {"linux": {"devices": [FIRST, OTHER]}},
        linux(devices=[CHANGED]),
        [CHANGED, OTHER],
        [OTHER, CHANGED],
    ),
    Habit("linux.resources.devices", {"linux": {"resources": {}}}, linux(devices=[CHANGED]), None, [RULE]),
    Habit(
        "linux.resources.memory.swap",
        {"linux": {"resources": {}}},
        linux(resources={"memory": {"limit": {"value": 5}}}),
        None,
        5,
    ),
    Habit(
        "linux.resources.memory",
        {"linux": {"resources": {}}},
        linux(resources={"memory": {"swappiness": {"value": 5}}}),
        {"swappiness": 5},
        None,
    ),
    Habit(
        "linux.seccomp",
        {"linux": {}},
        linux(seccompPolicy=CAPITAL),
        {**POLICY, "defaultErrnoRet": 1},
        POLICY,
    ),
    Habit(
        "linux.intelRdt",
        {"linux": {"intelRdt": {"closID": "a"}}},
        linux(rdt={"remove": True, "enableMonitoring": {"value": True}}),
        {"enableMonitoring": True},
        {"closID": "a", "enableMonitoring": True},
    ),
]


def at(spec: Spec, place: str) -> Any:
    found: Any = spec
    for key in place.split("."):
        found = (found or {}).get(key)
    return found or None


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.place)
def test_the_habits_are_as_the_table_has_them(generator: Generator, older: Generator, habit: Habit) -> None:
    message = ParseDict(habit.adjustment, api.ContainerAdjustment())
    assert at(apply(habit.spec, message), habit.place) == habit.ours
    assert at(older.spec(habit.spec, message), habit.place) == habit.theirs
    newer = at(generator.spec(habit.spec, message), habit.place)
    assert newer == (habit.ours if habit.spec is SYSCTLS else habit.theirs)


def test_a_mount_that_propagates_changes_the_root_s_propagation_where_its_source_is_shared(
    generator: Generator,
) -> None:
    mount = api.Mount(destination="/a", type="bind", source="/nonexistent", options=["rbind", "rslave"])
    answer = generator.ask({"linux": {}}, api.ContainerAdjustment(mounts=[mount]))
    assert "failed to adjust mounts" in answer["error"]


def test_every_row_of_the_table_is_shown() -> None:
    shown = [habit.place for habit in HABITS] + ["annotations", "linux.rootfsPropagation"]
    assert sorted(shown) == sorted(deviation.place for deviation in DEVIATIONS)
