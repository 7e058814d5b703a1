"""JSON as Go's encoding/json takes it; every verdict in these tables was asked of Go 1.26 itself."""

from __future__ import annotations

import pytest

from adapter.base import gojson

DEEP = 10_000

# fmt: off
ACCEPTED = [
    b"null", b"true", b"false", b"0", b"-0", b"1", b"1.50", b"-1.5E-3", b"1e5", b"1E+05", b"1e999",
    b"123456789012345678901234567890", b'""', b'"a"', b'"\x7f"', b'"\xff"', b'"\xe2\x82"', rb'"\b\f\n\r\t\"\\\/"',
    rb'"\u00e9\uD83D\uDE00"', rb'"\ud800"', b"{}", b"[]", b" \t\r\n{ } \t\r\n", b"[1,2 , [] ,{}]", b'{"a":1,"a":2}',
    b'{"":{"":[{"":null}]}}', b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP,
]
# fmt: on

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


def test_what_go_accepts_is_a_document_and_its_own_text() -> None:
    for text in ACCEPTED:
        assert gojson.document(text) == text.strip(), text[:50]


def test_what_go_refuses_is_refused_with_the_place() -> None:
    for text, line, column in REFUSED:
        for read in (gojson.document, lambda text: gojson.decode(text, levels=2)):
            with pytest.raises(gojson.JSONError) as caught:
                read(text)
            assert (caught.value.line, caught.value.column) == (line, column), text[:50]
            assert caught.value.reason
            assert str(caught.value) == f"line {line}, column {column}: {caught.value.reason}"


def test_an_error_says_what_is_wrong() -> None:
    for text, reason in (
        *(
            (b"[", "end"),
            (b"[1 2]", "comma"),
            (b'{"a" 1}', "colon"),
            (b"{1:1}", "key"),
            (b"[1 , ]", "a trailing comma"),
            (b"{} x", "behind"),
        ),
        *(
            (b"[\xc3]", "unexpected byte 0xc3"),
            (b"[" * (DEEP + 1), "deep"),
            (b'["a\tb"]', "string"),
            (b'["a', "string"),
        ),
    ):
        with pytest.raises(gojson.JSONError, match=reason):
            gojson.document(text)


def test_the_first_value_is_what_gos_decoder_takes_and_the_rest_is_left() -> None:
    for text, value, end in (
        *((b"{} trailing", b"{}", 2), (b" \n[1] [2]", b"[1]", 5), (b"nullx", b"null", 4), (b'"a""b"', b'"a"', 3)),
        *((b"{}\x00", b"{}", 2), (b"01", b"0", 1), (b"1e5.5", b"1e5", 3), (b'{"a":"}"}}', b'{"a":"}"}', 9)),
    ):
        assert gojson.value(text) == (value, end)
    for text in (b"", b" ", b"{", b"nul", b"-", b"\xef\xbb\xbf{}", b"[1,]", b"'"):
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


def test_what_is_empty_has_nothing() -> None:
    assert gojson.members(b"{}") == gojson.members(b"{ }") == gojson.elements(b"[]") == gojson.elements(b"[ ]") == []


def test_a_kind_is_named_in_words() -> None:
    kinds = {b"{}": "an object", b"[]": "an array", b'""': "a string", b"null": "null", b"-1": "a number"}
    for text, kind in {**kinds, b"0": "a number", b"true": "a boolean", b"false": "a boolean"}.items():
        assert gojson.kind(text) == kind


# fmt: off
DECODED = [  # what Python's decoder does not take, or takes otherwise
    (b"null", None), (b" [true, false ,null] ", [True, False, None]), (b'"\\u00e9<\\/"', "é</"),
    (b"-1.50e+07", b"-1.50e+07"), (b"12345678901234567890", b"12345678901234567890"), (b"1" * 5000, b"1" * 5000),
    (b'{"b":1,"a":{},"b":[]}', gojson.Object([("b", b"1"), ("a", gojson.Object()), ("b", [])])),
    (rb'"\ud800"', "\ufffd"), (rb'"\udc00"', "\ufffd"), (rb'["\ud83d\ude00","\ude00\ud83d"]', ["😀", "\ufffd\ufffd"]),
    (b'["\xff","\xe2\x82"]', ["\ufffd", "\ufffd\ufffd"]), (b'{"\xff":1}', gojson.Object([("\ufffd", b"1")])),
]
# fmt: on


