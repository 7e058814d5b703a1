"""Why a container gets a hook, or does not, and what conditions a hook has: in words for people. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from v010_adapter.hooks.facts import Facts
from v010_adapter.hooks.match import ALWAYS, BIND_MOUNTS, Commands, Condition, Matcher, NamedHook, Rule

QUOTED = 100
"""Maximum characters of a pattern or an annotation in a reason."""


class Decision(NamedTuple):
    """Whether a container gets a hook, None if that is unknown; and the conditions that decide, in words."""

    named: NamedHook
    matched: bool | None
    reason: str


def explain(matcher: Matcher, facts: Facts, unknown: Callable[[Condition], str] = lambda _: "") -> list[Decision]:
    """Returns the decision on every hook, in order, with its reason.

    `unknown` gets each condition that does not hold by the facts. It returns why the condition might still hold,
    empty if it cannot.
    """
    found = matcher.find(facts)
    return [_decision(rule, facts, found, unknown) for rule in matcher.rules]


def awaited(rule: Rule) -> str:
    """Returns in words the conditions of a hook, without the veto of the configuration."""
    return (" or " if rule.any_of else " and ").join(map(_awaited, rule.conditions))


def _awaited(condition: Condition) -> str:
    if isinstance(condition, Commands):
        return f"a command that matches {' or '.join(map(_quoted, condition.patterns))}"
    if isinstance(condition, tuple):
        return f"an annotation that matches {_pair(*condition)}"
    return {ALWAYS: "every container", BIND_MOUNTS: "bind mounts"}.get(condition, condition)


def _decision(
    rule: Rule, facts: Facts, found: Mapping[Condition, str], unknown: Callable[[Condition], str]
) -> Decision:
    if facts.namespace in rule.named.not_in:
        return Decision(rule.named, False, f"the pod's namespace is {_quoted(facts.namespace)} (notIn)")
    matched = rule.holds(found.keys())
    open_ = {one: why for one in rule.conditions if one not in found and (why := unknown(one))}
    if open_ and not matched and rule.holds(found.keys() | open_.keys()):
        return Decision(rule.named, None, " and ".join(dict.fromkeys(open_.values())))
    decisive = [one for one in rule.conditions if (one in found) == matched and one not in open_]
    reasons = [_reason(condition, facts, found.get(condition)) for condition in decisive]
    return Decision(rule.named, matched, " and ".join(reasons))


def _reason(condition: Condition, facts: Facts, found: str | None) -> str:
    """Returns in words whether a condition holds. `found` is the key or the pattern for which it holds."""
    if isinstance(condition, Commands):
        if facts.command is None:
            return "the container has no args, so no command"
        patterns = f"none of {', '.join(map(_quoted, condition.patterns))}" if found is None else _quoted(found)
        return f"the command {_quoted(facts.command)} matches {patterns}"
    if isinstance(condition, tuple):
        annotation = "no annotation" if found is None else f"the annotation {_pair(found, facts.annotations[found])}"
        return f"{annotation} matches {_pair(*condition)}"
    if condition == BIND_MOUNTS and found is None:
        return "the container has no bind mounts but those of the runtime"
    return condition


def _pair(key: str, value: str) -> str:
    return f"{_quoted(key)}: {_quoted(value)}"


def _quoted(text: str) -> str:
    """Returns a text of a pod or a file in quotes, printable and short enough for a log line."""
    quoted = repr(text)
    return quoted if len(quoted) <= QUOTED else f"{quoted[:QUOTED]}…"
