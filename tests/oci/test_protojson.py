"""Adjustments in protobuf's JSON: whatever a plugin writes is taken as protobuf takes it, or refused with its place."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict
from hypothesis import example, given
from hypothesis import strategies as st

from adapter.errors import LONGEST, NotAdjustable
from adapter.oci import protojson
from adapter.proto import nri_pb2 as api

Values = st.SearchStrategy[Any]

ODD: Values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 65), 1 << 65),
    st.floats(),
    st.sampled_from(["", "7", "-1", "1e3", "1.5", "true", "IOPRIO_CLASS_RT", "ä"]),
    st.lists(st.none(), max_size=1),
    st.dictionaries(st.sampled_from(["value", "x"]), st.integers(0, 2), max_size=1),
)


def messages(kind: Descriptor) -> Values:
    """Objects for a message: fields of either name with what belongs there or not, and now and then an unknown one."""
    fields = {name: field for field in kind.fields for name in (field.name, field.json_name)}
    known = st.sampled_from(sorted(fields)).flatmap(lambda name: st.tuples(st.just(name), of_field(fields[name])))
    return st.lists(st.one_of(known, known, st.tuples(st.just("unknwon"), ODD)), max_size=2).map(dict)


def of_field(field: FieldDescriptor) -> Values:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        value = of_value(kind.fields_by_name["value"])
        return st.one_of(st.dictionaries(st.sampled_from(["a", "-b", "c d"]), value, max_size=2), ODD)
    if field.is_repeated:
        return st.one_of(st.lists(of_value(field), max_size=2), ODD)
    return of_value(field)


def of_value(field: FieldDescriptor) -> Values:
    kind = field.message_type
    return ODD if kind is None else st.one_of(st.deferred(lambda: messages(kind)), ODD)


@example({"annotations": {"a": 5}})
@example({"annotations": {"a": "b"}, "linux": {"netDevices": {"a": {"nmae": "b"}}}})
@given(messages(api.ContainerAdjustment.DESCRIPTOR))
def test_an_adjustment_is_taken_or_refused_with_its_place_in_words_of_ours(value: Any) -> None:
    try:
        taken = protojson.parse(value, "adjust")
    except NotAdjustable as refused:
        assert str(refused).startswith(("adjust", "linux.resources."))  # noqa: PT017 - to be taken is as good
        assert not any(words in str(refused) for words in ("parse", "nri.pkg.api", "expected"))  # noqa: PT017
    else:
        assert taken == ParseDict(value, api.ContainerAdjustment())


def test_a_long_unknown_key_is_compared_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte would keep the event loop for a second."""
    compared: list[str] = []

    def compare(word: str, *_: object, **__: object) -> list[str]:
        compared.append(word)
        return []

    monkeypatch.setattr(difflib, "get_close_matches", compare)
    for length in (LONGEST, LONGEST + 1):
        with pytest.raises(NotAdjustable, match="unknown; known: annotations, "):
            protojson.parse({"x" * length: 1}, "adjust")
    assert compared == ["x" * LONGEST]
