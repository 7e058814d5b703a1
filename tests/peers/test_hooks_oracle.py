"""Our reading, matching and injecting of hooks against podman's own package, and RE2 against Go's regexp.

Where we differ on purpose stands in docs/oci-hooks.md; DEVIATIONS shows what a single case can show of it.
"""

from __future__ import annotations

import base64
import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hooks.real_files import CONTAINERS, FILES, installed
from v010_adapter.cli.hooks.explain import explain
from v010_adapter.hooks import decode
from v010_adapter.hooks.decode import HookError
from v010_adapter.hooks.facts import Facts
from v010_adapter.hooks.match import Matcher, NamedHook, adjustment, sort_key
from v010_adapter.hooks.model import Hook, When, parse
from v010_adapter.hooks.patterns import Patterns, fault

from .hook_cases import SUBJECTS, Case, Package, as_json, cases, from_base64, patterns


class Deviation(NamedTuple):
    """A case, with the names of the hooks that we inject, and they; or patterns."""

    case: Case | None = None
    ours: str = ""
    theirs: str | None = ""  # None: the container fails
    patterns: Sequence[str] = ()  # that only one of the two takes


def file(content: Mapping[str, Any], name: str = "a.json") -> tuple[bytes, bytes]:
    return name.encode(), as_json(content)


def hook(name: str = "a.json", **when: Any) -> tuple[bytes, bytes]:
    return of({"path": "/bin/true"}, name, when or {"always": True})


def of(program: dict[str, Any], name: str = "a.json", when: Any = None) -> tuple[bytes, bytes]:
    return file({"version": "1.0.0", "hook": program, "when": when or {"always": True}, "stages": ["poststop"]}, name)


DEVIATIONS = {
    "no args": Deviation(Case([[hook(commands=[".*"]), hook("b.json")]], args=[]), ours="b.json", theirs=None),
    "NUL": Deviation(
        Case([[file({"hook": "/bin/true", "arguments": ["\0"], "hasbindmounts": True, "stages": []})]],
            has_bind_mounts=True), theirs="a.json"),
    "size": Deviation(patterns=[r"(a|b|\pL){40}q", r"\pL{100}", ".{0,1000}" * 8]),
    "levels": Deviation(patterns=["(" * 1001 + ")" * 1001]),
    "timeout": Deviation(Case([[of({"path": "/bin/true", "timeout": 0})]]), theirs="a.json"),
    "path": Deviation(Case([[of({"path": "."})]]), theirs="a.json"),
    "classes": Deviation(patterns=[r"\p{Letter}", r"\p{greek}", r"\p{Cn}", r"\p{LC}"]),
    "group names": Deviation(patterns=["(?P<é>a)", "(?<é>a)"]),
    "unassigned": Deviation(
        Case([[hook(annotations={r"\pC": ".*"})]], annotations={"\u0378": ""}), theirs="a.json"),
    "inside a character": Deviation(
        Case([[hook(annotations={".*": r"\B"}), hook("b.json", annotations={".*": r"k\B|\Bs"})]],
            annotations={"a": "kÉs"}), ours="a.json"),
}  # fmt: skip


@pytest.fixture(scope="module")
def package() -> Iterator[Package]:
    with Package() as started:
        yield started


class Outcome(NamedTuple):
    """The bad files, all other hooks in their order, those that match, and what is injected into which stage."""

    bad: set[tuple[int, bytes]]
    order: list[bytes]
    matched: list[bytes]
    hooks: Mapping[str, Any]


def theirs(answer: Mapping[str, Any]) -> Outcome:
    """What upstream does, where it does not fail the container."""
    matched = set(from_base64(answer["matched"]))
    names = from_base64(answer["order"])
    return Outcome(
        bad={(error["directory"], base64.b64decode(error["name"])) for error in answer["errors"]},
        order=names,
        matched=[name for name in names if name in matched],
        hooks={stage: hooks for stage, hooks in answer["hooks"].items() if hooks},
    )


