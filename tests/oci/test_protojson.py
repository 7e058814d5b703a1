"""Adjustments in protobuf's JSON: whatever a plugin writes is taken as protobuf takes it, or refused with its place."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import example, given
from hypothesis import strategies as st

from adapter.errors import LONGEST, NotAdjustable
from adapter.oci import protojson
from adapter.oci.spec import adjustment
from adapter.proto import nri_pb2 as api

from .cases import CHANGES, FULL, edited
from .edits import ANY, BAD_EDITS, after

ADJUSTMENTS = [
    MessageToDict(adjustment(FULL, edited(path, value)), preserving_proto_field_name=is_protos)
    for is_protos in (False, True)
    for path, value in CHANGES
]


@example({"annotations": {"a": 5}})
@example({"annotations": {"a": "b"}, "linux": {"netDevices": {"a": {"nmae": "b"}}}})
@given(st.builds(after, st.sampled_from(ADJUSTMENTS), st.lists(BAD_EDITS, max_size=2)) | ANY)
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
