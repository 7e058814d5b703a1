"""Which hooks a container gets, in which order, and why; and the adjustment that injects them. Pure.

Source: go.podman.io/common/pkg/hooks, hooks.go (Manager.Hooks) and 1.0.0/when.go (When.Match).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Set
from itertools import chain
from typing import NamedTuple, TypeAlias

from adapter.hooks.facts import Facts
from adapter.hooks.model import STAGES, Hook, When
from adapter.hooks.patterns import Patterns
from adapter.hooks.steps import Steps
from adapter.proto import nri_pb2 as api

USUAL_KEYS, USUAL_KEY = 1024, 317
"""Maximum number and length of the remembered keys that match no pattern. Kubernetes allows 317 characters."""
QUOTED = 100
"""Maximum characters of a pattern or an annotation in a reason."""

ALWAYS, BIND_MOUNTS = "always is true", "the container has bind mounts"
NOT_ALWAYS, NO_BIND_MOUNTS = "always is false", "hasBindMounts is false"
NO_CONDITION = "no condition is given, so it never matches"
"""The last three conditions never hold."""


class Commands(NamedTuple):
    """The condition that one of the patterns matches the command."""

    patterns: tuple[str, ...]


Condition: TypeAlias = str | tuple[str, str] | Commands
"""One of the texts above, the patterns of an annotation's key and value, or the patterns of commands."""


class NamedHook(NamedTuple):
    """A hook with its file: the file's name, and its path for messages."""

    file: str
    path: str
    hook: Hook


class Decision(NamedTuple):
    """Whether a container gets a hook, None if that is unknown; and the conditions that decide, in words."""

    named: NamedHook
    matched: bool | None
    reason: str


def sort_key(named: NamedHook) -> tuple[str, str]:
    """Returns the sort key of hooks: the file's name in lower case, then the name itself, by code point."""
    return lower_case(named.file), named.file


def lower_case(name: str) -> str:
    """Lower-cases a file's name as Go does, rune by rune. Python's way with a final sigma and with İ is another."""
    if name.isascii():
        return name.lower()
    # A lone surrogate is a byte of a name that is not UTF-8.
    return "".join("\ufffd" if "\ud800" <= rune <= "\udfff" else rune.lower()[0] for rune in name)


class _Rule(NamedTuple):
    """A hook with its conditions, in the order in which they are explained."""

    named: NamedHook
    conditions: KeysView[Condition]
    any_of: bool

    def holds(self, holding: Set[Condition]) -> bool:
        """Whether a container gets the hook if these conditions hold for it."""
        return not self.conditions.isdisjoint(holding) if self.any_of else self.conditions <= holding


class Matcher:
    """Hooks in the order of their injection. Their patterns are compiled once for all containers."""

    def __init__(self, hooks: Iterable[NamedHook]) -> None:
        """Takes hooks in any order, with valid patterns. Without hooks, there is nothing to compile."""
        self._rules = [
            _Rule(named, dict.fromkeys(_conditions(named.hook.when)).keys(), named.hook.when.any_of)
            for named in sorted(hooks, key=sort_key)
        ]
        whens = [rule.named.hook.when for rule in self._rules]
        self.looks_at_mounts = any(when.has_bind_mounts for when in whens)
        """Whether a hook needs `Facts.has_bind_mounts`."""
        self._command_lists: dict[str, set[Condition]] = {}
        """The hooks' lists of patterns for commands, by pattern."""
        for commands in {Commands(tuple(when.commands)) for when in whens}:
            for pattern in commands.patterns:
                self._command_lists.setdefault(pattern, set()).add(commands)
        self._pairs: dict[str, set[str]] = {}
        """The patterns for values, by the pattern for the key."""
        for key, value in chain.from_iterable(when.annotations for when in whens):
            self._pairs.setdefault(key, set()).add(value)
        self._unmatched: set[str] = set()
        """Keys that match no pattern. They are remembered, because most containers of a node have the same keys."""
        self._keys, self._values, self._commands = Patterns(), Patterns(), Patterns()

    def compile(self) -> Steps[None]:
        """Compiles the patterns, one per step. Must be called once before the other methods."""
        yield from self._keys.add(self._pairs)
        yield from self._values.add(chain.from_iterable(self._pairs.values()))
        yield from self._commands.add(self._command_lists)

    def match(self, facts: Facts) -> list[NamedHook]:
        """Returns the hooks that a container gets, in order."""
        holding = self._find(facts).keys()
        return [rule.named for rule in self._rules if rule.holds(holding)]

    def explain(self, facts: Facts, unknown: Callable[[Condition], str] = lambda _: "") -> list[Decision]:
        """Returns the decision on every hook, in order, with its reason.

        `unknown` gets each condition that does not hold by the facts. It returns why the condition might still hold,
        empty if it cannot.
        """
        found = self._find(facts)
        return [_decision(rule, facts, found, unknown) for rule in self._rules]

    def _find(self, facts: Facts) -> dict[Condition, str]:
        """Returns the conditions that hold, each with the key of the annotation or the pattern of the command."""
        found: dict[Condition, str] = {ALWAYS: "", **self._find_pairs(facts.annotations)}
        for pattern in () if facts.command is None else sorted(self._commands.find(facts.command)):
            found.update(dict.fromkeys(self._command_lists[pattern], pattern))
        if facts.has_bind_mounts:
            found[BIND_MOUNTS] = ""
        return found

    def _find_pairs(self, annotations: Mapping[str, str]) -> dict[Condition, str]:
        """Returns the pairs of patterns that match an annotation, each with the first key in sorted order."""
        pairs: dict[Condition, str] = {}
        for key in sorted(annotations.keys() - self._unmatched):
            key_patterns = self._keys.find(key)
            if key_patterns:
                value_patterns = self._values.find(annotations[key])
                for pattern in key_patterns:
                    for value_pattern in self._pairs[pattern] & value_patterns:
                        pairs.setdefault((pattern, value_pattern), key)
            elif len(key) <= USUAL_KEY:
                if len(self._unmatched) >= USUAL_KEYS:
                    self._unmatched.clear()
                self._unmatched.add(key)
        return pairs


def adjustment(hooks: Iterable[NamedHook]) -> api.ContainerAdjustment | None:
    """Returns the adjustment that injects hooks in their order, None if there is nothing to inject."""
    adjusted = api.ContainerAdjustment()
    for _, _, hook in hooks:
        timeout = None if hook.timeout is None else api.OptionalInt(value=hook.timeout)
        message = api.Hook(path=hook.path, args=hook.args, env=hook.env, timeout=timeout)
        for stage in hook.stages:
            if stage in STAGES:
                getattr(adjusted.hooks, STAGES[stage]).append(message)
    return adjusted if adjusted.HasField("hooks") else None


def _conditions(when: When) -> Iterator[Condition]:
    if when.always is not None:
        yield ALWAYS if when.always else NOT_ALWAYS
    if when.has_bind_mounts is not None:
        yield BIND_MOUNTS if when.has_bind_mounts else NO_BIND_MOUNTS
    yield from when.annotations
    if when.commands:
        yield Commands(tuple(when.commands))
    if when == When(any_of=when.any_of):
        yield NO_CONDITION


def _decision(
    rule: _Rule, facts: Facts, found: Mapping[Condition, str], unknown: Callable[[Condition], str]
) -> Decision:
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
