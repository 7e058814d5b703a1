"""JSON as Go's encoding/json takes and writes it: where Python's decoder means the same, it is the judge.

The verdicts in the tables were asked of Go 1.26 itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from v010_adapter.base import gojson

from .rig.steps import steps as steps_of
from .rig.waiting import limit

quick = settings(deadline=None, max_examples=100)
DEEP = 10_000
READERS: list[Callable[[bytes], object]] = [gojson.document, partial(gojson.decode, levels=2)]

# fmt: off
REFUSED = [  # text, line and column of what is wrong
    (b"", 1, 1), (b" \n ", 2, 2), (b"nul", 1, 1), (b"nullx", 1, 5), (b"True", 1, 1), (b"NaN", 1, 1),
    (b"Infinity", 1, 1), (b"-Infinity", 1, 1), (b"-", 1, 1), (b"--1", 1, 1), (b"+1", 1, 1), (b".5", 1, 1),
    (b"01", 1, 2), (b"1.", 1, 2), (b"1e", 1, 2), (b"1e5.5", 1, 4), (b"1_000", 1, 2), (b"0x1", 1, 2), (b"'a'", 1, 1),
    (b'"abc', 1, 1), (b'"abc\\', 1, 1), (b'"\t"', 1, 1), (b'"a\nb"', 1, 1), (b'"\x00"', 1, 1), (rb'"\x41"', 1, 1),
    (rb'"\u12"', 1, 1), (rb'"\u12G4"', 1, 1), (rb'"\'"', 1, 1), (b"[", 1, 2), (b"{", 1, 2), (b"]", 1, 1),
    (b"}", 1, 1), (b",", 1, 1), (b":", 1, 1), (b"[}", 1, 2), (b"{]", 1, 2), (b"[1,]", 1, 3), (b"[,1]", 1, 2),
    (b"[1 2]", 1, 4), (b"[1", 1, 3), (b"[1:2]", 1, 3), (b"[1}", 1, 3), (b"[1.]", 1, 3), (b"[nul]", 1, 2),
    (b"{,}", 1, 2), (b"{a:1}", 1, 2), (b"{1:1}", 1, 2), (b'{"a"}', 1, 5), (b'{"a" 1}', 1, 6), (b'{"a",1}', 1, 5),
    (b'{"a":}', 1, 6), (b'{"a":1,}', 1, 7), (b'{"a":1 "b":2}', 1, 8), (b'{"a":1]', 1, 7), (b'{"a":1', 1, 7),
    (b'{\n  "a": 1,\n  "b" 2\n}', 3, 7), (b'{\n\n"a":\n\n\n  tru}', 6, 3), (b"\xef\xbb\xbf{}", 1, 1),
    (b"\xc2\xa0{}", 1, 1), (b"\x00{}", 1, 1), (b"\x0b{}", 1, 1), (b"\x0c{}", 1, 1), ("{}".encode("utf-16"), 1, 1),
    (b"//c\n{}", 1, 1), (b"{}x", 1, 3), (b"{} {}", 1, 4), (b"{}\n{}", 2, 1), (b"{}\x00", 1, 3),
    (b"{}\xef\xbb\xbf", 1, 3), (b'"a":1', 1, 4), (b"[" * (DEEP + 1) + b"]" * (DEEP + 1), 1, DEEP + 1),
    (b'{"a":' * (DEEP + 1) + b"1" + b"}" * (DEEP + 1), 1, 5 * DEEP + 1),
]
# fmt: on


def test_what_go_refuses_is_refused_with_the_place() -> None:
    for text, line, column in REFUSED:
        for read in READERS:
            with pytest.raises(gojson.JSONError) as caught:
                read(text)
            assert (caught.value.line, caught.value.column) == (line, column), text[:50]
            assert str(caught.value) == f"line {line}, column {column}: {caught.value.reason}"


def test_nesting_goes_as_deep_as_gos_and_does_no_harm_below_the_levels_asked_for() -> None:
    arrays, objects = b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP
    for text in (arrays, objects):
        assert gojson.document(b" \t\r\n" + text + b" \t\r\n") == text
    # How deep Python itself can go differs between its versions: whether it is text or not is left open.
    one = gojson.decode(b'{"a":%s,"b":"c"}' % arrays[1:-1], levels=1)
    assert [name for name, _ in one] == ["a", "b"]
    assert one[1] == ("b", "c")
    two = gojson.decode(b'{"a":{"b":%s}}' % arrays[2:-2], levels=2)
    assert [name for name, _ in two[0][1]] == ["b"]


MIB = 1 << 20


def test_a_mebibyte_of_anything_neither_overflows_nor_takes_quadratic_time() -> None:
    """Quadratic time would be hours."""
    for text in (b" " * MIB + b"1" + b" " * MIB, b'"' + b"a" * MIB + b'"', b'"' + rb"\n" * (MIB // 2) + b'"'):
        assert gojson.document(text) == gojson.compact(text) == text.strip()
    bad = (b'"' + b"a" * MIB, b'"' + rb"\n" * (MIB // 2), b"[" + b"1" * MIB + b"x]", b"[" + b" " * MIB, b"[" * MIB)
    for text in (*bad, b'{"":' * (MIB // 4)):
        with pytest.raises(gojson.JSONError):
            gojson.document(text)


def test_the_first_value_is_what_gos_decoder_takes_and_the_rest_is_left() -> None:
    for text, value, end in (
        *((b"{} trailing", b"{}", 2), (b" \n[1] [2]", b"[1]", 5), (b"nullx", b"null", 4), (b'"a""b"', b'"a"', 3)),
        *((b"{}\x00", b"{}", 2), (b"01", b"0", 1), (b"1e5.5", b"1e5", 3), (b'{"a":"}"}}', b'{"a":"}"}', 9)),
    ):
        assert gojson.value(text) == (value, end)


def test_a_path_leads_to_the_last_value_of_that_name_or_as_far_as_it_leads() -> None:
    nested = b' \n{\n "a": [1,\n  {"b": 2, "b": 3}],\n "c\\n": {}}\n'
    paths: list[tuple[tuple[str | int, ...], bytes]] = [
        *(((), b'{\n "a"'), (("a",), b"[1,"), (("a", 0), b"1,"), (("a", 1), b'{"b": 2'), (("a", 1, "b"), b"3}]")),
        *((("c\n",), b"{}}"), (("x",), b'{\n "a"'), (("a", 7), b"[1,"), (("a", 0, "b"), b"1,")),
        (("a", 1, "x", "y"), b'{"b": 2'),
    ]
    for path, found in paths:
        assert nested[gojson.locate(nested, path) :].startswith(found), path


def test_a_whole_number_is_an_int_however_it_is_written() -> None:
    numbers = {"1024.0": 1024, "-1e3": -1000, "9.223372036854775808e+18": 1 << 63, "1.5": 1.5, "1e400": float("inf")}
    longest = 10**1000 - 1
    for text, number in {**numbers, f"{longest}": longest, f"-{longest}": -longest}.items():
        found = gojson.plain(gojson.decode(f'{{"a":[{text}]}}'.encode(), levels=1))["a"][0]
        assert (found, type(found)) == (number, type(number))
    with pytest.raises(ValueError, match=r"^a number with more than 1000 digits$"):
        gojson.plain(gojson.decode(f"{longest + 1}".encode(), levels=1))


def test_keys_are_compared_as_go_folds_them() -> None:
    """Beyond ASCII, unicode.SimpleFold leads only the long s and the Kelvin sign to a letter of a name."""
    assert {gojson.fold(key) for key in ("PLUGINS", "Plugins", "plugin\u017f", "PLUGIN\u017f")} == {"plugins"}
    others = map(chr, range(0x80, 0x20000))
    assert {other: to for other in others if (to := gojson.fold(other)).isascii()} == {"\u017f": "s", "\u212a": "k"}


# ---- strings

# fmt: off
LITERALS = [  # text, what Go's Unmarshal makes of it, what Marshal makes of that
    (b'""', "", b'""'), (rb'"\b\f\n\r\t\"\\\/"', '\b\f\n\r\t"\\/', rb'"\b\f\n\r\t\"\\/"'),
    (rb'"\u0000\u001f"', "\0\x1f", rb'"\u0000\u001f"'), (b'"\x7f\'"', "\x7f'", b'"\x7f\'"'),
    (rb'"\u00e9\u00E9"', "éé", '"éé"'.encode()), (rb'"\uD83D\ude00"', "😀", '"😀"'.encode()),
    (rb'"\ud800"', "\ufffd", '"\ufffd"'.encode()), (rb'"\udc00"', "\ufffd", '"\ufffd"'.encode()),
    (rb'"\ud800\ud800"', "\ufffd\ufffd", '"\ufffd\ufffd"'.encode()),
    (rb'"\ud800\u0041"', "\ufffdA", '"\ufffdA"'.encode()),
    (rb'"\ud83dx\ude00"', "\ufffdx\ufffd", '"\ufffdx\ufffd"'.encode()),
    (rb'"\ud800\\ude00"', "\ufffd\\ude00", '"\ufffd\\\\ude00"'.encode()), (rb'"\\ud800"', r"\ud800", rb'"\\ud800"'),
    (rb'"\ufeffa"', "\ufeffa", '"\ufeffa"'.encode()), ('"\ufeffa"'.encode(), "\ufeffa", '"\ufeffa"'.encode()),
    (rb'"\ud83d\ud83d\ude00\ude00"', "\ufffd😀\ufffd", '"\ufffd😀\ufffd"'.encode()),
    (rb'"\\ud83d\ude00"', "\\ud83d\ufffd", '"\\\\ud83d\ufffd"'.encode()),
    (rb'"\\\ud83d\ude00"', "\\😀", '"\\\\😀"'.encode()),
    (rb'"\u005cud800"', "\\ud800", rb'"\\ud800"'),
    (rb'"\ud83d\u005cude00"', "\ufffd\\ude00", '"\ufffd\\\\ude00"'.encode()),
    (b'"\\ud83d\xed\xb8\x80"', "\ufffd" * 4, b'"%s"' % ("\ufffd" * 4).encode()),
    (b'"\xff\xfe\xe2\x82"', "\ufffd" * 4, b'"%s"' % ("\ufffd" * 4).encode()),
    (b'"\xe2\x82\\n\xac"', "\ufffd\ufffd\n\ufffd", '"\ufffd\ufffd\\n\ufffd"'.encode()),
    (b'"<>&"', "<>&", rb'"\u003c\u003e\u0026"'), ('"\u2028\u2029"'.encode(), "\u2028\u2029", rb'"\u2028\u2029"'),
    ('"\u2027\u202a\u0085"'.encode(), "\u2027\u202a\u0085", '"\u2027\u202a\u0085"'.encode()),
]
COMPACT = [  # text, and what Go marshals it to as a RawMessage
    (b'[ "a\\" , b" , "\\\\" ]', b'["a\\" , b","\\\\"]'), (b" 1234567890.00E+007 ", b"1234567890.00E+007"),
    (b'{"<" : ">&", "<":-0.0e-0}', rb'{"\u003c":"\u003e\u0026","\u003c":-0.0e-0}'),
    (rb'"\/\u00E9\u003c\ud800\n"', rb'"\/\u00E9\u003c\ud800\n"'), (b'"\x7f\xff\xc3"', b'"\x7f\xff\xc3"'),
    (b'"\xe2\x80\\u0041"', b'"\xe2\x80\\u0041"'), ('"\u2028<\u2029"'.encode(), rb'"\u2028\u003c\u2029"'),
]
# fmt: on


def test_text_is_read_and_written_as_go_reads_and_writes_it() -> None:
    for text, value, marshalled in LITERALS:
        assert (gojson.string(text), gojson.dumps(value)) == (value, marshalled), text
        assert gojson.decode(b"[%s,{%s:%s}]" % (text, text, text), levels=2) == [value, [(value, value)]], text
    for text, compact in COMPACT:
        assert gojson.compact(text) == compact, text
    ordered = {"b": [1, True, None, "<é>"], "a": {"x": {}}}
    assert gojson.dumps(ordered) == '{"b":[1,true,null,"\\u003cé\\u003e"],"a":{"x":{}}}'.encode()
    assert gojson.dumps({"\ud800": "<\udfff\u2028"}) == rb'{"?":"\u003c?\u2028"}', "no bytes can have a lone surrogate"


# ---- properties

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


def pythons(text: bytes) -> Any:
    """What Python's decoder makes of a text: members as pairs, so that none is lost; numbers as their text."""

    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    return json.loads(text.decode(), object_pairs_hook=tuple, parse_int=str, parse_float=str, parse_constant=refuse)


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


