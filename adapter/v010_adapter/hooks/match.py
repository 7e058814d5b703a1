"""Which hooks a container gets, in which order; and the adjustment that injects them. Pure.

Source: go.podman.io/common/pkg/hooks, hooks.go (Manager.Hooks) and 1.0.0/when.go (When.Match).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, KeysView, Mapping, Set
from itertools import chain
from typing import NamedTuple, TypeAlias

from nri.proto import nri_pb2 as api
from nri.text import printable
from v010_adapter.hooks.facts import Facts
from v010_adapter.hooks.model import IN_CONTAINER, RUNTIME_STAGES, STAGES, Hook, When
from v010_adapter.hooks.patterns import Patterns

USUAL_KEYS, USUAL_KEY = 1024, 317
"""Maximum number and length of the remembered keys that match no pattern. Kubernetes allows 317 characters."""
ANNOTATION_STEPS, PAIR_STEPS = 3000, 700
"""The time of an annotation besides RE2's, and the time that each pair of patterns adds, in steps of RE2.

Measured: 11 µs for an annotation, and 2.5 µs for each pair that matches it.
"""
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
    """A hook as it is in force: with its file's name, the file's path for messages, and what the configuration adds."""

    file: str
    path: str
    hook: Hook
    default_timeout: int = 0
    """The seconds that count if the file has no timeout, 0 for none."""
    not_in: Set[str] = frozenset()
    """The namespaces whose containers do not get the hook."""

    @property
    def timeout(self) -> int | None:
        """The seconds after which the hook is killed, None for no limit."""
        return (self.default_timeout or None) if self.hook.timeout is None else self.hook.timeout


class Place(NamedTuple):
    """The place of a hook in a container, as the OCI runtime's errors name it. Hooks of a stage count from 0."""

    stage: str
    number: int
    file: str

    def __str__(self) -> str:
        return f"{self.stage} #{self.number}: {self.file}"


def sort_key(named: NamedHook) -> tuple[str, str]:
    """Returns the sort key of hooks: the file's name in lower case, then the name itself, by code point."""
    return lower_case(named.file), named.file


def lower_case(name: str) -> str:
    """Lower-cases a file's name as Go does, rune by rune. Python lower-cases a final sigma and İ in another way."""
    if name.isascii():
        return name.lower()
    # A lone surrogate is a byte of a name that is not UTF-8.
    return "".join("\ufffd" if "\ud800" <= rune <= "\udfff" else rune.lower()[0] for rune in name)


class Rule(NamedTuple):
    """A hook with its conditions, in the order in which people are told them."""

    named: NamedHook
    conditions: KeysView[Condition]
    any_of: bool

    def holds(self, holding: Set[Condition]) -> bool:
        """Whether a container gets the hook if these conditions hold for it."""
        return not self.conditions.isdisjoint(holding) if self.any_of else self.conditions <= holding


