"""Our adjustments through the collector and the generator of every version of NRI.

A change arrives in the container's specification, or the adapter refuses it by name before it is sent; none ends the
runtime. Where the result differs from the specification that was wanted stands in docs/adjusting-containers.md;
`habits` plays this.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from operator import add
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nri.needs import NEEDS, changes
from nri.proto import nri_pb2 as api
from tests.rig.brief import few
from v010_adapter.errors import NotAdjustable
from v010_adapter.oci.fields_by_version import refuse_unknown
from v010_adapter.oci.patch import merged
from v010_adapter.oci.spec import adjustment, apply, spec_from
from v010_adapter.oci.values import Spec

from ..oci.cases import ABSENT, CHANGES, FULL, Path, copied, edited, normal
from ..oci.edits import BAD_EDITS, GOOD_EDITS, SPECS, Edit, after
from ..oci.test_spec import CONTAINER
from .harness import Peer, golden
from .strategies import messages

VERSIONS = few(("v0.8.0", "v0.10.0", "v0.11.0", "v0.12.0", "v0.12.3", "v0.12.5"))
"""Of the runtimes that are in use, and the newest."""


class Generator(Peer):
    """Runtimes' way from plugins' answers to a specification."""

    def __init__(self, version: str) -> None:
        super().__init__("generate", version)
        self.version = tuple(map(int, version.removeprefix("v").split(".")))

    def adjusted(
        self, spec: Spec, *adjustments: api.ContainerAdjustment, container: api.Container | None = None
    ) -> dict[str, Any]:
        case: dict[str, Any] = {"spec": spec, "container": _encoded(container or api.Container())}
        if adjustments:
            case["adjustments"] = [_encoded(each) for each in adjustments]
        return self.ask(case)

    def spec(self, spec: Spec, *adjustments: api.ContainerAdjustment) -> Spec:
        answer = self.adjusted(spec, *adjustments)
        assert not answer.keys() & {"error", "panic"}, answer
        return plain(answer["spec"], spec)

    def known(self, spec: Spec) -> Spec:
        """A specification as far as that of the version's time has it."""
        return plain(self.adjusted(spec)["spec"], spec)


def collected(answer: dict[str, Any]) -> api.ContainerAdjustment:
    return api.ContainerAdjustment.FromString(base64.b64decode(answer["adjustment"]))


def plain(written: Spec, source: Spec) -> Spec:
    """Returns a specification without the members that Go's encoder writes though nobody has set them."""
    result = {key: value for key, value in written.items() if key != "ociVersion" or key in source}
    for key in {"user", "cwd"} - source.get("process", {}).keys():
        result.get("process", {}).pop(key, None)
    return result


def habits(before: Spec, wanted: Spec, adjusted: api.ContainerAdjustment) -> Spec:
    """What runtimes make of an adjustment that should give `wanted`."""
    spec: Spec = copied(wanted)
    linux, resources = adjusted.linux, adjusted.linux.resources
    if adjusted.env:
        last_of_each = dict(entry.split("=", 1) for entry in spec["process"]["env"] if "=" in entry)
        spec["process"]["env"] = [f"{name}={value}" for name, value in last_of_each.items() if name]
    if adjusted.rlimits:
        changed = {rlimit.type for rlimit in adjusted.rlimits}
        old = [rlimit for rlimit in before["process"].get("rlimits", []) if rlimit["type"] in changed]
        spec["process"]["rlimits"] = old + spec["process"]["rlimits"]
    if resources.memory.HasField("limit"):
        spec["linux"]["resources"]["memory"]["swap"] = resources.memory.limit.value
    rules = [_rule(device) for device in linux.devices if not device.path.startswith("-")]
    if rules:
        had = before["linux"].get("resources", {}).get("devices", [])
        now = spec["linux"].setdefault("resources", {}).get("devices", [])
        spec["linux"]["resources"]["devices"] = had + rules + now[len(had) :]
    if linux.HasField("seccomp_policy"):
        spec["linux"]["seccomp"].pop("defaultErrnoRet", None)
    return spec


def _rule(device: api.LinuxDevice) -> Spec:
    access = "rwm" if device.type == "b" else "rw"
    return {"allow": True, "type": device.type, "major": device.major, "minor": device.minor, "access": access}


def _encoded(message: Message) -> str:
    return base64.b64encode(message.SerializeToString()).decode()


EDITS = st.lists(GOOD_EDITS, min_size=1, max_size=6)
ANYTHING = st.builds(add, st.lists(BAD_EDITS, min_size=1, max_size=3), st.lists(GOOD_EDITS, max_size=2))