ODD = [rb'"\ud800"', rb'["\ud83d\ude00","\ude00\ud83d"]', b'{"\xff":"\xe2\x82"}', b"1" * 5000, b'{"b":1,"a":{},"b":[]}']


@quick
@given(spelled(), st.sampled_from(ODD))
def test_both_ways_of_decoding_are_one(spelling: tuple[bytes, bytes], odd: bytes) -> None:
    """Something odd changes nothing beside it."""
    plain = gojson.decode(spelling[0], levels=9)
    both = gojson.decode(b"[%s,%s]" % (spelling[0], odd), levels=9)
    assert data(plain) == ours(spelling[0])
    assert data(both) == [data(plain), ours(odd)]
    assert type(both[0]) is type(plain)


DEEPER = b"[" * 2000 + b'"]NaN"' + b"]" * 2000, b'{"":' * 2000 + b"[]" + b"}" * 2000
"""More levels than the scanner of some Pythons takes."""


@quick
@given(spelled(), spelled())
def test_what_is_too_deep_changes_nothing_beside_it(first: tuple[bytes, bytes], second: tuple[bytes, bytes]) -> None:
    arrays, objects = DEEPER
    found = gojson.decode(b'{"NaN":%s,"a":%s,"b":%s,"a":%s}' % (arrays, first[0], objects, second[0]), levels=2)
    assert [key for key, _ in found] == ["NaN", "a", "b", "a"]
    assert [data(found[index][1]) for index in (1, 3)] == [ours(first[0]), ours(second[0])]
    for index in (0, 2):
        with pytest.raises(ValueError, match=r"^nested too deeply$"):
            gojson.plain(found[index][1])