def ours(case: Case, failing: Sequence[bytes] = ()) -> Outcome:
    """What we do, without hooks whose matching fails a container upstream: they must not match."""
    bad, hooks = set(), {}
    for index, files in enumerate(case.directories):
        for name, content in files:
            if name.endswith(b".json"):
                try:
                    parsed = parse(content, precreate="precreate" in case.extension_stages)
                    if not os.path.exists(parsed.path):  # which `directory` looks after
                        raise HookError("its program is missing")
                    hooks[name] = NamedHook(name.decode("utf-8", "surrogateescape"), "", parsed)
                except HookError:
                    bad.add((index, name))
    matcher = Matcher(hooks.values())
    facts = Facts(case.annotations, case.args[0] if case.args else None, case.has_bind_mounts)
    decisions = explain(matcher, facts)
    matched = matcher.match(facts)
    assert all(matcher.match(facts) == matched for _ in range(19)), "not the same every time"
    assert matched == [decision.named for decision in decisions if decision.matched], decisions
    order, good = (
        [named.file.encode("utf-8", "surrogateescape") for named in some]
        for some in ([decision.named for decision in decisions], matched)
    )
    assert not set(failing) & set(good)
    return Outcome(bad, [name for name in order if name not in failing], good, injected(matched))


def injected(hooks: Sequence[NamedHook]) -> Mapping[str, Any]:
    """What we inject, in the words of the OCI specification."""
    message = adjustment(hooks)
    found: dict[str, Any] = MessageToDict(message)["hooks"] if message else {}
    for each in (each for stage in found.values() for each in stage):
        if "timeout" in each:
            each["timeout"] = int(each["timeout"].get("value", 0))
    return found


@given(generated=cases())
@settings(max_examples=700)
def test_the_same_files_are_good_and_the_same_hooks_injected_in_order(package: Package, generated: Case) -> None:
    answer = package.ask(generated.encode())
    failing = from_base64(answer["failed"])
    assert not (failing and generated.args)
    with mock.patch.object(decode, "SECONDS", range(-(1 << 63), 1 << 63)):  # see DEVIATIONS
        assert ours(generated, failing) == theirs(answer), answer["errors"]


def test_files_of_other_projects_match_alike(package: Package) -> None:
    files = [file(installed(content), f"{name}.json") for name, (content, *_) in FILES.items()]
    for facts in CONTAINERS.values():
        case = Case([files], facts.annotations, [facts.command or ""], facts.has_bind_mounts, ["precreate"])
        assert ours(case) == theirs(package.ask(case.encode()))


@given(generated=st.lists(patterns(), min_size=1, max_size=100, unique=True))
@settings(max_examples=200)
def test_the_same_patterns_are_good_and_match_the_same_texts(package: Package, generated: list[str]) -> None:
    answer = package.ask({"patterns": generated, "texts": SUBJECTS})
    good = [pattern for pattern in generated if not fault(pattern)]
    assert good == [pattern for pattern, compiled in zip(generated, answer["compiled"], strict=True) if compiled]
    together = Patterns(good)
    found = [together.find(text) for text in SUBJECTS]
    for pattern, texts in zip(generated, answer["found"], strict=True):
        if pattern in good:
            assert [index for index, patterns in enumerate(found) if pattern in patterns] == texts, pattern


def test_names_are_lower_cased_alike_whatever_they_are_made_of(package: Package) -> None:
    """But for characters that only one of both knows yet: Go and Python have their own versions of Unicode."""

    def key(file: str) -> tuple[str, str]:
        return sort_key(NamedHook(file, "", Hook("", (), (), None, When(), ())))

    changed = package.ask({"lower": True})
    assert len(changed) > 1000
    characters = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code <= 0xDFFF]
    cased = {name for name in characters if name in changed or not name == name.lower() == name.upper()}
    known = {name for name in cased if unicodedata.category(name) != "Cn"}
    if unicodedata.unidata_version >= "16":  # of Python 3.14; 15 is that of Go up to 1.26
        known &= changed.keys()
    assert len(known) > 1000
    assert not [name for name in known if key(name) != (changed.get(name, name), name)]
    rest = "".join(name for name in characters if name not in cased)
    assert key(rest) == (rest, rest)


@pytest.mark.parametrize("deviation", DEVIATIONS.values(), ids=DEVIATIONS)
def test_deviations_are_what_the_documentation_says(package: Package, deviation: Deviation) -> None:
    if deviation.case is not None:
        answer = package.ask(deviation.case.encode())
        assert b" ".join(ours(deviation.case).matched).decode() == deviation.ours
        matched = None if answer["failed"] else b" ".join(from_base64(answer["matched"])).decode()
        assert matched == deviation.theirs
    if deviation.patterns:
        answer = package.ask({"patterns": deviation.patterns, "texts": []})
        for pattern, compiled in zip(deviation.patterns, answer["compiled"], strict=True):
            assert (not fault(pattern)) != compiled, pattern
