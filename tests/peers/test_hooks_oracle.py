"""Our reading, matching and injecting of hooks against podman's own package, and RE2 against Go's regexp.

Where we differ on purpose stands in DEVIATIONS, and nowhere else.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapter.hooks.inject import adjustment
from adapter.hooks.match import Facts, Matcher, Named, order
from adapter.hooks.model import Hook, HookError, When, parse
from adapter.hooks.patterns import Patterns, fault

from .hook_cases import SUBJECTS, Case, Package, as_json, cases, from_base64, patterns


class Deviation(NamedTuple):
    """A difference that is wanted, and why; `case` shows it, with the names of the hooks that we inject, and they."""

    what: str
    why: str
    case: Case | None = None
    ours: str = ""
    theirs: str | None = ""  # None: the container fails
    patterns: Sequence[str] = ()  # that only one of the two takes


def file(content: Mapping[str, Any], name: str = "a.json") -> tuple[bytes, bytes]:
    return name.encode(), as_json(content)


def hook(name: str = "a.json", **when: Any) -> tuple[bytes, bytes]:
    content = {
        "version": "1.0.0",
        "hook": {"path": "/bin/true"},
        "when": when or {"always": True},
        "stages": ["poststop"],
    }
    return file(content, name)


DEVIATIONS = {
    "no args": Deviation(
        "a hook with commands does not match a container without args; upstream fails the container",
        "a hook must not cost a container",
        Case([[hook(commands=[".*"]), hook("b.json")]], args=[]),
        ours="b.json",
        theirs=None,
    ),
    "bind mounts": Deviation(
        "`hasBindMounts` means a bind mount that the runtime did not make itself; to upstream's injector any mount",
        "every container has mounts; podman means those that the user wanted. tests/hooks/test_facts.py shows it",
    ),
    "NUL": Deviation(
        "a NUL character in args or env makes a file bad",
        "nothing can be started with it, so the container would fail",
        Case(
            [[file({"hook": "/bin/true", "arguments": ["\0"], "hasbindmounts": True, "stages": []})]],
            has_bind_mounts=True,
        ),
        ours="",
        theirs="a.json",
    ),
    "size": Deviation(
        "a pattern of more than 32768 instructions is bad; Go's limit is 3 million",
        "hook files must not take all memory, nor the time that a container waits",
        patterns=[r"\pL{100}", ".{0,1000}" * 8],
    ),
    "classes": Deviation(
        "the names of classes that Go 1.25 added are unknown",
        "RE2 has them not, nor has older Go",
        patterns=[r"\p{Letter}", r"\p{greek}", r"\p{Cn}", r"\p{LC}"],
    ),
    "group names": Deviation(
        "names of groups may have letters beyond ASCII",
        "RE2 takes them, and to nobody do they mean anything",
        patterns=["(?P<é>a)", "(?<é>a)"],
    ),
    "unassigned": Deviation(
        "`\\pC` does not match code points that nobody has assigned; Go's does since 1.25",
        "RE2 does as older Go did",
        Case([[hook(annotations={r"\pC": ".*"})]], annotations={"\u0378": ""}),
        ours="",
        theirs="a.json",
    ),
    "same names": Deviation(
        "files whose names differ in case only have the order of these names; upstream has no fixed one",
        "what happens should not depend on chance",
    ),
}
fuzzed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def package() -> Iterator[Package]:
    started = Package()
    yield started
    started.close()


def named(file: str) -> Named:
    return Named(file, "", Hook("", (), (), None, When(), (), ""))


@dataclass
class Outcome:
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
                    parsed = parse(content, case.extension_stages)
                    if not os.path.exists(parsed.path):  # which `directory` looks after
                        raise HookError("its program is missing")
                    hooks[name] = Named(name.decode("utf-8", "surrogateescape"), "", parsed)
                except HookError:
                    bad.add((index, name))
    matcher = Matcher(hooks.values())
    facts = Facts(case.annotations, case.args[0] if case.args else None, case.has_bind_mounts)
    decisions = matcher.explain(facts)
    matched = matcher.match(facts)
    assert matched == [decision.named for decision in decisions if decision.matched], decisions
    names = [_bytes(decision.named) for decision in decisions]
    assert not set(failing) & set(map(_bytes, matched))
    return Outcome(bad, [name for name in names if name not in failing], list(map(_bytes, matched)), injected(matched))


def _bytes(named: Named) -> bytes:
    return named.file.encode("utf-8", "surrogateescape")


def injected(hooks: Sequence[Named]) -> Mapping[str, Any]:
    """What we inject, in the words of the OCI specification."""
    message = adjustment(hooks)
    found: dict[str, Any] = MessageToDict(message)["hooks"] if message else {}
    for each in (each for stage in found.values() for each in stage):
        if "timeout" in each:
            each["timeout"] = int(each["timeout"].get("value", 0))
    return found


@given(generated=cases())
@settings(parent=fuzzed, max_examples=700)
def test_the_same_files_are_good_and_the_same_hooks_match_and_are_injected_in_the_same_order(
    package: Package, generated: Case
) -> None:
    answer = package.ask(**generated.encode())
    failing = from_base64(answer["failed"])
    assert not (failing and generated.args)
    assert ours(generated, failing) == theirs(answer), answer["errors"]


@given(generated=st.lists(patterns(), min_size=1, max_size=100, unique=True))
@settings(parent=fuzzed, max_examples=200)
def test_the_same_patterns_are_good_and_match_the_same_texts(package: Package, generated: list[str]) -> None:
    answer = package.ask(patterns=generated, texts=SUBJECTS)
    good = [pattern for pattern in generated if fault([pattern]) is None]
    assert good == [pattern for pattern, compiled in zip(generated, answer["compiled"], strict=True) if compiled]
    together = Patterns(good)
    found = together.find_each([text.encode() for text in SUBJECTS])
    for pattern, texts in zip(generated, answer["found"], strict=True):
        if pattern in good:
            number = together.numbers[pattern]
            assert [index for index, numbers in enumerate(found) if number in numbers] == texts, pattern
            assert [index for index, text in enumerate(SUBJECTS) if together.search(number, text.encode())] == texts


def test_names_are_lower_cased_alike_whatever_they_are_made_of(package: Package) -> None:
    changed = package.ask(lower=True)
    assert len(changed) > 1000
    characters = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code <= 0xDFFF]
    differing = [name for name in characters if order(named(name)) != (changed.get(name, name), name)]
    assert not differing


@pytest.mark.parametrize("deviation", DEVIATIONS.values(), ids=DEVIATIONS)
def test_deviations_are_what_the_table_says(package: Package, deviation: Deviation) -> None:
    if deviation.case is not None:
        answer = package.ask(**deviation.case.encode())
        assert b" ".join(ours(deviation.case).matched).decode() == deviation.ours
        matched = None if answer["failed"] else b" ".join(from_base64(answer["matched"])).decode()
        assert matched == deviation.theirs
    if deviation.patterns:
        answer = package.ask(patterns=deviation.patterns, texts=[])
        for pattern, compiled in zip(deviation.patterns, answer["compiled"], strict=True):
            assert (fault([pattern]) is None) != compiled, pattern
