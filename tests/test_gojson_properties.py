"""Properties of the JSON reader: it agrees with Python's wherever Python's means the same, and never surprises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapter.base import gojson

quick = settings(deadline=None, max_examples=100)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
TREES = st.recursive(SCALARS, lambda of: st.one_of(st.lists(of), st.dictionaries(st.text(), of)), max_leaves=20)
SPACES = st.sampled_from([b"", b"", b" ", b"\n", b"\r\n\t "])
STRINGS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"\\', min_codepoint=0x20)).map(
        lambda text: b'"%s"' % text.encode()
    ),
    st.sampled_from([rb'"\u00e9 \/"', rb'"\"<\\"', rb'"\ud83d\ude00"', b'"&"', '"\u2028"'.encode()]),
)
NUMBERS = st.from_regex(r"\A-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?\Z").map(str.encode)


@st.composite
def spelled(draw: st.DrawFn, depth: int = 3) -> tuple[bytes, bytes]:
    """A text with white space wherever it may stand, and the same without any."""
    kind = draw(st.sampled_from(["scalar", "array", "object"] if depth else ["scalar"]))
    if kind == "scalar":
        compact = draw(st.one_of(STRINGS, NUMBERS, st.sampled_from([b"true", b"false", b"null"])))
        loose = compact
    else:
        parts = []
        for _ in range(draw(st.integers(0, 3))):
            loose, compact = draw(spelled(depth - 1))
            if kind == "object":
                key = draw(STRINGS)
                loose, compact = key + draw(SPACES) + b":" + loose, key + b":" + compact
            parts.append((loose, compact))
        brackets = b"[%s]" if kind == "array" else b"{%s}"
        loose = brackets % (b",".join(part for part, _ in parts) or draw(SPACES))
        compact = brackets % b",".join(part for _, part in parts)
    return draw(SPACES) + loose + draw(SPACES), compact


def pythons(text: bytes, **how: Any) -> Any:
    """What Python's decoder makes of a text: members as pairs, so that none is lost; numbers as their text."""

    def no(constant: str) -> Any:
        raise ValueError(constant)

    return json.loads(text.decode(), object_pairs_hook=tuple, parse_int=str, parse_float=str, parse_constant=no, **how)


def ours(text: bytes) -> Any:
    """The same, made of what gojson offers."""
    text = text.strip()
    kind = gojson.kind(text)
    if kind == "an object":
        return tuple((member.key, ours(member.value)) for member in gojson.members(text))
    if kind == "an array":
        return [ours(element.value) for element in gojson.elements(text)]
    if kind == "a string":
        return gojson.string(text)
    return text.decode() if kind == "a number" else {b"true": True, b"false": False, b"null": None}[text]


def data(value: Any) -> Any:
    """What `decode` returns, in the terms of `ours`."""
    if isinstance(value, gojson.Object):
        return tuple((key, data(inner)) for key, inner in value)
    if isinstance(value, list):
        return [data(inner) for inner in value]
    return value.decode() if isinstance(value, bytes) else value


ODD = st.sampled_from([rb'"\ud800"', rb'"\ud83d\ude00"', b'"\xff\xe2\x82"', b"1" * 5000])


@quick
@given(spelled(), st.one_of(st.none(), ODD))
def test_both_ways_of_decoding_are_one(spelling: tuple[bytes, bytes], odd: bytes | None) -> None:
    """Python's decoder is taken where it means the same; something odd leads the other way, all of it."""
    plain = gojson.decode(spelling[0], levels=9)
    assert data(plain) == ours(spelling[0])
    if odd is not None:
        both = gojson.decode(b"[%s,%s]" % (spelling[0], odd), levels=9)
        assert data(both[0]) == data(plain)
        assert type(both[0]) is type(plain)


@quick
@given(spelled())
def test_every_spelling_is_read_as_python_reads_it_and_compacting_takes_white_space_alone(
    spelling: tuple[bytes, bytes],
) -> None:
    loose, compact = spelling
    assert gojson.document(loose) == loose.strip(b" \t\r\n")
    assert ours(loose) == pythons(loose)
    assert gojson.compact(loose) == gojson.escape(compact)
    assert gojson.compact(gojson.compact(loose)) == gojson.compact(loose)
    assert pythons(gojson.compact(loose)) == pythons(loose)


ESCAPED = re.compile("[<>&\u2028\u2029]")


@quick
@given(TREES)
def test_what_is_written_reads_the_same_and_holds_nothing_that_go_escapes(tree: Any) -> None:
    text = gojson.dumps(tree)
    assert not ESCAPED.search(text.decode())
    assert text == gojson.compact(text)
    decoded = json.loads(text)
    assert decoded == json.loads(json.dumps(tree).encode("utf-8", "replace")) or "\\ud" in json.dumps(tree)


NEAR_JSON = st.one_of(
    st.text(st.sampled_from('{}[],:"\\/ \n\tabtrufalsn0123456789.-+eEu\u00e9\x00'), max_size=30).map(str.encode),
    st.tuples(
        spelled(), st.integers(0, 60), st.integers(0, 3), st.sampled_from(["", ",", "}", "]", '"', ":", "0", "\\"])
    ).map(lambda drawn: drawn[0][0][: drawn[1]] + drawn[3].encode() + drawn[0][0][drawn[1] + drawn[2] :]),
)


READERS: list[Callable[[bytes], object]] = [gojson.document, partial(gojson.decode, levels=2)]


@settings(deadline=None, max_examples=300)
@given(st.one_of(NEAR_JSON, st.binary(max_size=60)))
@example(b"[1.]")
@example(b"[-]")
@example(b'{"a":1,}')
@example(b'"\\u12"')
def test_text_is_accepted_if_and_only_if_python_accepts_it_and_an_error_points_into_it(text: bytes) -> None:
    try:
        pythons(text)
        accepted: bool | None = True
    except UnicodeDecodeError:
        accepted = None  # Go takes it, if the rest is right
    except ValueError:
        accepted = False
    for read in READERS:
        try:
            read(text)
        except gojson.JSONError as raised:
            error = raised
        else:
            assert accepted is not False
            continue
        assert not accepted
        lines = text.split(b"\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1


@quick
@given(spelled())
def test_members_and_elements_are_where_they_say(spelling: tuple[bytes, bytes]) -> None:
    text = gojson.document(spelling[0])
    parts = {b"{": gojson.members, b"[": gojson.elements}.get(text[:1], lambda _: [])(text)
    for part in parts:
        assert text[part.offset :].startswith(part.value)
        assert gojson.document(part.value) == part.value


def as_go_decodes(data: bytes) -> str:
    """What is valid UTF-8 as it is, and U+FFFD for every byte that is not (utf8.DecodeRune)."""
    decoded = ""
    while data:
        for size in range(1, 5):
            try:
                decoded += data[:size].decode()
                break
            except UnicodeDecodeError:
                continue
        else:
            size = 1
            decoded += "\ufffd"
        data = data[size:]
    return decoded


BODIES = st.lists(
    st.one_of(st.binary(max_size=3), st.sampled_from(["é", "€", "😀", "a"]).map(str.encode)), max_size=6
).map(b"".join)


@quick
@given(BODIES.map(lambda body: re.sub(rb'[\x00-\x1f"\\]', b"", body)))
@example(b"\xf0\x9f\x98")
def test_bytes_that_are_no_utf_8_become_a_replacement_character_each(body: bytes) -> None:
    assert gojson.string(b'"%s"' % body) == as_go_decodes(body)
