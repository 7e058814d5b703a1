"""Strings and texts as Go's encoding/json reads and writes them; every verdict was asked of Go 1.26 itself."""

from __future__ import annotations

import pytest

from adapter import gojson

STRINGS = [
    # text, what Go's Unmarshal makes of it, what Marshal makes of that
    (b'""', "", b'""'),
    (rb'"\b\f\n\r\t\"\\\/"', '\b\f\n\r\t"\\/', rb'"\b\f\n\r\t\"\\/"'),
    (rb'"\u0000\u001f"', "\0\x1f", rb'"\u0000\u001f"'),
    (b'"\x7f"', "\x7f", b'"\x7f"'),
    (rb'"\u00e9\u00E9"', "éé", '"éé"'.encode()),
    (rb'"\uD83D\ude00"', "😀", '"😀"'.encode()),
    (rb'"\ud800"', "\ufffd", '"\ufffd"'.encode()),
    (rb'"\udc00"', "\ufffd", '"\ufffd"'.encode()),
    (rb'"\ud800\ud800"', "\ufffd\ufffd", '"\ufffd\ufffd"'.encode()),
    (rb'"\udc00\ud800"', "\ufffd\ufffd", '"\ufffd\ufffd"'.encode()),
    (rb'"\ud800\u0041"', "\ufffdA", '"\ufffdA"'.encode()),
    (rb'"\ud83dx\ude00"', "\ufffdx\ufffd", '"\ufffdx\ufffd"'.encode()),
    (rb'"\ud800\\ude00"', "\ufffd\\ude00", '"\ufffd\\\\ude00"'.encode()),
    (rb'"\\ud800"', r"\ud800", rb'"\\ud800"'),
    (rb'"\ufeffa"', "\ufeffa", '"\ufeffa"'.encode()),
    ('"\ufeffa"'.encode(), "\ufeffa", '"\ufeffa"'.encode()),
    # invalid UTF-8: one U+FFFD for every byte
    (b'"\xff"', "\ufffd", '"\ufffd"'.encode()),
    (b'"\xc3("', "\ufffd(", '"\ufffd("'.encode()),
    (b'"\xc0\x80"', "\ufffd" * 2, '"\ufffd\ufffd"'.encode()),
    (b'"\xe2\x82"', "\ufffd" * 2, '"\ufffd\ufffd"'.encode()),
    (b'"\xe2\x82\\n\xac"', "\ufffd\ufffd\n\ufffd", '"\ufffd\ufffd\\n\ufffd"'.encode()),
    (b'"\xe2\xe2\x82\xac"', "\ufffd€", '"\ufffd€"'.encode()),
    (b'"\xed\xa0\x80"', "\ufffd" * 3, '"\ufffd\ufffd\ufffd"'.encode()),
    (b'"\xf0\x9f\x98"', "\ufffd" * 3, '"\ufffd\ufffd\ufffd"'.encode()),
    (b'"\xf4\x90\x80\x80"', "\ufffd" * 4, '"\ufffd\ufffd\ufffd\ufffd"'.encode()),
    # what Go escapes for the sake of HTML and JavaScript
    (b'"<>&"', "<>&", rb'"\u003c\u003e\u0026"'),
    ('"\u2028\u2029"'.encode(), "\u2028\u2029", rb'"\u2028\u2029"'),
    ('"\u2027\u202a\u0085"'.encode(), "\u2027\u202a\u0085", '"\u2027\u202a\u0085"'.encode()),
    (b'"\'"', "'", b'"\'"'),
]


@pytest.mark.parametrize(("text", "value", "marshalled"), STRINGS)
def test_strings_are_read_and_written_as_go_reads_and_writes_them(text: bytes, value: str, marshalled: bytes) -> None:
    assert gojson.string(text) == value
    assert gojson.dumps(value) == marshalled


COMPACT = [
    (b' {"a" : 1.10 , "b":[ 1,\t2 ],\r\n"c": { } } ', b'{"a":1.10,"b":[1,2],"c":{}}'),
    (b'"a  b"', b'"a  b"'),
    (b'[ "a\\" , b" , "\\\\" ]', b'["a\\" , b","\\\\"]'),
    (b"12345678901234567890.00E+007", b"12345678901234567890.00E+007"),
    (b"-0.0e-0", b"-0.0e-0"),
    (b'{"a":1, "a":2}', b'{"a":1,"a":2}'),
    (rb'"\/\u00E9\u003c\ud800\n"', rb'"\/\u00E9\u003c\ud800\n"'),
    (b'"\x7f\xff\xc3"', b'"\x7f\xff\xc3"'),
    (b'"\xe2\x80\\u0041"', b'"\xe2\x80\\u0041"'),
    (b'{"<" : ">&"}', rb'{"\u003c":"\u003e\u0026"}'),
    ('"\u2027\u2028\u2029\u202a"'.encode(), '"\u2027\\u2028\\u2029\u202a"'.encode()),
    (b" null ", b"null"),
]


@pytest.mark.parametrize(("text", "compact"), COMPACT)
def test_compact_text_is_what_go_marshals_a_raw_message_to(text: bytes, compact: bytes) -> None:
    assert gojson.compact(text) == compact


def test_dumps_keeps_order_and_leaves_no_space() -> None:
    data = {"b": [1, True, None, "<é>"], "a": {"x": {}}}
    assert gojson.dumps(data) == '{"b":[1,true,null,"\\u003cé\\u003e"],"a":{"x":{}}}'.encode()


@pytest.mark.parametrize("key", ["plugins", "PLUGINS", "Plugins", "plugin\u017f", "PLUGIN\u017f"])
def test_keys_are_compared_as_go_folds_them(key: str) -> None:
    assert gojson.fold(key) == "plugins"


def test_beyond_ascii_only_the_long_s_and_the_kelvin_sign_fold_to_a_letter_of_a_name() -> None:
    """They are the two that unicode.SimpleFold leads from ASCII to."""
    folded = {character: gojson.fold(character) for character in map(chr, range(0x80, 0x110000))}
    assert {c: to for c, to in folded.items() if to.isascii()} == {"\u017f": "s", "\u212a": "k"}
