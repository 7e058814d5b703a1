"""JSON as Go's encoding/json takes it; every verdict in these tables was asked of Go 1.26 itself."""

from __future__ import annotations

import pytest

from adapter import gojson

DEEP = 10_000

ACCEPTED = [
    b"null",
    b"true",
    b"false",
    b"0",
    b"-0",
    b"1",
    b"1.50",
    b"-1.5E-3",
    b"1e5",
    b"1E+05",
    b"1e999",
    b"123456789012345678901234567890",
    b'""',
    b'"a"',
    b'"\x7f"',
    b'"\xff"',
    b'"\xe2\x82"',
    rb'"\b\f\n\r\t\"\\\/"',
    rb'"\u00e9\uD83D\uDE00"',
    rb'"\ud800"',
    b"{}",
    b"[]",
    b" \t\r\n{ } \t\r\n",
    b"[1,2 , [] ,{}]",
    b'{"a":1,"a":2}',
    b'{"":{"":[{"":null}]}}',
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
]

REFUSED = [
    # text, line and column of what is wrong
    (b"", 1, 1),
    (b" \n ", 2, 2),
    (b"nul", 1, 1),
    (b"nullx", 1, 5),
    (b"True", 1, 1),
    (b"NaN", 1, 1),
    (b"Infinity", 1, 1),
    (b"-Infinity", 1, 1),
    (b"-", 1, 1),
    (b"--1", 1, 1),
    (b"+1", 1, 1),
    (b".5", 1, 1),
    (b"01", 1, 2),
    (b"1.", 1, 2),
    (b"1e", 1, 2),
    (b"1e5.5", 1, 4),
    (b"1_000", 1, 2),
    (b"0x1", 1, 2),
    (b"'a'", 1, 1),
    (b'"abc', 1, 1),
    (b'"abc\\', 1, 1),
    (b'"\t"', 1, 1),
    (b'"a\nb"', 1, 1),
    (b'"\x00"', 1, 1),
    (rb'"\x41"', 1, 1),
    (rb'"\u12"', 1, 1),
    (rb'"\u12G4"', 1, 1),
    (rb'"\'"', 1, 1),
    (b"[", 1, 2),
    (b"{", 1, 2),
    (b"]", 1, 1),
    (b"}", 1, 1),
    (b",", 1, 1),
    (b":", 1, 1),
    (b"[}", 1, 2),
    (b"{]", 1, 2),
    (b"[1,]", 1, 4),
    (b"[,1]", 1, 2),
    (b"[1 2]", 1, 4),
    (b"[1", 1, 3),
    (b"[1:2]", 1, 3),
    (b"[1}", 1, 3),
    (b"[1.]", 1, 3),
    (b"[nul]", 1, 2),
    (b"{,}", 1, 2),
    (b"{a:1}", 1, 2),
    (b"{1:1}", 1, 2),
    (b'{"a"}', 1, 5),
    (b'{"a" 1}', 1, 6),
    (b'{"a",1}', 1, 5),
    (b'{"a":}', 1, 6),
    (b'{"a":1,}', 1, 8),
    (b'{"a":1 "b":2}', 1, 8),
    (b'{"a":1]', 1, 7),
    (b'{"a":1', 1, 7),
    (b'{\n  "a": 1,\n  "b" 2\n}', 3, 7),
    (b'{\n\n"a":\n\n\n  tru}', 6, 3),
    (b"\xef\xbb\xbf{}", 1, 1),
    (b"\xc2\xa0{}", 1, 1),
    (b"\x00{}", 1, 1),
    (b"\x0b{}", 1, 1),
    (b"\x0c{}", 1, 1),
    ("{}".encode("utf-16"), 1, 1),
    (b"//c\n{}", 1, 1),
    (b"{}x", 1, 3),
    (b"{} {}", 1, 4),
    (b"{}\n{}", 2, 1),
    (b"{}\x00", 1, 3),
    (b"{}\xef\xbb\xbf", 1, 3),
    (b'"a":1', 1, 4),
    (b"[" * (DEEP + 1) + b"]" * (DEEP + 1), 1, DEEP + 1),
    (b'{"a":' * (DEEP + 1) + b"1" + b"}" * (DEEP + 1), 1, 5 * DEEP + 1),
]