class Matcher:
    """Hooks in the order of their injection. Their patterns are compiled once for all containers."""

    def __init__(self, hooks: Iterable[NamedHook]) -> None:
        """Takes hooks in any order, with valid patterns."""
        self.rules = [
            Rule(named, dict.fromkeys(_conditions(named.hook.when)).keys(), named.hook.when.any_of)
            for named in sorted(hooks, key=sort_key)
        ]
        """The hooks in order, with their conditions."""
        whens = [rule.named.hook.when for rule in self.rules]
        self.looks_at_mounts = any(when.has_bind_mounts for when in whens)
        """Whether a hook needs `Facts.has_bind_mounts`."""
        self._command_lists = {Commands(tuple(when.commands)) for when in whens if when.commands}
        self._pairs: dict[str, set[str]] = {}
        """The patterns for values, by the pattern for the key."""
        for key, value in chain.from_iterable(when.annotations for when in whens):
            self._pairs.setdefault(key, set()).add(value)
        self._unmatched: set[str] = set()
        """Keys that match no pattern. They are remembered, because most containers of a node have the same keys."""
        self._steps = ANNOTATION_STEPS + PAIR_STEPS * sum(map(len, self._pairs.values()))
        self._keys, self._values = Patterns(self._pairs), Patterns(chain.from_iterable(self._pairs.values()))
        self._commands = Patterns(chain.from_iterable(one.patterns for one in self._command_lists))

    @property
    def fields(self) -> list[str]:
        """The fields of a container that the conditions read as `oci.sizes` names them."""
        reads = {"annotations": self._pairs, "command": self._command_lists, "mounts": self.looks_at_mounts}
        return [field for field, is_read in reads.items() if is_read]

    def work(self, facts: Facts) -> int:
        """Returns the maximum number of steps of `match`: in RE2, bytes times instructions; and those of the calls."""
        texts, of_key, of_value = facts.annotations, self._keys.size, self._values.size
        new = [(key, texts[key]) for key in texts if key not in self._unmatched] if self._pairs else []
        steps = sum(len(key.encode()) * of_key + len(value.encode()) * of_value for key, value in new)
        return steps + len(new) * self._steps + len((facts.command or "").encode()) * self._commands.size

    def match(self, facts: Facts) -> list[NamedHook]:
        """Returns the hooks that a container gets, in order."""
        return self.chosen(self.choice(facts))

    def choice(self, facts: Facts) -> bytes:
        """Returns for each hook, in order, 1 if the container gets the hook, else 0."""
        holding, namespace = self.find(facts).keys(), facts.namespace
        return bytes(rule.holds(holding) and namespace not in rule.named.not_in for rule in self.rules)

    def chosen(self, choice: bytes) -> list[NamedHook]:
        """Returns the hooks of a choice."""
        return [rule.named for rule, is_chosen in zip(self.rules, choice, strict=True) if is_chosen]

    def find(self, facts: Facts) -> dict[Condition, str]:
        """Returns the conditions that hold, each with the key of the annotation or the pattern of the command."""
        found: dict[Condition, str] = {ALWAYS: "", **self._find_pairs(facts.annotations)}
        if matching := set() if facts.command is None else self._commands.find(facts.command):
            hits = ((commands, matching.intersection(commands.patterns)) for commands in self._command_lists)
            found.update({commands: max(patterns) for commands, patterns in hits if patterns})
        if facts.has_bind_mounts:
            found[BIND_MOUNTS] = ""
        return found

    def _find_pairs(self, annotations: Mapping[str, str]) -> dict[Condition, str]:
        """Returns the pairs of patterns that match an annotation, each with the first key in sorted order."""
        pairs: dict[Condition, str] = {}
        for key in sorted(annotations.keys() - self._unmatched) if self._pairs else ():
            for pair in self._pairs_of(key, annotations[key]):
                pairs.setdefault(pair, key)
        return pairs

    def _pairs_of(self, key: str, value: str) -> Iterator[tuple[str, str]]:
        """Yields the pairs of patterns that match an annotation. Remembers a key that matches no pattern."""
        if key_patterns := self._keys.find(key):
            value_patterns = self._values.find(value)
            for pattern in key_patterns:
                for value_pattern in self._pairs[pattern] & value_patterns:
                    yield pattern, value_pattern
        elif len(key) <= USUAL_KEY:
            if len(self._unmatched) >= USUAL_KEYS:
                self._unmatched.clear()
            self._unmatched.add(key)

    def deciding(self, chosen: Iterable[NamedHook], annotations: Mapping[str, str]) -> dict[str, str]:
        """Returns the annotations that match a condition of one of the chosen hooks. Takes as long as `match`."""
        wanted = {pair for named in chosen for pair in named.hook.when.annotations}
        keys = annotations.keys() - self._unmatched if wanted else ()
        return {
            key: annotations[key]
            for key in keys
            if any(map(wanted.__contains__, self._pairs_of(key, annotations[key])))
        }


def adjustment(hooks: Iterable[NamedHook], journal: str = "") -> api.ContainerAdjustment | None:
    """Returns the adjustment that injects hooks in their order, None if there is nothing to inject.

    `journal` is the path of systemd-cat, if it is to run the hooks: then their output is in the journal.
    """
    adjusted = api.ContainerAdjustment()
    for named in hooks:
        hook, timeout = named.hook, named.timeout
        limit = None if timeout is None else api.OptionalInt(value=timeout)
        message = api.Hook(path=hook.path, args=hook.args, env=hook.env, timeout=limit)
        logged = _logged(message, named.file, journal) if journal else message
        for stage in hook.stages:
            if stage in STAGES:
                getattr(adjusted.hooks, STAGES[stage]).append(message if stage == IN_CONTAINER else logged)
    return adjusted if adjusted.HasField("hooks") else None


def _logged(message: api.Hook, file: str, journal: str) -> api.Hook:
    """Returns the hook as systemd-cat runs it: with the same stdin, variables and pid, and its path as argv[0]."""
    args = ["systemd-cat", "-t", printable(file), message.path, *message.args[1:]]
    timeout = message.timeout if message.HasField("timeout") else None
    return api.Hook(path=journal, args=args, env=message.env, timeout=timeout)


def counts(hooks: api.Hooks) -> Counter[str]:
    """Returns the number of hooks at each stage, by NRI's field."""
    return Counter({field.name: len(listed) for field, listed in hooks.ListFields()})


def places(hooks: Iterable[NamedHook], before: Counter[str]) -> list[Place]:
    """Returns the places of injected hooks, in the order of the stages; `before` counts the hooks that come first."""
    by_field: dict[str, list[str]] = {field: [] for field in RUNTIME_STAGES}
    for named in hooks:
        for stage in named.hook.stages:
            if stage in STAGES:
                by_field[STAGES[stage]].append(named.file)
    return [
        Place(RUNTIME_STAGES[field], number, file)
        for field, files in by_field.items()
        for number, file in enumerate(files, before[field])
    ]


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