def test_a_document_is_decoded_with_its_duplicates_and_its_numbers_text() -> None:
    for text, data in DECODED:
        found = gojson.decode(text, levels=2)
        assert found == gojson.decode(b" " + text, levels=9) == data, text[:50]
        assert isinstance(found, gojson.Object) == isinstance(data, gojson.Object)


def test_what_is_nested_deeper_than_python_can_does_no_harm_below_the_levels_asked_for() -> None:
    deep = b"[" * 9_000 + b"]" * 9_000
    # How deep Python itself can go differs between its versions: whether it is text or not is left open.
    one = gojson.decode(b'{"a":%s,"b":"c"}' % deep, levels=1)
    assert [name for name, _ in one] == ["a", "b"]
    assert one[1] == ("b", "c")
    two = gojson.decode(b'{"a":{"b":%s}}' % deep, levels=2)
    assert [name for name, _ in two[0][1]] == ["b"]


NESTED = b'{\n "a": [1,\n  {"b": 2, "b": 3}],\n "c\\n": {}}\n'


def test_a_path_leads_to_the_last_value_of_that_name_or_as_far_as_it_leads() -> None:
    paths: list[tuple[tuple[str | int, ...], bytes]] = [
        *(((), b'{\n "a"'), (("a",), b"[1,"), (("a", 0), b"1,"), (("a", 1), b'{"b": 2'), (("a", 1, "b"), b"3}]")),
        *((("c\n",), b"{}}"), (("x",), b'{\n "a"'), (("a", 7), b"[1,"), (("a", 0, "b"), b"1,")),
        (("a", 1, "x", "y"), b'{"b": 2'),
    ]
    for path, found in paths:
        assert NESTED[gojson.locate(NESTED, path) :].startswith(found), path
        assert (b" \n" + NESTED)[gojson.locate(b" \n" + NESTED, path) :].startswith(found), path


def test_a_position_is_line_and_column_in_bytes() -> None:
    for offset, place in {0: (1, 1), 1: (1, 2), 2: (1, 3), 3: (2, 1), 4: (3, 1), 6: (3, 3)}.items():
        assert gojson.position(b"ab\n\nc\xff", offset) == place


def test_a_whole_number_is_an_int_however_it_is_written() -> None:
    numbers = {"1024.0": 1024, "-1e3": -1000, "9.223372036854775808e+18": 1 << 63, "1.5": 1.5, "1e400": float("inf")}
    for text, number in numbers.items():
        found = gojson.plain(gojson.decode(f'{{"a":[{text}]}}'.encode(), levels=1))["a"][0]
        assert (found, type(found)) == (number, type(number))


# ---- strings