@pytest.fixture(scope="module")
def generators() -> Iterator[Mapping[str, Generator]]:
    with ExitStack() as stack:
        yield {version: stack.enter_context(Generator(version)) for version in VERSIONS}


@pytest.fixture(scope="module", params=VERSIONS)
def generator(generators: Mapping[str, Generator], request: pytest.FixtureRequest) -> Generator:
    return generators[request.param]


@pytest.fixture(scope="module")
def newest(generators: Mapping[str, Generator]) -> Generator:
    return generators[VERSIONS[-1]]


def is_refused(adjusted: api.ContainerAdjustment, generator: Generator) -> bool:
    try:
        refuse_unknown(adjusted, generator.version)
    except NotAdjustable:
        return True
    return False


def at(spec: Spec, path: Path) -> Any:
    """What stands at the first two steps of a path, where it means anything."""
    first, *rest = path
    found = normal(spec).get(first) or {}
    return found.get(rest[0]) if isinstance(found, dict) and rest else found


def arrives(generator: Generator, path: Path, value: Any, adjusted: api.ContainerAdjustment) -> bool:
    before = generator.known(FULL)
    if at(before, path) != at(FULL, path):
        return False
    answer = generator.adjusted(before, adjusted, container=ParseDict(CONTAINER, api.Container()))
    expected = habits(before, edited(path, value, before), adjusted)
    return answer.keys() == {"spec", "adjustment"} and normal(plain(answer["spec"], before)) == normal(expected)


def test_each_change_arrives_or_is_refused_and_ends_no_runtime(generator: Generator, subtests: pytest.Subtests) -> None:
    for path, value in CHANGES:
        with subtests.test(path=path):
            adjusted = adjustment(FULL, edited(path, value))
            refused = is_refused(adjusted, generator)
            assert arrives(generator, path, value, adjusted) is not refused
            assert refused or "panic" not in generator.adjusted(FULL, adjusted, adjusted)


def test_programs_with_go_types_of_any_time_hand_a_recorded_specification_back_unchanged(generator: Generator) -> None:
    told = [ParseDict(dict(each.container), api.Container()) for each in golden() if each.container]
    assert len(told) > 2
    for spec in (spec_from(container) for container in told):
        returned = merged(spec, generator.adjusted(spec)["spec"])
        assert adjustment(spec, returned) == api.ContainerAdjustment()


BESIDE = {
    "CDIDevices": [{"name": "vendor.com/class=a"}],
    "linux": {"resources": {"blockioClass": {"value": "a"}, "rdtClass": {"value": "b"}}},
}


def test_what_has_no_place_in_a_specification_reaches_the_runtime(generator: Generator) -> None:
    wanted = ParseDict(BESIDE, api.ContainerAdjustment())
    assert not is_refused(wanted, generator)
    found = collected(generator.adjusted({"process": {}, "linux": {}}, wanted))
    assert list(found.CDI_devices) == list(wanted.CDI_devices)
    assert found.linux.resources.blockio_class == wanted.linux.resources.blockio_class
    assert found.linux.resources.rdt_class == wanted.linux.resources.rdt_class


def test_every_field_is_sent_by_some_change_and_every_row_of_the_table_refuses_one() -> None:
    adjustments = [adjustment(FULL, edited(path, value)) for path, value in CHANGES]
    sent = api.ContainerAdjustment()
    for adjusted in (*adjustments, ParseDict(BESIDE, api.ContainerAdjustment())):
        sent.MergeFrom(adjusted)
    for whole in (sent, sent.hooks, sent.linux, sent.linux.resources, sent.linux.resources.cpu, sent.linux.rdt):
        assert {field.name for field, _ in whole.ListFields()} == set(whole.DESCRIPTOR.fields_by_name)
    assert {need.change for need in NEEDS} <= {change for adjusted in adjustments for change, *_ in changes(adjusted)}


@given(before=SPECS, edits=EDITS)
@settings(max_examples=200)
def test_runtimes_make_of_our_adjustment_what_was_wanted_but_for_the_table(
    generator: Generator, before: Spec, edits: list[Edit]
) -> None:
    before = generator.known(before)
    wanted = after(before, edits)
    try:
        adjusted = adjustment(before, wanted)
        refuse_unknown(adjusted, generator.version)
    except NotAdjustable:
        assume(False)
    result = generator.spec(before, adjusted)
    assert normal(result) == normal(habits(before, wanted, adjusted))
    names = [mount["destination"] for mount in result.get("mounts", [])]
    assert not adjusted.mounts or names == sorted(names, key=lambda name: (name.count("/"), name)), "by their depth"


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


@given(container=messages(api.Container, {"Container": {"hooks", "mounts", "env", "args", "rlimits", "user", "linux"}}))
@settings(max_examples=200)
def test_what_nri_tells_is_written_as_go_writes_it(newest: Generator, container: api.Container) -> None:
    spec = spec_from(container)
    assert newest.spec(spec) == spec