def test_what_is_not_too_deep_for_plain_is_read_beside_what_is() -> None:
    for levels in (0, 1, 9):
        for depth in range(levels + 1):
            deepest = b"[" * (gojson.MAX_PLAIN_DEPTH + 1) + b"]" * (gojson.MAX_PLAIN_DEPTH + 1)
            found = gojson.decode(b"[" * depth + b"[%s,%s]" % (deepest, DEEPER[0]) + b"]" * depth, levels)
            for _ in range(depth):
                [found] = found
            if depth < levels:
                assert str(gojson.plain(found[0])).encode() == deepest, (levels, depth)


# ---- steps

ELEMENT, VALUES = b'{"a":[1,2]}', 4
"""An element of an array, and how many values it has."""
MANY = 6000
"""So many elements that a text can be too deep or too large, and the counts must say that it is not."""
WITHIN = 200
"""The maximum number of the interpreter's instructions for one value."""


def steps(text: bytes) -> int:
    def read() -> None:
        with suppress(gojson.JSONError):
            gojson.decode(text, levels=2)

    return steps_of(read, gojson.__name__)


@pytest.mark.parametrize(
    "x", [b'""', rb'"\ud800"', rb'"\ud83d\ude00"', rb'"\\"', b'"\xff"', b'"\xf0\x9f\x98\x80"', b'"']
)
def test_a_long_text_takes_as_many_steps_as_a_short_one_whatever_is_in_it(x: bytes) -> None:
    """Python's scanner, which takes none, reads all of it; also what is cut off, as by a plugin that still prints."""
    for end in (b"]}", b"]", b"", b",", b',{"a"', b',{"a":'):
        text = (
            b'{"x":%s,"updates":[%s' % (x, b",".join([ELEMENT] * MANY)),
            b'{"x":%s,"updates":[%s' % (x, b",".join([ELEMENT] * 2 * MANY)),
        )
        assert steps(text[0] + end) == steps(text[1] + end), end