# fmt: off
STRINGS = [  # text, what Go's Unmarshal makes of it, what Marshal makes of that
    (b'""', "", b'""'), (rb'"\b\f\n\r\t\"\\\/"', '\b\f\n\r\t"\\/', rb'"\b\f\n\r\t\"\\/"'),
    (rb'"\u0000\u001f"', "\0\x1f", rb'"\u0000\u001f"'), (b'"\x7f"', "\x7f", b'"\x7f"'),
    (rb'"\u00e9\u00E9"', "éé", '"éé"'.encode()), (rb'"\uD83D\ude00"', "😀", '"😀"'.encode()),
    (rb'"\ud800"', "\ufffd", '"\ufffd"'.encode()), (rb'"\udc00"', "\ufffd", '"\ufffd"'.encode()),
    (rb'"\ud800\ud800"', "\ufffd\ufffd", '"\ufffd\ufffd"'.encode()),
    (rb'"\udc00\ud800"', "\ufffd\ufffd", '"\ufffd\ufffd"'.encode()),
    (rb'"\ud800\u0041"', "\ufffdA", '"\ufffdA"'.encode()),
    (rb'"\ud83dx\ude00"', "\ufffdx\ufffd", '"\ufffdx\ufffd"'.encode()),
    (rb'"\ud800\\ude00"', "\ufffd\\ude00", '"\ufffd\\\\ude00"'.encode()), (rb'"\\ud800"', r"\ud800", rb'"\\ud800"'),
    (rb'"\ufeffa"', "\ufeffa", '"\ufeffa"'.encode()), ('"\ufeffa"'.encode(), "\ufeffa", '"\ufeffa"'.encode()),
    (b'"\xff"', "\ufffd", '"\ufffd"'.encode()), (b'"\xc3("', "\ufffd(", '"\ufffd("'.encode()),
    (b'"\xc0\x80"', "\ufffd" * 2, '"\ufffd\ufffd"'.encode()),
    (b'"\xe2\x82"', "\ufffd" * 2, '"\ufffd\ufffd"'.encode()),
    (b'"\xe2\x82\\n\xac"', "\ufffd\ufffd\n\ufffd", '"\ufffd\ufffd\\n\ufffd"'.encode()),
    (b'"\xe2\xe2\x82\xac"', "\ufffd€", '"\ufffd€"'.encode()),
    (b'"\xed\xa0\x80"', "\ufffd" * 3, '"\ufffd\ufffd\ufffd"'.encode()),
    (b'"\xf0\x9f\x98"', "\ufffd" * 3, '"\ufffd\ufffd\ufffd"'.encode()),
    (b'"\xf4\x90\x80\x80"', "\ufffd" * 4, '"\ufffd\ufffd\ufffd\ufffd"'.encode()),
    (b'"<>&"', "<>&", rb'"\u003c\u003e\u0026"'), ('"\u2028\u2029"'.encode(), "\u2028\u2029", rb'"\u2028\u2029"'),
    ('"\u2027\u202a\u0085"'.encode(), "\u2027\u202a\u0085", '"\u2027\u202a\u0085"'.encode()),
    (b'"\'"', "'", b'"\'"'),
]
# fmt: on


def test_strings_are_read_and_written_as_go_reads_and_writes_them() -> None:
    for text, value, marshalled in STRINGS:
        assert (gojson.string(text), gojson.dumps(value)) == (value, marshalled), text


# fmt: off
COMPACT = [
    (b' {"a" : 1.10 , "b":[ 1,\t2 ],\r\n"c": { } } ', b'{"a":1.10,"b":[1,2],"c":{}}'), (b'"a  b"', b'"a  b"'),
    (b'[ "a\\" , b" , "\\\\" ]', b'["a\\" , b","\\\\"]'),
    (b"12345678901234567890.00E+007", b"12345678901234567890.00E+007"), (b"-0.0e-0", b"-0.0e-0"),
    (b'{"a":1, "a":2}', b'{"a":1,"a":2}'), (rb'"\/\u00E9\u003c\ud800\n"', rb'"\/\u00E9\u003c\ud800\n"'),
    (b'"\x7f\xff\xc3"', b'"\x7f\xff\xc3"'), (b'"\xe2\x80\\u0041"', b'"\xe2\x80\\u0041"'),
    (b'{"<" : ">&"}', rb'{"\u003c":"\u003e\u0026"}'),
    ('"\u2027\u2028\u2029\u202a"'.encode(), '"\u2027\\u2028\\u2029\u202a"'.encode()), (b" null ", b"null"),
]
# fmt: on


def test_compact_text_is_what_go_marshals_a_raw_message_to() -> None:
    for text, compact in COMPACT:
        assert gojson.compact(text) == compact, text


def test_dumps_keeps_order_and_leaves_no_space() -> None:
    data = {"b": [1, True, None, "<é>"], "a": {"x": {}}}
    assert gojson.dumps(data) == '{"b":[1,true,null,"\\u003cé\\u003e"],"a":{"x":{}}}'.encode()


def test_a_lone_surrogate_which_no_bytes_can_have_is_replaced() -> None:
    assert gojson.dumps({"\ud800": "<\udfff\u2028"}) == rb'{"?":"\u003c?\u2028"}'


def test_keys_are_compared_as_go_folds_them() -> None:
    assert {gojson.fold(key) for key in ("PLUGINS", "Plugins", "plugin\u017f", "PLUGIN\u017f")} == {"plugins"}


def test_beyond_ascii_only_the_long_s_and_the_kelvin_sign_fold_to_a_letter_of_a_name() -> None:
    """They are the two that unicode.SimpleFold leads from ASCII to."""
    others = map(chr, range(0x80, 0x20000))
    assert {other: to for other in others if (to := gojson.fold(other)).isascii()} == {"\u017f": "s", "\u212a": "k"}
