"""Which hooks a container gets, in which order, and why. Pure.

Source: go.podman.io/common/pkg/hooks, hooks.go (Manager.Hooks) and 1.0.0/when.go (When.Match).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from adapter.hooks.conditions import Conditions, Findings
from adapter.hooks.facts import Facts, facts
from adapter.hooks.model import Hook

__all__ = ["Decision", "Facts", "Matcher", "Named", "facts", "order"]

log = logging.getLogger(__name__)


class Named(NamedTuple):
    """A hook with its file: the base name, and the path for messages."""

    file: str
    path: str
    hook: Hook


class Decision(NamedTuple):
    """Whether a container gets a hook, and in words a person understands which condition decided that."""

    named: Named
    matched: bool
    reason: str


def order(named: Named) -> tuple[str, str]:
    """Returns what hooks are ordered by: the file's name in lower case, then as it is, by code point."""
    name = named.file
    # Rune by rune, as Go does: in a word Python makes another letter of a final sigma, and two of an İ anywhere.
    return name.lower() if name.isascii() else "".join(map(_lower, name)), name


def _lower(character: str) -> str:
    if "\ud800" <= character <= "\udfff":  # a byte of a name that is not UTF-8
        return "\ufffd"
    return character.lower()[0]


class Matcher:
    """Hooks in the order of their injection, ready to be matched with many containers."""

    def __init__(self, hooks: Iterable[Named]) -> None:
        """Takes the hooks in any order."""
        hooks = sorted(hooks, key=order)
        whens = [named.hook.when for named in hooks]
        self._conditions = Conditions(
            pairs=chain.from_iterable(when.annotations for when in whens),
            commands=chain.from_iterable(when.commands for when in whens),
        )
        self._rows = [_Row.of(named, self._conditions) for named in hooks]
        self._regardless = {
            binds: [index for index, row in enumerate(self._rows) if row.holds({}, binds)] for binds in (False, True)
        }
        """Hooks that a container gets whatever its annotations and command are."""
        self._depending: dict[int, list[int]] = {}
        """Hooks by conditions of which one at least must be met."""
        uses = Counter(chain.from_iterable(row.pairs + row.commands for row in self._rows))
        for index, row in enumerate(self._rows):
            for condition in row.keys(uses):
                self._depending.setdefault(condition, []).append(index)

    def prepare(self) -> None:
        """Does before the first container comes what it would have to wait for; for a thousand hooks some 30 ms."""
        self._conditions.prepare()

    def match(self, facts: Facts) -> list[Named]:
        """Returns the hooks that the container gets, in order."""
        found = self._conditions.met_by(facts.annotations, facts.command)
        candidates = set(self._regardless[facts.has_bind_mounts])
        for condition in found.met:
            candidates.update(self._depending.get(condition, ()))
        if found.undecided:
            self._report(facts, found)
        rows = map(self._rows.__getitem__, sorted(candidates))
        return [row.named for row in rows if row.holds(found.met, facts.has_bind_mounts)]

    def explain(self, facts: Facts) -> list[Decision]:
        """Returns the verdict on every hook, in order, with its reason."""
        found = self._conditions.met_by(dict(sorted(facts.annotations.items())), facts.command)
        return [row.decision(facts, found) for row in self._rows]

    def _report(self, facts: Facts, found: Findings) -> None:
        """Says which hooks a container does not get only because to find out would have taken too long."""
        perhaps = {**found.undecided, **found.met}
        for row in self._rows:
            if row.holds(perhaps, facts.has_bind_mounts) and not row.holds(found.met, facts.has_bind_mounts):
                log.warning("hook %s is not injected: %s", row.named.path, row.decision(facts, found).reason)