def test_a_text_that_is_wrong_or_deep_takes_some_steps_for_each_value() -> None:
    values = VALUES * MANY // 4
    for before, after in ((b"", b"}"), (b"", b"x"), (b"", b"]}]"), (b"", b",]}"), (DEEPER[0] + b",", b"]}")):
        text = b'{"x":"\\ud800","updates":[%s%s%s' % (before, b",".join([ELEMENT] * (MANY // 4)), after)
        assert steps(text) < WITHIN * (values + text.count(b"[[")), after


@pytest.mark.parametrize("end", [b"", b"\n", b"\\x"], ids=["no end", "a line end", "a wrong escape"])
def test_a_string_that_is_none_is_searched_for_its_end_once(end: bytes) -> None:
    """As JSON in a string, cut off. From each of its quotes to the end, the search would take an hour."""
    text = b'{"a":"' + rb"[\"\"" * 200_000 + end
    with limit("the text is read"), pytest.raises(gojson.JSONError):
        gojson.decode(text, 1)


@quick
@given(spelled())
def test_every_spelling_is_read_as_python_does_and_compacting_takes_spaces_only(spelling: tuple[bytes, bytes]) -> None:
    loose, compact = spelling
    text = gojson.document(loose)
    assert text == loose.strip(b" \t\r\n")
    assert ours(loose) == pythons(loose)
    assert gojson.compact(loose) == gojson.escape(compact) == gojson.compact(gojson.compact(loose))
    assert pythons(gojson.compact(loose)) == pythons(loose)
    for part in {b"{": gojson.members, b"[": gojson.elements}.get(text[:1], lambda _: [])(text):
        assert text[part.offset :].startswith(part.value)
        assert gojson.document(part.value) == part.value


NEAR_JSON = st.one_of(
    st.text(st.sampled_from('{}[],:"\\/ \n\tabtrufalsn0123456789.-+eEu\u00e9\x00'), max_size=30).map(str.encode),
    st.tuples(
        spelled(), st.integers(0, 60), st.integers(0, 3), st.sampled_from(["", ",", "}", "]", '"', ":", "0", "\\"])
    ).map(lambda drawn: drawn[0][0][: drawn[1]] + drawn[3].encode() + drawn[0][0][drawn[1] + drawn[2] :]),
)


@given(st.dictionaries(st.text(), st.text()))
@example({'a":"b': "c", "d": '","'})
@example({"a": "\0", "\\": "", "": "\x1f\x7f\u2028é\ud800"})
@quick
def test_a_map_of_strings_is_written_as_any_other_object_and_sorted(strings: dict[str, str]) -> None:
    assert gojson.string_map(strings) == gojson.encode(dict(sorted(strings.items())))


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
    said = set()
    for read in READERS:
        try:
            read(text)
        except gojson.JSONError as raised:
            error = raised
        else:
            assert accepted is not False
            continue
        assert not accepted
        said.add(str(error))
        lines = text.split(b"\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    assert len(said) <= 1
