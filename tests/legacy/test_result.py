"""What plugins print, read as the original client read it. Each verdict was asked of Go (Unmarshal into its Result)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri import api
from nri.runtimes import Runtime
from v010_adapter.base.loop import Loop
from v010_adapter.errors import NotAdjustable
from v010_adapter.legacy import request
from v010_adapter.legacy.answer import AnswerBuilder
from v010_adapter.legacy.create_answer import CreateAnswerBuilder
from v010_adapter.legacy.pending_updates import PendingUpdates
from v010_adapter.legacy.result import CACHED_LENGTH, Result, ResultError, is_complete, parse
from v010_adapter.legacy.update_answer import UpdateAnswerBuilder

from ..oci.edits import ANY
from ..rig.node import a_container, a_pod

OTHER_SHAPE = b'{"plugin":"p","version":"v","state":"create","id":"i","pid":-1,"cgroupsPath":"/a","metadata":{"k":"v"}}'
"""The body that README-v0.1.0 shows."""

GOOD = [
    (b"null", Result()),
    (b"{}", Result()),
    (b'{"plugin":"a","version":"0.1","error":"","metadata":{"x":"y"}}', Result("a", "0.1", "", {"x": "y"})),
    (OTHER_SHAPE, Result("p", "v", "", {"k": "v"}, cgroups_path="/a")),
    (b'{"state":"create","id":"x","pid":7,"cgroupsPath":"/a"}', Result(cgroups_path="/a")),
    # keys without case, the last one counts, null says nothing
    (b'{"error":null}', Result()),
    (b'{"error":"a","Error":""}', Result()),
    (b'{"error":"a","error":null}', Result(error="a")),
    (b'{"plugin":null,"version":null,"metadata":null}', Result()),
    ('{"ver\u017fion":"a"}'.encode(), Result(version="a")),
    ('{"plugin\u017f":"a"}'.encode(), Result()),
    (rb'{"met\u0061data":{"\u0061":"\u0062"}}', Result(metadata={"a": "b"})),
    (rb'{"error":"a \ud800 b"}', Result(error="a \ufffd b")),
    (b'{"error":"\xff"}', Result(error="\ufffd")),
    (rb'{"metadata":{"\ud800":"1","\ufffd":"2","\ude00":"\ud83d"}}', Result(metadata={"\ufffd": "\ufffd"})),
    # metadata: maps of one name are one map
    (b'{"metadata":{"a":null}}', Result(metadata={"a": ""})),
    (b'{"metadata":{"a":"1","a":"2"}}', Result(metadata={"a": "2"})),
    (b'{"metadata":{"a":"1","A":"2"}}', Result(metadata={"a": "1", "A": "2"})),
    (b'{"metadata":{"a":"1"},"Metadata":{"b":"2"}}', Result(metadata={"a": "1", "b": "2"})),
    (b'{"metadata":{"a":"1"},"metadata":null}', Result()),
    (b'{"metadata":{"a":"1"},"metadata":null,"metadata":{"b":"2"}}', Result(metadata={"b": "2"})),
    # unknown keys may hold anything that is JSON
    (b'{"unknown":1e999,"x":{"error":"y","metadata":1}}', Result()),
    (b'{"deep":%s}' % (b"[" * 9_999 + b"]" * 9_999), Result()),
]

BAD = [
    (b"", "no output"),
    (b" \n", "no output"),
    (b"1", "a number, not an object"),
    (b'{"error":"a"', "end"),
    (b"{} x", "column 4: text after"),
    (b"starting\n{}", "unexpected 's'"),
    (b'{"error":1}', "'error' is a number, not a string"),
    (b'{"metadata":[]}', "'metadata' is an array, not an object"),
    (b'{"metadata":{"a":1}}', "'metadata.a' is a number, not a string"),
    (b'{"Metadata":{"a":{"b":"c"}}}', "'Metadata.a' is an object, not a string"),
    (b'{"metadata":{"a":true},"metadata":null}', "'metadata.a' is a boolean"),
    (b'{"deep":%s}' % (b"[" * 10_000 + b"]" * 10_000), "deep"),
]


def test_a_result_is_read_as_go_reads_it(subtests: pytest.Subtests) -> None:
    for output, result in GOOD:
        with subtests.test(repr(output[:99])):
            assert parse(output) == result
            assert is_complete(output)


def test_only_short_results_are_kept() -> None:
    for size, is_kept in ((CACHED_LENGTH, True), (CACHED_LENGTH + 1, False)):
        output = b"{}".ljust(size)
        assert (parse(output) is parse(output)) is is_kept


def test_what_is_no_result_is_an_error_that_says_why(subtests: pytest.Subtests) -> None:
    for output, reason in BAD:
        with subtests.test(repr(output[:99])):
            with pytest.raises(ResultError) as caught:
                parse(output)
            assert reason in str(caught.value)
            assert not is_complete(output)


UNORDERED = Result("p", "0.1", "", {"b": "2", "a": "<é>", "B": ""})
MARSHALLED = (
    (Result(), '{"plugin":"","version":"","error":""}'),
    (Result("p", "0.1"), '{"plugin":"p","version":"0.1","error":""}'),
    (UNORDERED, '{"plugin":"p","version":"0.1","error":"","metadata":{"B":"","a":"\\u003cé\\u003e","b":"2"}}'),
    (Result("\u2028", "&"), r'{"plugin":"\u2028","version":"\u0026","error":""}'),
)


def test_a_result_goes_down_the_chain_as_go_marshals_it() -> None:
    """Keys of maps in the order of their bytes; `error` though it is empty; what else the plugin said is lost."""
    for result, text in MARSHALLED:
        assert result.encode() == text.encode()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


# Wishes: each is taken or refused by name, no other exception, and nothing by half

PARTS = st.sampled_from(["", "annotations", "linux", "process", "mounts", "hooks"])
UPDATES = st.lists(
    st.fixed_dictionaries({}, optional={"id": st.sampled_from(["id", "name", "zz"]), "resources": ANY, "x": ANY}),
    max_size=3,
)
WISHES = st.fixed_dictionaries(
    {},
    optional={
        "spec": st.dictionaries(PARTS, ANY) | ANY,
        "adjust": ANY,
        "updates": UPDATES | ANY,
        "cgroupsPath": ANY,
        "metadata": st.dictionaries(TEXTS, TEXTS, max_size=2),
    },
)


def printed(wishes: dict[str, Any]) -> Result:
    try:
        text = json.dumps(wishes, allow_nan=False)
    except ValueError:
        text = "{}"
    return parse(text.encode())


def container() -> api.Container:
    made = a_container("c1", env=["PATH=/bin", "A=1"], args=["sleep"])
    made.mounts.add(destination="/data", type="bind", source="/srv", options=["ro"])
    made.linux.resources.cpu.shares.value = 5
    return made


def outcomes() -> list[AnswerBuilder]:
    updates = PendingUpdates(Loop())
    updates.existing |= {"id", "name"}
    creation = api.CreateContainerRequest(pod=a_pod(), container=container())
    update = api.UpdateContainerRequest(pod=a_pod(), container=container(), linux_resources=api.LinuxResources())
    target = request.of_container(creation.container, creation.pod)
    return [
        CreateAnswerBuilder("CreateContainer", creation, target, updates, Runtime(nri=(0, 12, 5)), "x/"),
        UpdateAnswerBuilder("UpdateContainer", update, target, updates),
        AnswerBuilder("StopContainer", creation, target, updates),
    ]


@settings(max_examples=600)
@example({"spec": {"annotations": {"a": "1"}}})
@given(WISHES)
def test_a_wish_is_taken_and_can_be_sent_or_is_refused_by_name(wishes: dict[str, Any]) -> None:
    wished = printed(wishes)
    for builder, elsewhere in zip(outcomes(), outcomes(), strict=True):
        before = builder.extension().spec
        try:
            builder.accept("plugin", wished)
        except NotAdjustable:
            assert builder.extension().spec == before
        elsewhere.restore(builder.changes())
        assert elsewhere.extension() == builder.extension()
        json.loads(builder.extension().spec)
        reply = builder.reply()
        assert reply is None or reply.SerializeToString()