class _Row(NamedTuple):
    """A hook and the numbers of its conditions."""

    named: Named
    pairs: tuple[int, ...]
    commands: tuple[int, ...]

    @classmethod
    def of(cls, named: Named, conditions: Conditions) -> _Row:
        when = named.hook.when
        return cls(
            named,
            tuple(map(conditions.about_annotations.__getitem__, when.annotations)),
            tuple(map(conditions.about_command.__getitem__, when.commands)),
        )

    def keys(self, uses: Mapping[int, int]) -> tuple[int, ...]:
        """Returns conditions of which at least one must be met, those that the fewest hooks have."""
        if self.named.hook.when.any_of:
            return self.pairs + self.commands
        choices = [(pair,) for pair in self.pairs] + ([self.commands] if self.commands else [])
        return min(choices, key=lambda keys: sum(uses[key] for key in keys), default=())

    def holds(self, met: Mapping[int, str], has_bind_mounts: bool) -> bool:
        """Whether the container gets the hook."""
        when = self.named.hook.when
        if when.any_of:
            return (
                when.always is True
                or (when.has_bind_mounts is True and has_bind_mounts)
                or any(condition in met for condition in self.pairs + self.commands)
            )
        if when.always is False or (
            when.has_bind_mounts is not None and not (when.has_bind_mounts and has_bind_mounts)
        ):
            return False
        if not all(pair in met for pair in self.pairs):
            return False
        if self.commands:
            return any(command in met for command in self.commands)
        return when.always is True or when.has_bind_mounts is True or bool(self.pairs)

    def decision(self, facts: Facts, found: Findings) -> Decision:
        """The same, with the reason."""
        conditions = list(self._conditions(facts, found))
        any_of = self.named.hook.when.any_of
        matched = bool(conditions) and (any if any_of else all)(held for held, _ in conditions)
        if not conditions:
            return Decision(self.named, False, "no condition is given, so it never matches")
        if matched == any_of:
            return Decision(self.named, matched, next(words for held, words in conditions if held == matched))
        return Decision(self.named, matched, " and ".join(words for _, words in conditions))

    def _conditions(self, facts: Facts, found: Findings) -> Iterator[tuple[bool, str]]:
        """Yields for each condition whether it holds, in words."""
        when = self.named.hook.when
        if when.always is not None:
            yield when.always, "always is true" if when.always else "always is false, so it never matches"
        if when.has_bind_mounts is not None:
            yield when.has_bind_mounts and facts.has_bind_mounts, _binds(when.has_bind_mounts, facts.has_bind_mounts)
        for pair, number in zip(when.annotations, self.pairs, strict=True):
            yield number in found.met, _annotation(pair, number, facts, found)
        if when.commands:
            yield any(number in found.met for number in self.commands), self._command(facts, found)

    def _command(self, facts: Facts, found: Findings) -> str:
        patterns = self.named.hook.when.commands
        for pattern, number in zip(patterns, self.commands, strict=True):
            if number in found.met:
                return f"the command {_quoted(facts.command)} matches {_quoted(pattern)}"
        if facts.command is None:
            return "it has no args, so no command to match"
        if not found.undecided.keys().isdisjoint(self.commands):
            return f"the command {_quoted(facts.command)} would take too long to match"
        return f"the command {_quoted(facts.command)} matches none of {', '.join(map(_quoted, patterns))}"


def _binds(wanted: bool, has: bool) -> str:
    if not wanted:
        return "hasBindMounts is false, so it never matches"
    return "it has bind mounts" if has else "it has no bind mounts but the runtime's own"


def _annotation(pair: tuple[str, str], number: int, facts: Facts, found: Findings) -> str:
    patterns = _pair(*pair)
    if number in found.met:
        key = found.met[number]
        return f"the annotation {_pair(key, facts.annotations[key])} matches {patterns}"
    if number in found.undecided:
        return f"the annotation {_quoted(found.undecided[number])} would take too long to match with {patterns}"
    return f"no annotation matches {patterns}"


def _pair(key: str, value: str) -> str:
    return f"{_quoted(key)}: {_quoted(value)}"


def _quoted(text: str | None) -> str:
    """Returns a text of a pod or a file as it can stand in a line."""
    shown = repr(text)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


_SHOWN = 100
