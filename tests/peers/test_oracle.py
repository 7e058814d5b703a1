"""Our requests against those of the original client (package nri, client.go): the same objects, byte for byte.

The client is fed as upstream's v010-adapter feeds it. Where we differ from that on purpose stands in
tests/legacy/deviations.py; `expected` undoes exactly that on the client's side.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import example, given, settings
from hypothesis import strategies as st

from docs.messages import comments
from nri.proto import nri_pb2 as api
from nri.proto.nri_pb2 import DESCRIPTOR
from v010_adapter.errors import ConfigError
from v010_adapter.legacy import config, request, result

from ..legacy.deviations import DEVIATIONS
from ..rig.brief import few
from .harness import LEGACY_EVENTS, LIFE, PLAIN_ANSWER, POD, Case, Oracle, Outcome, golden, require
from .strategies import broken, conf_texts, containers, pods, result_texts

CONF = b"""{"version": "0.1", "plugins": [
    {"type": "first", "conf": {"n": 1.10, "big": 12345678901234567890, "text": "<&>\\u2028", "again": 1, "again": 2}},
    {"type": "second"},
    {"type": "third", "conf": null}
]}"""
STATES = ("create", "delete")
searched = settings(max_examples=100)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


def messages(case: Case) -> tuple[api.PodSandbox, api.Container | None]:
    container = None if case.container is None else ParseDict(dict(case.container), api.Container())
    return ParseDict(dict(case.pod), api.PodSandbox()), container


def ours(case: Case) -> Outcome:
    """What our bridge makes of a case, without running anything."""
    pod, container = messages(case)
    target = request.of_container(container, pod) if container is not None else request.of_pod(pod)
    requests: list[bytes] = []
    results: list[result.Result] = []
    entries = config.parse(CONF if case.conf is None else case.conf, "conf.json").entries
    for entry in entries:
        requests.append(request.encode(target, case.state, entry, results))
        answer = case.answers.get(entry.type, PLAIN_ANSWER % entry.type.encode())
        try:
            results.append(result.parse(answer))
        except result.ResultError:
            return Outcome([e.type for e in entries[: len(requests)]], requests, f"plugin: {entry.type}: unreadable")
        if results[-1].error:
            error = f"plugin: {entry.type}: {results[-1].error}"
            return Outcome([e.type for e in entries[: len(requests)]], requests, error)
    return Outcome([e.type for e in entries], requests, "")


def expected(case: Case, theirs: Outcome) -> Outcome:
    """What the client did, less what it adds and we do not."""
    pod, container = messages(case)
    resources = (pod if container is None else container).linux.resources
    error = re.sub(
        r"^(plugin: .*?: )failed to unmarshal plugin output.*", r"\1unreadable", theirs.error, flags=re.DOTALL
    )
    return Outcome(theirs.plugins, [without_empty(text, resources) for text in theirs.requests], error)


def without_empty(text: bytes, resources: api.LinuxResources) -> bytes:
    """Take `cpu` and `memory` that the runtime did not fill out of a request's spec."""
    # Nothing behind the key can contain it unescaped; `conf`, in front of it, can.
    head, mark, tail = text.rpartition(b'"spec":{"resources":')
    if not resources.HasField("cpu"):
        tail = tail.replace(b',"cpu":{}', b"", 1)
    if not resources.HasField("memory"):
        tail = re.sub(rb'"memory":\{\},|,?"memory":\{\}', b"", tail, count=1)
    return head + mark + tail


def compare(oracle: Oracle, cases: Sequence[Case]) -> None:
    for case, theirs in zip(cases, oracle.outcomes(cases), strict=True):
        assert ours(case) == expected(case, theirs)


def test_requests_about_recorded_objects_are_the_original_clients_but_for_one_deviation(oracle: Oracle) -> None:
    [deviation] = [each.what for each in DEVIATIONS if each.other == "upstream's v010-adapter"]
    assert "`memory` and `cpu`" in deviation, "`expected` undoes it"
    cases = [(state, each.pod, each.container) for each in few(golden(), 15) for state in STATES]
    compare(oracle, [Case(*case, CONF) for index, case in enumerate(cases) if case not in cases[:index]])


def in_a_life(conf: Path, answers: Mapping[str, bytes]) -> list[Outcome]:
    """What the original client does at the creates and deletes of LIFE, with this conf.json and these plugins."""
    events = [recorded for recorded in LIFE if recorded.event in LEGACY_EVENTS]
    # The runtime leaves the pid out of StopPodSandbox: it is what it was at the create.
    told = [(LEGACY_EVENTS[e.event], {**e.pod, "pid": POD["pid"]}, e.container) for e in events]
    cases = [Case(*each, answers=answers) for each in told]
    with Oracle(conf) as oracle:
        outcomes = [expected(case, outcome) for case, outcome in zip(cases, oracle.outcomes(cases), strict=True)]
    assert len(outcomes) == 4
    return outcomes


@searched
@given(st.lists(st.tuples(pods(), st.none() | containers()), min_size=1, max_size=4), st.sampled_from(STATES))
def test_requests_about_any_object_are_the_original_clients(
    oracle: Oracle, drawn: list[tuple[api.PodSandbox, api.Container | None]], state: str
) -> None:
    def as_dict(drawn: api.PodSandbox | api.Container) -> dict[str, Any]:
        return MessageToDict(drawn, preserving_proto_field_name=True)

    compare(oracle, [Case(state, as_dict(pod), container and as_dict(container), CONF) for pod, container in drawn])


