"""What podman's own package is asked through cmd/hooks: hook files, containers and patterns, given and generated."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from v010_adapter.hooks.match import lower_case

from .harness import Peer
from .strategies import ANYTHING, STRINGS, broken

PACKAGE = "hooks-v0.69.0"  # of go.podman.io/common


class Package(Peer):
    def __init__(self) -> None:
        super().__init__("hooks", PACKAGE)


@dataclass(frozen=True)
class Case:
    """Hook directories, in order of increasing preference, each with its files; and a container."""

    directories: Sequence[Sequence[tuple[bytes, bytes]]]
    annotations: Mapping[str, str] = field(default_factory=dict)
    args: Sequence[str] = ("/bin/sh",)
    has_bind_mounts: bool = False
    extension_stages: Sequence[str] = ()

    def encode(self) -> dict[str, Any]:
        return {
            "directories": [
                [{"name": to_base64(name), "content": to_base64(content)} for name, content in files]
                for files in self.directories
            ],
            "annotations": dict(self.annotations),
            "args": list(self.args),
            "hasBindMounts": self.has_bind_mounts,
            "extensionStages": list(self.extension_stages),
        }


def to_base64(text: bytes) -> str:
    return base64.b64encode(text).decode()


def from_base64(texts: Iterable[str] | None) -> list[bytes]:
    return [base64.b64decode(text) for text in texts or ()]


# Hook files

# fmt: off
PATTERNS = [
    "^a$", "a", "^$", "", ".*", "^.*", "^(a|b)$", "^(?:a|io\\.b)$", "^io\\.b$", "^io.b$", "(?i)A", "b|c", "[ab]c?",
    "^/bin/", "/sh$", "^/bin/sh$", "^/bin\\/s.$", "sh", "é", "^\\pL+$", "a{2,}", "\\bb", "(?s)^.$", "^a", "b$", "(a)",
    "[^/]+$", "^a.*b$", "(?m)^b$", "\\Qio.b\\E", "\\x61", "^(|a)$", "^(a)$", "^()$",
    # large programs
    "a{600}|b", "\\pL{10}7", "[\\pL\\pN]+=on", "(a|b)*a(a|b){12}", ".{0,60}b$",
]
BAD_PATTERNS = ["a**", "[", "(a", "(?!a)", "\\C"]
TEXTS = ["", "a", "A", "b", "ab", "c", "io.b", "ioxb", "bc", "aa", "é", "a\nb", "/bin/sh", "/usr/bin/sh", "\n", "a b"]
STAGES = ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"]
ODD_STAGES = ["precreate", "Poststop", ""]
# Upstream asks whether the program exists; these do.
PATHS = [b'"/bin/true"', b'"/bin/sh"', b'"/bin"', rb'"\u002fbin\/true"']
# fmt: on

Texts = st.SearchStrategy[bytes]
USUALLY = 30


def as_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


@st.composite
def mostly(draw: st.DrawFn, usual: Texts, *others: Texts) -> bytes:
    """Others now and then, so that few files have more than one thing wrong."""
    which = draw(st.integers(0, USUALLY)) - 7  # for the ends of the range come more often
    return draw(others[which] if 0 <= which < len(others) else usual)


def one_of(values: Sequence[object]) -> Texts:
    return st.sampled_from(list(map(as_json, values)))


def arrays(of: Texts) -> Texts:
    lists = st.lists(mostly(of, st.just(b"null")), max_size=3).map(lambda found: b"[%s]" % b", ".join(found))
    return mostly(lists, st.just(b"null"), ANYTHING)


def maps(keys: Texts, of: Texts) -> Texts:
    pairs = st.lists(st.tuples(keys, mostly(of, st.just(b"null"))), max_size=2)
    return mostly(pairs.map(lambda found: b"{%s}" % b", ".join(b"%s: %s" % pair for pair in found)), ANYTHING)


def spellings(name: str) -> Texts:
    """The key as it is written, and as Go takes it too, and nearly so."""
    odd = [name.upper(), name.title(), name.replace("s", "\u017f"), name.replace("k", "\u212a"), f"{name}2"]
    escaped = b'"\\u%04x%s"' % (ord(name[0]), name[1:].encode())
    return mostly(st.just(as_json(name)), one_of(odd), st.just(escaped))


@st.composite
def structs(draw: st.DrawFn, often: Mapping[str, Texts], seldom: Mapping[str, Texts]) -> bytes:
    """An object with these members, in any order. None is there more than twice: Go keeps what a longer list had."""
    members: list[bytes] = []
    for fields, times in ((often, [1] * 40 + [0, 2]), (seldom, [0, 0, 1])):
        for name, values in fields.items():
            count = draw(st.sampled_from(times))
            members += [b"%s:%s" % (draw(spellings(name)), draw(values)) for _ in range(count)]
    members = draw(st.permutations(members)) if draw(st.booleans()) else members
    return b"{%s}" % b",\n ".join(members)


NULL = st.just(b"null")
SOME_PATTERN = mostly(one_of(PATTERNS), one_of(BAD_PATTERNS))
SOME_STAGES = arrays(mostly(one_of(STAGES), one_of(ODD_STAGES)))
SOME_PATH = mostly(st.sampled_from(PATHS), st.just(b'""'), NULL)
TRUE_OR_FALSE = mostly(one_of([True, True, False]), NULL, ANYTHING)


def current_files() -> Texts:
    strings = arrays(mostly(one_of(["a", "b=c", "é"]), STRINGS))
    timeouts = mostly(one_of([1, 0, -3, 2**63 - 1, -(2**63)]), one_of([2**63, 1.0, "1", None, -(2**63) - 1]), ANYTHING)
    hook = structs({"path": SOME_PATH}, {"args": strings, "env": strings, "timeout": timeouts})
    conditions = {
        "always": TRUE_OR_FALSE,
        "annotations": maps(SOME_PATTERN, SOME_PATTERN),
        "commands": arrays(SOME_PATTERN),
        "hasBindMounts": TRUE_OR_FALSE,
    }
    version = mostly(st.just(b'"1.0.0"'), one_of(["1.0.1", "", None, 1]))
    whole = {
        "version": version,
        "hook": hook,
        "when": structs({}, {**conditions, "or": ANYTHING}),
        "stages": SOME_STAGES,
    }
    return structs(whole, {"unknown": ANYTHING})


def old_files() -> Texts:
    """Files of version 0.1.0, whose lists have two names each, of which one may be used."""
    lists = {"cmds": arrays(SOME_PATTERN), "annotations": arrays(SOME_PATTERN)}
    common = {
        "version": one_of(["0.1.0", "0.1.0", "", None]),
        "arguments": arrays(one_of(["a", "-x", ""])),
        "hasbindmounts": TRUE_OR_FALSE,
    }
    plural = structs({"hook": SOME_PATH, "stages": SOME_STAGES}, {**common, **lists, "stage": NULL})
    singular = structs(
        {"hook": SOME_PATH, "stage": SOME_STAGES}, {**common, **{name[:-1]: values for name, values in lists.items()}}
    )
    both = structs({"hook": SOME_PATH, "stages": SOME_STAGES}, {"cmd": NULL | lists["cmds"], "stage": NULL, **lists})
    return mostly(plural | singular, both)


def files() -> Texts:
    right = current_files() | old_files()
    return mostly(right, broken(right), broken(right), ANYTHING)


LONG_TEXTS = ["a" * 800, "ab" * 500, "k=v," * 255 + "é=on", "é" * 300 + "7", "x" * 900 + "b"]
SOME_TEXT = st.one_of(*[st.sampled_from(TEXTS)] * 3, st.sampled_from(LONG_TEXTS))
MANY_ANNOTATIONS = st.builds(
    lambda key, value, more: {f"{key}{number}": f"{value}{number % 7}" for number in range(40)} | more,
    st.sampled_from(TEXTS),
    SOME_TEXT,
    st.dictionaries(SOME_TEXT, SOME_TEXT, max_size=2),
)


def names() -> Texts:
    stems = st.sampled_from(
        ["a", "b", "B-1", "_", "Z", ".hidden", "É", "Σας", "ẞ", "İ", "i", "ǅ", "a.json", "10", "9", "𐐀", "\u212a"]
    )
    raw = stems.map(str.encode) | st.binary(min_size=1, max_size=3).filter(lambda name: not set(name) & {0, 47})
    whole = raw.flatmap(lambda name: mostly(st.just(name + b".json"), st.just(name + b".JSON"), st.just(name)))
    return whole.filter(lambda name: name not in (b".", b".."))  # which no file can have


def cases() -> st.SearchStrategy[Case]:
    # Names that are equal in lower case have no fixed order upstream.
    directory = st.lists(st.tuples(names(), files()), max_size=4, unique_by=lambda file: lower(file[0]))
    return st.builds(
        Case,
        directories=st.lists(directory, min_size=1, max_size=2).filter(has_one_order),
        annotations=st.dictionaries(SOME_TEXT, SOME_TEXT, max_size=4) | MANY_ANNOTATIONS,
        args=st.lists(st.sampled_from(TEXTS), max_size=2),
        has_bind_mounts=st.booleans(),
        extension_stages=st.sampled_from([(), (), ("precreate",)]),
    )


def lower(name: bytes) -> str:
    """As upstream does: I and İ are both i."""
    return lower_case(name.decode("utf-8", "surrogateescape"))


def has_one_order(directories: Sequence[Sequence[tuple[bytes, bytes]]]) -> bool:
    found = {name for files in directories for name, _ in files}
    return len(set(map(lower, found))) == len(found)


# Patterns

# fmt: off
ATOMS = [
    "a", "b", "ab", ".", "^", "$", "\\b", "\\B", "\\d", "\\W", "\\s", "\\A", "\\z", "\\Z", "\\C", "\\Q.*\\E", "\\Qa",
    "\\E", "\\pL", "\\p{Greek}", "\\pN", "\\PL", "\\p{^Lu}", "\\x41", "\\x{263a}", "\\x{110000}", "\\101", "\\0",
    "\\08", "\\1", "\\8", "\\n", "\\a", "\\e", "\\h", "\\R", "\\K", "\\G", "\\X", "\\u0041", "\\_", "\\é", "é", "ß",
    "K", "\u017f", "İ", "\\.", "\\-", "[", "[a", "[]a]", "[^]a]", "[a-c]", "[c-a]", "[^a-z]", "[[:alpha:]]",
    "[[:foo:]]", "[\\d\\-x]", "[a-\\d]", "[\\pL]", "[\\p{Foo}]", "[\\Q]", "[\\C]", "[\\b]", "[a-]", "[-a]", "[a&&b]",
    "[]", "(", ")", "(?:", "(?i)", "(?i:", "(?m)", "(?s)", "(?U)", "(?-i)", "(?i-s:", "(?x)", "(?P<n>", "(?P<n>a)",
    "(?<n>a)", "(?P<1>a)", "(?P<>a)", "(?=a)", "(?!a)", "(?<=a)", "(?#c)", "(?i-)", "(?-)", "(?)", "(?ii)", "(?>a)",
    "|", "||", "()", "(|a)", "(a|b)", "*", "+", "?", "*?", "+?", "??", "**", "*+", "{2}", "{2,}", "{0,3}", "{,3}",
    "{3,2}", "a{1000}", "a{1001}", "{2}{3}", "{2}?", "{a}", "{", "}", "{1", "\\", "/", "\n", "\0", "😀", "\ufffd",
    "(?i)K", "(?i)\u017f", "(?i)ß", "(?i)\u03c3", "^*", "$?", "\\b*", "(?m)^", "(?m)$", ".*", ".+?", "[\u03b1-\u03c9]",
    "\\p{Zs}", "\\p{Han}",
]
SUBJECTS = [
    *TEXTS, "B", "É", "ß", "ẞ", "ss", "K", "k", "\u212a", "s", "\u017f", "İ", "i", "\u0131", "\u03c3", "\u03c2",
    "\u03a3", "☺", "x-", "-", "1", "12", "_", "\t", "\0", "\x07", "/", "😀", "\ufffd", "\u2028", "\u03b1\u03b2", "Ω",
    "{2}", "a{", "a{,3}", "}", "n", "漢", "^", "{a}", "abc]", "$", "|", "(", "\\", "aab\n", ".*", "&b]", "\u00a0",
    "\u0300", "ioxb\n", "(a", "a)",
]
# fmt: on


def patterns() -> st.SearchStrategy[str]:
    parts = st.lists(st.sampled_from(ATOMS), min_size=1, max_size=5).map("".join)
    return st.one_of(parts, parts.map("({})".format), parts.map("^{}$".format), parts.map("(?:{})*".format))