def short(value: object) -> str | None:
    return f"{value[:20]!r}…{len(value)}" if isinstance(value, bytes) and len(value) > 30 else None


@pytest.mark.parametrize("text", ACCEPTED, ids=short)
def test_what_go_accepts_is_a_document_and_its_own_text(text: bytes) -> None:
    assert gojson.document(text) == text.strip()


@pytest.mark.parametrize(("text", "line", "column"), REFUSED, ids=short)
def test_what_go_refuses_is_refused_with_the_place(text: bytes, line: int, column: int) -> None:
    with pytest.raises(gojson.JSONError) as caught:
        gojson.document(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value) == f"line {line}, column {column}: {caught.value.reason}"
    assert caught.value.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[", "end"),
        (b"[1 2]", "comma"),
        (b'{"a" 1}', "colon"),
        (b"{1:1}", "key"),
        (b"{} x", "behind"),
        (b"[\xc3]", "unexpected byte 0xc3"),
        (b"[" * (DEEP + 1), "deep"),
        (b'["a\tb"]', "string"),
        (b'["a', "string"),
    ],
    ids=short,
)
def test_an_error_says_what_is_wrong(text: bytes, reason: str) -> None:
    with pytest.raises(gojson.JSONError, match=reason):
        gojson.document(text)


@pytest.mark.parametrize(
    ("text", "value", "end"),
    [
        (b"{} trailing", b"{}", 2),
        (b" \n[1] [2]", b"[1]", 5),
        (b"nullx", b"null", 4),
        (b'"a""b"', b'"a"', 3),
        (b"{}\x00", b"{}", 2),
        (b"01", b"0", 1),
        (b"1e5.5", b"1e5", 3),
        (b'{"a":"}"}}', b'{"a":"}"}', 9),
    ],
)
def test_the_first_value_is_what_gos_decoder_takes_and_the_rest_is_left(text: bytes, value: bytes, end: int) -> None:
    assert gojson.value(text) == (value, end)


@pytest.mark.parametrize("text", [b"", b" ", b"{", b"nul", b"-", b"\xef\xbb\xbf{}", b"[1,]", b"'"])
def test_without_a_first_value_there_is_an_error(text: bytes) -> None:
    with pytest.raises(gojson.JSONError):
        gojson.value(text)


def test_members_come_in_order_with_duplicates_their_own_text_and_their_offset() -> None:
    text = b'{ "a" : 1.0 ,"b":{"c":[ ]}, "a":"\\u0061" }'
    assert gojson.members(text) == [
        gojson.Member("a", b"1.0", 8),
        gojson.Member("b", b'{"c":[ ]}', 17),
        gojson.Member("a", rb'"\u0061"', 32),
    ]


def test_keys_are_decoded() -> None:
    assert [member.key for member in gojson.members(rb'{"\u0061\n":1,"\ud800":2,"":3}')] == ["a\n", "\ufffd", ""]


def test_elements_come_with_their_index_their_own_text_and_their_offset() -> None:
    assert gojson.elements(b'[ 1.0 ,[ ],"]" ]') == [
        gojson.Member("0", b"1.0", 2),
        gojson.Member("1", b"[ ]", 7),
        gojson.Member("2", b'"]"', 11),
    ]


@pytest.mark.parametrize("text", [b"{}", b"{ }"])
def test_an_empty_object_has_no_members(text: bytes) -> None:
    assert gojson.members(text) == []


@pytest.mark.parametrize("text", [b"[]", b"[ ]"])
def test_an_empty_array_has_no_elements(text: bytes) -> None:
    assert gojson.elements(text) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"{}", "an object"),
        (b"[]", "an array"),
        (b'""', "a string"),
        (b"true", "a boolean"),
        (b"false", "a boolean"),
        (b"null", "null"),
        (b"-1", "a number"),
        (b"0", "a number"),
    ],
)
def test_a_kind_is_named_in_words(text: bytes, kind: str) -> None:
    assert gojson.kind(text) == kind


