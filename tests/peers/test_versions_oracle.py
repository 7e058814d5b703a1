"""Every place that an adjustment can have, through the collector and the generator of every version of NRI.

A change arrives in the container's specification, or the adapter refuses it by name before it is sent. None ends the
runtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import add
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adapter.errors import NotAdjustable
from adapter.oci.fields_by_version import NEEDS, refuse_unknown
from adapter.oci.patch import merged
from adapter.oci.spec import HOOKS, adjustment, resources_to, spec_from
from adapter.oci.values import Spec
from adapter.proto import nri_pb2 as api

from ..oci.cases import ABSENT, FULL, Path, edited, normal
from ..oci.edits import BAD_EDITS, GOOD_EDITS, SPECS, Edit, after
from ..oci.test_difference import EXPRESSED
from ..oci.test_spec import CONTAINER
from .generator import VERSIONS, Generator, collected, habits, plain
from .harness import golden

EDITS = st.lists(GOOD_EDITS, min_size=1, max_size=6)
POLICY = {"defaultAction": "SCMP_ACT_LOG", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]}
# fmt: off
CASES: dict[str, tuple[Path, Any]] = {
    **{name: (path, value) for name, (path, value, _) in EXPRESSED.items()},
    "a sysctl added": (("linux", "sysctl", "kernel.msgmax"), "1"),
    "a seccomp policy without an error number": (("linux", "seccomp"), POLICY),
    "a seccomp policy with everything": (("linux", "seccomp"), {"defaultAction": "SCMP_ACT_NOTIFY",
        "architectures": ["SCMP_ARCH_X86"], "flags": ["SECCOMP_FILTER_FLAG_LOG"], "listenerPath": "/a",
        "listenerMetadata": "b", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_LOG", "args": [{"index": 1,
        "value": 2, "valueTwo": 3, "op": "SCMP_CMP_MASKED_EQ"}]}]}),
    "a scheduler with everything": (("process", "scheduler"), {"policy": "SCHED_DEADLINE", "nice": 1, "priority": 2,
        "runtime": 3, "deadline": 4, "period": 5}),
    "a device with its owner": (("linux", "devices", 1), {"path": "/dev/b", "type": "c", "major": 1, "minor": 2,
        "fileMode": 3, "uid": 4, "gid": 5}),
    "a device rule with everything": (("linux", "resources", "devices", 2), {"allow": True, "type": "c", "major": 1,
        "minor": 2, "access": "rw"}),
    "an I/O priority with everything": (("process", "ioPriority"), {"class": "IOPRIO_CLASS_RT", "priority": 1}),
    "more pids": (("linux", "resources", "pids", "limit"), 1),
    "RDT with everything": (("linux", "intelRdt"), {"closID": "b", "schemata": ["L3:0=1"], "enableMonitoring": False}),
    "a hook with a variable": (("hooks", "createRuntime", 1), {"path": "/a", "env": ["A=1"]}),
    **{f"a hook at {stage}": (("hooks", stage), [{"path": "/a", "args": ["a"], "env": ["A=1"],
        "timeout": 1}]) for stage in HOOKS if stage != "createRuntime"},
}
# fmt: on
"""Changes of FULL: each place with every part that it can have."""


@pytest.fixture(scope="module", params=VERSIONS)
def generator(request: pytest.FixtureRequest) -> Iterator[Generator]:
    with Generator(request.param) as started:
        yield started


def refused(adjusted: api.ContainerAdjustment, generator: Generator) -> bool:
    try:
        refuse_unknown(adjusted, generator.version)
    except NotAdjustable:
        return True
    return False


def known(generator: Generator, spec: Spec = FULL) -> Spec:
    """A specification as far as that of the time has it."""
    return plain(generator.adjusted(spec)["spec"], spec)


def at(spec: Spec, path: Path) -> Any:
    """What stands at the first two steps of a path, where it means anything."""
    first, *rest = path
    found = normal(spec).get(first) or {}
    return found.get(rest[0]) if isinstance(found, dict) and rest else found


def arrives(generator: Generator, path: Path, value: Any, adjusted: api.ContainerAdjustment) -> bool:
    before = known(generator)
    if at(before, path) != at(FULL, path):
        return False
    answer = generator.adjusted(before, adjusted, container=ParseDict(CONTAINER, api.Container()))
    expected = habits(before, edited(path, value, before), adjusted)
    return answer.keys() == {"spec", "adjustment"} and normal(plain(answer["spec"], before)) == normal(expected)


def test_each_change_arrives_where_it_is_not_refused_and_nowhere_else_and_twice_ends_no_runtime(
    generator: Generator, subtests: pytest.Subtests
) -> None:
    for what, (path, value) in CASES.items():
        with subtests.test(what):
            adjusted = adjustment(FULL, edited(path, value))
            is_refused = refused(adjusted, generator)
            assert arrives(generator, path, value, adjusted) is not is_refused
            assert is_refused or "panic" not in generator.adjusted(FULL, adjusted, adjusted)


def test_every_row_of_the_table_refuses_something() -> None:
    rows = set()
    for path, value in CASES.values():
        adjusted = adjustment(FULL, edited(path, value))
        rows |= {need for need in NEEDS if list(need.places(adjusted))}
    assert rows == set(NEEDS)


def test_programs_with_the_go_types_of_any_time_hand_a_recorded_specification_back_unchanged(
    generator: Generator,
) -> None:
    for recorded in golden():
        if recorded.container:
            spec = spec_from(api.PodSandbox(), ParseDict(dict(recorded.container), api.Container()))
            returned = merged(spec, generator.adjusted(spec)["spec"])
            assert (str(recorded), adjustment(spec, returned)) == (str(recorded), api.ContainerAdjustment())


BESIDE = {
    "CDIDevices": [{"name": "vendor.com/class=a"}],
    "linux": {"resources": {"blockioClass": {"value": "a"}, "rdtClass": {"value": "b"}}},
}


def test_what_has_no_place_in_a_specification_reaches_the_runtime(generator: Generator) -> None:
    wanted = ParseDict(BESIDE, api.ContainerAdjustment())
    refuse_unknown(wanted, generator.version)
    found = collected(generator.adjusted({"process": {}, "linux": {}}, wanted))
    assert list(found.CDI_devices) == list(wanted.CDI_devices)
    assert found.linux.resources.blockio_class == wanted.linux.resources.blockio_class
    assert found.linux.resources.rdt_class == wanted.linux.resources.rdt_class


NEVER_SENT = {
    f"linux.resources.memory.{name}"
    for name in ("reservation", "kernel", "kernel_tcp", "swappiness", "disable_oom_killer", "use_hierarchy")
}


def is_value(field: FieldDescriptor) -> bool:
    inner = field.message_type
    return inner is None or inner.name.startswith("Optional") or inner.GetOptions().map_entry


def fields_of(kind: Any) -> set[str]:
    """The names of all that a message can hold, with those of the messages in it."""
    found = set()
    for field in kind.fields:
        found |= {field.name} if is_value(field) else {f"{field.name}.{name}" for name in fields_of(field.message_type)}
    return found


def fields_in(message: Message) -> Iterator[str]:
    """The names of all that a message does hold."""
    for field, value in message.ListFields():
        if is_value(field):
            yield field.name
        else:
            for one in value if field.is_repeated else [value]:
                yield from (f"{field.name}.{name}" for name in fields_in(one))


def test_every_field_of_an_adjustment_is_sent_by_some_case() -> None:
    sent = set(fields_in(ParseDict(BESIDE, api.ContainerAdjustment())))
    for path, value in CASES.values():
        sent |= set(fields_in(adjustment(FULL, edited(path, value))))
    assert fields_of(api.ContainerAdjustment.DESCRIPTOR) - sent == NEVER_SENT


@given(before=SPECS, edits=EDITS)
@settings(max_examples=200)
def test_runtimes_make_of_our_adjustment_what_was_wanted_but_for_the_table(
    generator: Generator, before: Spec, edits: list[Edit]
) -> None:
    before = known(generator, before)
    wanted = after(before, edits)
    try:
        adjusted = adjustment(before, wanted)
        refuse_unknown(adjusted, generator.version)
    except NotAdjustable:
        assume(False)
    result = generator.spec(before, adjusted)
    assert normal(result) == normal(habits(before, wanted, adjusted))
    if adjusted.mounts:
        assert result.get("mounts", []) == depth_first(result.get("mounts", []))


def depth_first(mounts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """As the generator sorts: the root has as many separators as /a."""
    return sorted(mounts, key=lambda mount: (mount["destination"].count("/"), mount["destination"]))


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


def test_a_later_change_of_the_same_thing_holds(generator: Generator, subtests: pytest.Subtests) -> None:
    before = known(generator)
    for what, (path, first, second) in CURED.items():
        earlier, wanted = edited(path, first, before), edited(path, second, before)
        ours = adjustment(earlier, wanted)
        if not refused(ours, generator):
            with subtests.test(what):
                result = generator.spec(before, adjustment(before, earlier), ours)
                assert normal(result) == normal(habits(before, wanted, ours))


def test_a_later_change_of_the_same_thing_fails_the_container_rather_than_being_lost(
    generator: Generator, subtests: pytest.Subtests
) -> None:
    for what, (path, first, second) in FAILING.items():
        earlier, wanted = edited(path, first), edited(path, second)
        ours = adjustment(earlier, wanted)
        if not refused(ours, generator):
            with subtests.test(what):
                answer = generator.adjusted(FULL, adjustment(FULL, earlier), ours)
                assert "both tried to set" in answer.get("error", ""), answer


ANYTHING = st.builds(add, st.lists(BAD_EDITS, min_size=1, max_size=3), st.lists(GOOD_EDITS, max_size=2))
EMPTY: Spec = {"process": {}, "linux": {}}


@given(before=st.sampled_from([FULL, EMPTY]), edits=ANYTHING, told=st.booleans())
@settings(max_examples=200)
def test_nothing_that_is_sent_ends_a_runtime(generator: Generator, before: Spec, edits: list[Edit], told: bool) -> None:
    try:
        adjusted = adjustment(before, after(before, edits))
        refuse_unknown(adjusted, generator.version)
    except NotAdjustable:
        return
    container = ParseDict(CONTAINER, api.Container()) if told else None
    assert "panic" not in generator.adjusted(before, adjusted, adjusted, container=container)


@pytest.fixture(scope="module")
def newest() -> Iterator[Generator]:
    with Generator(VERSIONS[-1]) as started:
        yield started


@given(edits=EDITS, later=EDITS, other=st.booleans())
@settings(max_examples=100)
def test_updates_come_to_the_same_at_every_version(
    generator: Generator, newest: Generator, edits: list[Edit], later: list[Edit], other: bool
) -> None:
    request = api.UpdateContainerRequest(container=api.Container(id="a"), linux_resources=update(FULL, edits))
    answers = [answer("b" if other else "a", update(FULL, wish)) for wish in (edits, later)]
    assert generator.update(request, *answers) == newest.update(request, *answers)


def answer(id_: str, resources: api.LinuxResources) -> api.UpdateContainerResponse:
    wanted = api.ContainerUpdate(container_id=id_, ignore_failure=True)
    wanted.linux.resources.CopyFrom(resources)
    return api.UpdateContainerResponse(update=[wanted])


def update(spec: Spec, edits: list[Edit]) -> api.LinuxResources:
    before, wanted = (each["linux"]["resources"] for each in (spec, after(spec, edits)))
    try:
        return resources_to(before, wanted)
    except NotAdjustable:
        assume(False)
        raise
