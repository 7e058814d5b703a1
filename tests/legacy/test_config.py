"""conf.json as the original client read it. What Go makes of each text was asked of Go (Decoder, ConfigList)."""

from __future__ import annotations

import re

import pytest

from v010_adapter.errors import ConfigError
from v010_adapter.legacy.config import Config, Entry, parse

ONE = b'{"version":"0.1","plugins":[%s]}'


def read(text: bytes) -> tuple[str, list[tuple[str, bytes | None]]]:
    config = parse(text, "conf.json")
    assert all(entry.version == config.version for entry in config.entries)
    return config.version, [(entry.type, entry.conf) for entry in config.entries]


GOOD: list[tuple[bytes, str, list[tuple[str, bytes | None]]]] = [
    (b"null", "", []),
    (b'{"plugins":null}', "", []),
    (b' \n{"version":"0.1"}\n', "0.1", []),
    (b'{"version":"1","version":"2"}', "2", []),
    (b'{"VERSION":"x","Plugins":[{"TYPE":"a","Conf":2}]}', "x", [("a", b"2")]),
    ('{"ver\u017fion":"x","plugin\u017f":[{"type":"a"}]}'.encode(), "x", [("a", None)]),
    (b'{"plugins":[{"type":"a"}],"plugins":[{"type":"b"}]}', "", [("b", None)]),
    (b'{"plugins":[{"type":"a"}]}\x00\xff', "", [("a", None)]),
    (b'{"unknown":{"a":[1e999]},"plugins":[{"type":"a","x":1}]}', "", [("a", None)]),
    (ONE % b'{"type":"b"},{"type":"a"}', "0.1", [("b", None), ("a", None)]),
    (ONE % b'{"type":"a","type":null}', "0.1", [("a", None)]),
    (ONE % b'{"type":"/usr/bin/a"},{"type":"//b/../c"}', "0.1", [("/usr/bin/a", None), ("//b/../c", None)]),
    (ONE % rb'{"type":"\u0061\ud800"}', "0.1", [("a\ufffd", None)]),
    # `null` is a conf, none at all is not
    (ONE % b'{"type":"a","conf":null}', "0.1", [("a", b"null")]),
    (ONE % b'{"type":"a","conf":1,"conf":null}', "0.1", [("a", b"null")]),
    (ONE % b'{"type":"a","conf":1,"Conf":2}', "0.1", [("a", b"2")]),
    (
        ONE % b'{"type":"a","conf":{"n" : 1.10, "n": 12345678901234567890,\n "s": "<&\\u00e9\\/\xff"}}',
        "0.1",
        [("a", b'{"n":1.10,"n":12345678901234567890,"s":"\\u003c\\u0026\\u00e9\\/\xff"}')],
    ),
    (ONE % (b'{"type":"a","conf":%s}' % (b"[" * 9997 + b"]" * 9997)), "0.1", [("a", b"[" * 9997 + b"]" * 9997)]),
]


def test_a_conf_json_is_read_as_go_reads_it(subtests: pytest.Subtests) -> None:
    for text, version, plugins in GOOD:
        with subtests.test(repr(text[:99])):
            assert read(text) == (version, plugins)


def test_plugins_of_one_type_are_told_apart_by_their_number() -> None:
    config = parse(ONE % b'{"type":"a"},{"type":"b"},{"type":"a","conf":1},{"type":"a"}', "conf.json")
    assert config.entries == (
        Entry("a", 0, "0.1", None),
        Entry("b", 0, "0.1", None),
        Entry("a", 1, "0.1", b"1"),
        Entry("a", 2, "0.1", None),
    )
    assert len({entry.key for entry in config.entries}) == 4


def test_without_a_file_the_version_is_the_originals() -> None:
    """client.go, loadConfig: ConfigList{Version: Version} if the file does not exist."""
    assert Config() == ("0.1", ())


BAD = [
    # text, line, key, what is said of it
    (b"", 1, "", "empty"),
    (b" \n\n", 3, "", "empty"),
    (b"[]", 1, "", "object, not an array"),
    (b"\n1", 2, "", "object, not a number"),
    (b'{"version":1}', 1, "version", "string, not a number"),
    (b'{\n\n"Version":{}}', 3, "Version", "string, not an object"),
    (b'{\n"plugins":\n"x"}', 3, "plugins", "array, not a string"),
    (b'{"plugins":[null]}', 1, "plugins[0]", "object, not null"),
    (b'{"plugins":[\n{"type":"a"},\n[]]}', 3, "plugins[1]", "object, not an array"),
    (b'{"plugins":[\n{"type":"a"},\n\n{"conf":1}]}', 4, "plugins[1].type", "missing"),
    (b'{"plugins":[{\n"type":\n1}]}', 3, "plugins[0].type", "string, not a number"),
    (rb'{"plugins":[{"type":"a\u0000b"}]}', 1, "plugins[0].type", "NUL"),
    (b'{"plugins":[{"type":"a/b"}]}', 1, "plugins[0].type", "must be a name or an absolute path"),
    (b'{"plugins":[\n{"type":"a"},\n]}', 2, "", "a trailing comma"),
    (b'{"plugins":[\n{"type":"a"}\n', 3, "", "unexpected end"),
    (b"{" + b'"a":[' * 10001, 1, "", ""),
]


def test_a_mistake_is_named_with_file_line_column_and_key(subtests: pytest.Subtests) -> None:
    for text, line, key, reason in BAD:
        with subtests.test(repr(text[:99])):
            with pytest.raises(ConfigError) as caught:
                parse(text, "/etc/nri/conf.json")
            said = str(caught.value)
            place = rf"/etc/nri/conf\.json:{line}:[1-9][0-9]*: "
            assert re.match(place + re.escape(f"{key}: " if key else ""), said)
            assert reason in said
            assert "\n" not in said
