"""Hooks for the tests, made in a line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adapter.hooks.facts import Facts
from adapter.hooks.match import Matcher, NamedHook
from adapter.hooks.model import Hook, When


def hook(file: str = "a.json", **conditions: Any) -> NamedHook:
    """A hook with these conditions: fields of When, annotations as a dictionary."""
    conditions["annotations"] = tuple(dict(conditions.get("annotations", {})).items())
    when = When(**conditions)
    return NamedHook(file, f"/hooks/{file}", Hook("/bin/true", (), (), None, when, ("poststop",)))


def container(
    annotations: dict[str, str] | None = None, command: str | None = "/bin/sh", *, binds: bool = False
) -> Facts:
    return Facts(annotations or {}, command, binds)


def verdict(of: NamedHook, facts: Facts) -> tuple[bool, str]:
    """Whether the hook matches and why; both ways to ask must agree."""
    matcher = Matcher([of])
    [decision] = matcher.explain(facts)
    assert decision.named is of
    assert matcher.match(facts) == ([of] if decision.matched else [])
    assert decision.matched is not None
    return decision.matched, decision.reason


def files(hooks: Iterable[NamedHook]) -> list[str]:
    return [named.file for named in hooks]