ANY_POD = {"id": "p", "labels": {"a": "b"}}
DEEP = [b'{"ignored":%s}' % (b"[" * depth + b"]" * depth) for depth in (9_998, 9_999, 10_000)]
"""Go's limit is 10 000."""
ODD_RESULTS = [
    *(*DEEP, b"", b"null", b"[]", b"\xef\xbb\xbf{}", b"{} x", b" {} \n", "{}".encode("utf-16")),
    *(b'{"error":null}', b'{"error":"a","Error":""}', b'{"Error":"","error":"a"}', b'{"error":"a \\ud800 b"}'),
    *(b'{"metadata":{"a":null,"b":"1","a":"2"},"METADATA":{"c":""}}', b'{"metadata":{"a":1}}', b'{"version":1}'),
    b'{"state":"create","id":"x","pid":7,"cgroupsPath":"/a"}',
    *(
        rb'{"metadata":{"\ud800":"1","\ufffd":"2"}}',
        b'{"metadata":{"\\ud83d\xed\xb8\x80":"1","\xff":"2","\\udc00":"3"}}',
    ),
    *(
        rb'{"error":"\\ud83d\ude00"}',
        rb'{"error":"\\\ud83d\ude00"}',
        rb'{"error":"\ud83d\ud83d\ude00","x":["\ud83d","\ude00"]}',
    ),
    b'{"ignored":%s,"metadata":{"\\udc00":"NaN"}}' % (b"[" * 9_000 + b"]" * 9_000),
]


@searched
@example(texts=ODD_RESULTS)
@given(texts=st.lists(st.one_of(result_texts(), broken(result_texts())), min_size=1, max_size=8))
def test_results_are_read_as_the_original_client_reads_them(oracle: Oracle, texts: Sequence[bytes]) -> None:
    conf = b'{"plugins": [{"type": "told"}, {"type": "next"}]}'
    compare(oracle, [Case("create", ANY_POD, None, conf, {"told": text}) for text in texts])


@searched
@given(texts=st.lists(st.one_of(conf_texts(), broken(conf_texts())), min_size=1, max_size=8))
def test_configurations_are_read_as_the_original_client_reads_them(oracle: Oracle, texts: Sequence[bytes]) -> None:
    cases = [Case("create", ANY_POD, None, text) for text in texts]
    for case, theirs in zip(cases, oracle.outcomes(cases), strict=True):
        try:
            got = ours(case)
        except ConfigError:
            assert theirs.error, case.conf  # what we refuse, it refuses or fails at
            continue
        if all(re.fullmatch("[a-z]+", name) for name in got.plugins):  # others need not be found by the oracle
            assert got == expected(case, theirs), case.conf


# ---- our messages: names, numbers, types, services

KINDS = {
    number: name.removeprefix("TYPE_").lower() for name, number in vars(FieldDescriptor).items() if name[:5] == "TYPE_"
}


def describe(field: FieldDescriptor) -> dict[str, Any]:
    of = field.message_type or field.enum_type
    return {
        "name": field.name,
        "number": field.number,
        "label": "repeated" if field.is_repeated else "optional",
        "kind": KINDS[field.type],
        "type": of.full_name if of else "",
        "oneof": field.containing_oneof.name if field.containing_oneof else "",
        "map": bool(field.message_type and field.message_type.GetOptions().map_entry),
    }


def with_nested(messages: Iterable[Descriptor]) -> Iterator[Descriptor]:
    for message in messages:
        yield message
        yield from with_nested(message.nested_types)


def test_messages_enums_and_services_are_the_published_ones_field_by_field() -> None:
    told = subprocess.run([require("descriptors")], capture_output=True, text=True, check=True).stdout
    published: dict[str, Any] = json.loads(told)
    theirs = {name: sorted(fields, key=lambda field: field["number"]) for name, fields in published["messages"].items()}
    ours = list(with_nested(DESCRIPTOR.message_types_by_name.values()))
    enums = [*DESCRIPTOR.enum_types_by_name.values(), *(enum for message in ours for enum in message.enum_types)]
    services = {
        service.full_name: {
            m.name: {"input": m.input_type.full_name, "output": m.output_type.full_name} for m in service.methods
        }
        for service in DESCRIPTOR.services_by_name.values()
    }
    assert DESCRIPTOR.package == published["package"]
    assert {m.full_name: sorted(map(describe, m.fields), key=lambda f: f["number"]) for m in ours} == theirs
    assert {e.full_name: {v.name: v.number for v in e.values} for e in enums} == published["enums"]
    assert services == published["services"]
    assert (len(theirs) > 80, len(enums) > 5, len(services[f"{DESCRIPTOR.package}.Plugin"])) == (True, True, 18)


@pytest.mark.ci
@pytest.mark.parametrize(("older", "newer"), [("v0.8.0", "v0.10.0"), ("v0.10.0", "v0.12.0")])
def test_a_field_that_a_version_of_nri_has_added_tells_since_when_it_is_there(older: str, newer: str) -> None:
    """The comment names the version of NRI, or the first runtimes that send the field."""
    told = [
        subprocess.run([require("descriptors", version)], capture_output=True, check=True) for version in (older, newer)
    ]
    before, after = (json.loads(one.stdout)["messages"] for one in told)
    explained = comments()
    for name in ("Container", "LinuxContainer", "ContainerAdjustment", "LinuxContainerAdjustment", "ConfigureRequest"):
        known, there = ({field["name"] for field in of[f"{DESCRIPTOR.package}.{name}"]} for of in (before, after))
        for field in there - known:
            since = r"NRI 0\.1\d|containerd (since|before)|as `finished_at`|if the runtime has"
            assert re.search(since, explained[f"{name}.{field}"]), field