DECODED = [
    (b"null", None),
    (b" [true, false ,null] ", [True, False, None]),
    (b'"\\u00e9<\\/"', "é</"),
    (b"-1.50e+07", b"-1.50e+07"),
    (b"12345678901234567890", b"12345678901234567890"),
    (b"1" * 5000, b"1" * 5000),
    (b'{"b":1,"a":{},"b":[]}', gojson.Object([("b", b"1"), ("a", gojson.Object()), ("b", [])])),
    # what Python's decoder does not take, or takes otherwise
    (rb'"\ud800"', "\ufffd"),
    (rb'"\udc00"', "\ufffd"),
    (rb'["\ud83d\ude00","\ude00\ud83d"]', ["😀", "\ufffd\ufffd"]),
    (b'["\xff","\xe2\x82"]', ["\ufffd", "\ufffd\ufffd"]),
    (b'{"\xff":1}', gojson.Object([("\ufffd", b"1")])),
]


@pytest.mark.parametrize(("text", "data"), DECODED, ids=short)
def test_a_document_is_decoded_with_its_duplicates_and_its_numbers_text(text: bytes, data: object) -> None:
    assert gojson.decode(text, levels=2) == data
    assert gojson.decode(b" " + text, levels=9) == data
    if isinstance(data, gojson.Object):
        assert isinstance(gojson.decode(text, levels=2), gojson.Object)


def test_what_is_nested_deeper_than_python_can_does_no_harm_below_the_levels_asked_for() -> None:
    deep = b"[" * 9_000 + b"]" * 9_000
    # How deep Python itself can go differs between its versions: whether it is text or not is left open.
    one = gojson.decode(b'{"a":%s,"b":"c"}' % deep, levels=1)
    assert [name for name, _ in one] == ["a", "b"]
    assert one[1] == ("b", "c")
    two = gojson.decode(b'{"a":{"b":%s}}' % deep, levels=2)
    assert [name for name, _ in two[0][1]] == ["b"]


@pytest.mark.parametrize(("text", "line", "column"), REFUSED, ids=short)
def test_what_go_refuses_is_not_decoded_either(text: bytes, line: int, column: int) -> None:
    with pytest.raises(gojson.JSONError) as caught:
        gojson.decode(text, levels=2)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize("text", ACCEPTED, ids=short)
def test_what_go_accepts_is_decoded(text: bytes) -> None:
    gojson.decode(text, levels=1)


NESTED = b'{\n "a": [1,\n  {"b": 2, "b": 3}],\n "c\\n": {}}\n'


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ((), b'{\n "a"'),
        (("a",), b"[1,"),
        (("a", 0), b"1,"),
        (("a", 1), b'{"b": 2'),
        (("a", 1, "b"), b"3}]"),
        (("c\n",), b"{}}"),
        # nowhere
        (("x",), b'{\n "a"'),
        (("a", 7), b"[1,"),
        (("a", 0, "b"), b"1,"),
        (("a", 1, "x", "y"), b'{"b": 2'),
    ],
)
def test_a_path_leads_to_the_last_value_of_that_name_or_as_far_as_it_leads(
    path: tuple[str | int, ...], found: bytes
) -> None:
    assert NESTED[gojson.locate(NESTED, path) :].startswith(found)
    assert (b" \n" + NESTED)[gojson.locate(b" \n" + NESTED, path) :].startswith(found)


@pytest.mark.parametrize(
    ("offset", "place"), [(0, (1, 1)), (1, (1, 2)), (2, (1, 3)), (3, (2, 1)), (4, (3, 1)), (6, (3, 3))]
)
def test_a_position_is_line_and_column_in_bytes(offset: int, place: tuple[int, int]) -> None:
    assert gojson.position(b"ab\n\nc\xff", offset) == place


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1024.0", 1024),
        ("-1e3", -1000),
        ("9.223372036854775808e+18", 1 << 63),
        ("1.5", 1.5),
        ("1e400", float("inf")),
    ],
)
def test_a_whole_number_is_an_int_however_it_is_written(text: str, number: float) -> None:
    found = gojson.plain(gojson.decode(f'{{"a":[{text}]}}'.encode(), levels=1))["a"][0]
    assert (found, type(found)) == (number, type(number))