@given(before=SPECS, edits=EDITS)
@settings(max_examples=200)
def test_what_go_programs_make_of_a_spec_is_no_difference(newest: Generator, before: Spec, edits: list[Edit]) -> None:
    spec = after(before, edits)
    assert adjustment(spec, newest.adjusted(spec)["spec"]) == api.ContainerAdjustment()


# Two plugins that change the same thing.

RDT = {"closID": "a", "schemata": ["L3:0=1"]}
CURED: list[tuple[Path, Any, Any]] = [
    (("process", "env", 0), "PATH=/a", "PATH=/b"),
    (("process", "args"), ["a"], ["b"]),
    (("mounts", 1, "source"), "/a", "/b"),
    (("mounts", 1), {**FULL["mounts"][1], "source": "/a"}, ABSENT),
    (("linux", "devices", 0, "minor"), 7, 8),
    (("linux", "intelRdt"), RDT, {"enableMonitoring": True}),
    (("linux", "intelRdt"), {"closID": "a"}, ABSENT),
]
FAILING: list[tuple[Path, Any, Any]] = [
    (("annotations", "a"), "2", "3"),
    (("linux", "resources", "memory", "limit"), 1 << 20, 1 << 21),
    (("linux", "cgroupsPath"), "/a", "/b"),
    (("process", "rlimits", 0, "soft"), 1, 2),
    (("linux", "namespaces", 1, "path"), "/a", "/b"),
    (("linux", "seccomp", "defaultAction"), "SCMP_ACT_LOG", "SCMP_ACT_ALLOW"),
]


def test_a_later_change_holds_or_fails_the_container(generator: Generator, subtests: pytest.Subtests) -> None:
    for cases, before in ((CURED, generator.known(FULL)), (FAILING, FULL)):
        for path, first, second in cases:
            earlier, wanted = edited(path, first, before), edited(path, second, before)
            ours = adjustment(earlier, wanted)
            if is_refused(ours, generator):
                continue
            with subtests.test(path=path):
                if cases is CURED:
                    result = generator.spec(before, adjustment(before, earlier), ours)
                    assert normal(result) == normal(habits(before, wanted, ours))
                else:
                    answer = generator.adjusted(before, adjustment(before, earlier), ours)
                    assert "both tried to set" in answer.get("error", ""), answer


# What is simulated: what a runtime makes of what it has collected.


PID, OTHER_PID = {"type": "pid", "path": "/a"}, {"type": "pid", "path": "/b"}
SRV, OTHER_SRV = ({"destination": "/srv", "source": source} for source in ("/a", "/b"))
PAGES, OTHER_PAGES = ({"pageSize": "2MB", "limit": limit} for limit in (1, 2))
NOT_SRV, NEW_SRV = {"destination": "-/srv"}, {"destination": "/srv", "source": "/c"}


def linux(**members: Any) -> dict[str, Any]:
    return {"linux": members}


def pages(*limits: Any) -> dict[str, Any]:
    return linux(resources={"hugepageLimits": list(limits)})


# What stands there twice, or has a mark where NRI knows none.
COLLECTED: list[tuple[Spec, dict[str, Any]]] = [
    ({"process": {"args": ["a"]}}, {"args": ["", "", "x"]}),
    ({"process": {"rlimits": []}}, {"rlimits": [{"type": "-RLIMIT_CORE"}]}),
    (pages(PAGES), pages({"pageSize": "-2MB", "limit": "1"})),
    (pages(PAGES, OTHER_PAGES), pages({"pageSize": "2MB", "limit": "9"})),
    (linux(namespaces=[PID, OTHER_PID]), linux(namespaces=[{"type": "-pid"}])),
    (linux(namespaces=[PID, OTHER_PID]), linux(namespaces=[{"type": "pid", "path": "/c"}])),
    ({"mounts": [SRV, OTHER_SRV]}, {"mounts": [NOT_SRV]}),
    ({"mounts": [SRV, OTHER_SRV]}, {"mounts": [NEW_SRV]}),
    ({"mounts": [SRV]}, {"mounts": [NOT_SRV, NEW_SRV]}),
]


def test_what_is_collected_is_applied_as_the_generator_does_it(newest: Generator) -> None:
    for spec, wanted in COLLECTED:
        whole = {"process": {}, "linux": {}, **spec}
        answer = newest.adjusted(whole, ParseDict(wanted, api.ContainerAdjustment()))
        ours = apply(whole, collected(answer), collected=True)
        assert normal(plain(answer["spec"], whole)) == normal(ours), wanted
