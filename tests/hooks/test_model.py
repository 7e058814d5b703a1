"""What hook files say. Each verdict is that of go.podman.io/common/pkg/hooks; tests/peers asks it about many more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from v010_adapter.hooks.decode import HookError
from v010_adapter.hooks.model import STAGES, Hook, When, parse


def current(when: str = "{}", hook: str = '{"path":"/a"}', stages: str = "[]", more: str = "") -> bytes:
    return f'{{"version":"1.0.0","hook":{hook},"when":{when},"stages":{stages}{more}}}'.encode()


def old(members: str) -> bytes:
    return f'{{"hook":"/a","stages":[],{members}}}'.encode()


def hook(**changes: Any) -> Hook:
    return Hook(path="/a", args=(), env=(), timeout=None, when=When(), stages=())._replace(**changes)


def annotated(**annotations: str) -> Hook:
    return hook(when=When(annotations=tuple(annotations.items())))


EVERYTHING = b"""{
    "version": "1.0.0",
    "hook": {"path": "/bin/true", "args": ["true", "-x"], "env": ["A=b"], "timeout": 5},
    "when": {"always": true, "annotations": {"^a$": "b", "c": ""}, "commands": ["sh$"], "hasBindMounts": false},
    "stages": ["prestart", "poststop"]
}"""
OLD_EVERYTHING = b"""{
    "version": "0.1.0", "hook": "/bin/true", "arguments": ["-x"], "stages": ["prestart"],
    "cmds": ["sh$"], "annotations": ["a", "b"], "hasbindmounts": true
}"""
WHEN = When(True, (("^a$", "b"), ("c", "")), ("sh$",), False)
OLD_WHEN = When(None, ((".*", "a|b"),), ("sh$",), True, any_of=True)
NO_CONDITIONS = '{"always":null,"annotations":null,"commands":null,"hasBindMounts":null}'
NULLS = '{"path":"/a","args":null,"env":null,"timeout":null}'
# fmt: off
GOOD: dict[str, tuple[bytes, Hook]] = {
    "everything": (EVERYTHING, Hook("/bin/true", ("true", "-x"), ("A=b",), 5, WHEN, ("prestart", "poststop"))),
    "everything old": (OLD_EVERYTHING, Hook("/bin/true", ("/bin/true", "-x"), (), None, OLD_WHEN, ("prestart",))),
    "every stage is known": (current(stages=json.dumps([*STAGES])), hook(stages=tuple(STAGES))),
    "null is nothing": (current(when=NO_CONDITIONS, hook=NULLS), hook()),
    "empty conditions are not given": (current(when='{"annotations":{},"commands":[]}'), hook()),
    "keys have no case": (
        b'{"VERSION":"1.0.0","Hook":{"PATH":"/a"},"When":{"HASBINDMOUNTS":true},"\xc5\xbftages":[]}',
        hook(when=When(has_bind_mounts=True))),
    "the last member of a name counts": (
        current(stages='["poststop"]', more=',"Stages":["prestart"],"version":null'), hook(stages=("prestart",))),
    "repeated objects are one": (
        current(hook='{"path":"/a","args":["x"]}', more=',"hook":{"timeout":1},"when":{"always":true}'),
        hook(args=("x",), timeout=1, when=When(always=True))),
    "repeated annotations are one": (
        current(when='{"annotations":{"a":"1","b":"2"},"Annotations":{"b":"3"}}'), annotated(a="1", b="3")),
    "the longest timeout": (current(hook='{"path":"/a","timeout":1000000000}'), hook(timeout=1_000_000_000)),
    "the longest path": (current(hook='{"path":"/%s"}' % ("a" * 4094)), hook(path="/" + "a" * 4094)),
    "bytes that are no text become a replacement": (current(hook='{"path":"/\\ud800"}'), hook(path="/\ufffd")),
    "a byte may be meant literally": (
        current(when=r'{"commands":["\\\\C","\\Q\\C\\E"]}'), hook(when=When(commands=(r"\\C", r"\Q\C\E")))),
    "arguments come after the path": (old('"arguments":[]'), hook(args=("/a",), when=When(any_of=True))),
}
GOOD_OLD: dict[str, When] = {
    '"arguments":null,"cmds":["a"]': When(commands=("a",)),
    # Flags reach into the next annotation; no annotation is any; when and always are no conditions.
    '"annotations":["(?i)a","b"]': When(annotations=((".*", "(?i)a|b"),)),
    '"annotations":[]': When(annotations=((".*", ""),)),
    '"when":{"always":5},"always":true,"hasbindmounts":false': When(has_bind_mounts=False),
}
# fmt: on
GOOD |= {members: (old(members), hook(when=when._replace(any_of=True))) for members, when in GOOD_OLD.items()}


def test_good_files_are_read() -> None:
    for what, (text, expected) in GOOD.items():
        assert parse(text) == expected, what


TIMEOUT = "hook.timeout must be 1 to 1000000000 seconds"
BAD = {
    b"": "line 1, column 1: the file is empty",
    b"{}": "hook is missing",
    b"[]": "line 1, column 1: a hook must be an object, not an array",
    b'{"version":"2.0.0"}': "line 1, column 12: version: the version '2.0.0' is unknown",
    b'{"version":"1.0.0",\n "hook":{"path":5},"stages":[]}': "line 2, column 17: hook.path must be a string, not 5",
    b'{"version":"1.0.0","stages":[]}': "hook.path is missing",
    b'{"version":"1.0.0","hook":{"path":"/a"}}': "stages is missing",
    b'{"hook":"/a","hook":null,"stages":[]}': "hook is missing",
    b'{"hook":"/a","stages":[],"stage":[]}': "both 'stage' and 'stages' are set",
    old('"cmds":"a"'): "column 33: cmds must be an array, not a string",
    old('"cmds":["a",\n1]'): "line 2, column 1: cmds[1] must be a string, not 1",
    old('"annotations":["a","["]'): "column 45: annotations[1]: the pattern 'a|['",
    old('"cmds":["a|["]'): "column 34: cmds[0]: the pattern 'a|['",
    old('"annotations":["%s","%s"]' % ((".{0,1000}" * 2,) * 2)): "it compiles to more than 16384 RE2 instructions",
    current(stages='[\n"poststop",\n "x"]'): "line 3, column 2: stages[1]: the stage 'x' is unknown",
    current(stages='["precreate"]'): "stages[0]: the stage 'precreate' is not enabled",
    current(hook='{"path":"/a","timeout":0}'): f"{TIMEOUT}, not 0",
    current(hook='{"path":"/a","timeout":1000000001}'): TIMEOUT,
    current(hook='{"path":"/a","timeout":' + "9" * 5000 + "}"): f"{TIMEOUT}, not 9",
    current(hook='{"path":"/a","timeout":1.0}'): "hook.timeout must be a whole number, not 1.0",
    current(hook='{"path":"bin/a"}'): "hook.path: must be an absolute path, not 'bin/a'",
    current(hook='{"path":"/%s"}' % ("é" * 2048)): "hook.path: more than 4095 bytes",
    current(hook=r'{"path":"/a\u0000"}'): "hook.path: a NUL character",
    current(hook=r'{"path":"/a","env":["A=\u0000"]}'): "hook.env[0]: a NUL character",
    current(hook=r'{"path":"/a","args":["a","\u0000"]}'): "hook.args[1]: a NUL character",
    current(when='{"annotations":{"a b":1}}'): "when.annotations.a b must be a string, not 1",
    current(when='{"annotations":{"a":"b["}}'): "when.annotations.a: the pattern 'b[': missing ]: [",
    current(when='{"commands":["a","(?=b)"]}'): "when.commands[1]: the pattern '(?=b)': invalid perl operator",
    current(when=r'{"commands":["\\d\\C"]}'): "\\C, a single byte, is not in Go's syntax",
    current(when='{"commands":["a{1001}"]}'): "invalid repetition size",
    old('"cmds":["%s"]' % (".{0,1000}" * 8)): "it compiles to more than 16384 RE2 instructions",
}


def test_bad_files_are_refused_with_key_and_place(capfd: pytest.CaptureFixture[str]) -> None:
    for text, reason in BAD.items():
        with pytest.raises(HookError) as caught:
            parse(text)
        error = caught.value
        assert reason in str(error), text
        assert len(str(error)) < 170, "what is wrong may be long"
        place = f"line {error.line}, column {error.column}: " if error.line or error.column else ""
        assert str(error) == place + error.reason
    assert capfd.readouterr().err == "", "RE2 logs no errors by itself"


def test_of_a_long_value_that_is_wrong_the_first_30_bytes_are_shown() -> None:
    with pytest.raises(HookError) as caught:
        parse(current(hook='{"path":"/a","timeout":1.' + "0" * 5000 + "}"))
    assert str(caught.value).endswith(f"must be a whole number, not 1.{'0' * 28}")
