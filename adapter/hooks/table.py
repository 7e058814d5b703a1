"""Pairs of patterns, for the key and the value of an annotation, in the form in which they are looked up together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from adapter.hooks.patterns import ANYTHING, Patterns

ANY = -1
"""Number of the pattern that every text matches."""

FEW = 4
"""Patterns that are sooner searched for one by one than all together."""

Pair = tuple[str, str]
"""Patterns for the key and the value of an annotation. A command is the value of a nameless one."""


class Table:
    """Conditions by their pairs of patterns."""

    def __init__(self, conditions: Mapping[Pair, int], before: Table | None = None) -> None:
        """Takes the conditions' numbers by their pairs, and a table of nearly the same ones to make it faster."""
        self.conditions = frozenset(conditions.values())
        known = () if before is None else (before.keys, before.values)
        self.keys: Patterns = _patterns((key for key, _ in conditions), known)
        self.values: Patterns = _patterns((value for _, value in conditions), known)
        self.by_key: dict[int, dict[int, int]] = {}
        """By the pattern for the key, the conditions by the pattern for the value."""
        for (key, value), condition in conditions.items():
            by_value = self.by_key.setdefault(self.keys.numbers.get(key, ANY), {})
            by_value[self.values.numbers.get(value, ANY)] = condition

    def __bool__(self) -> bool:
        """Whether there is any condition."""
        return bool(self.conditions)

    def prepare(self) -> None:
        """Makes the patterns ready before they are needed."""
        self.keys.prepare()
        self.values.prepare()

    def look(self, texts: Sequence[tuple[str, str]], met: dict[int, str]) -> None:
        """Adds the conditions that annotations meet."""
        keys = self.keys.find_each([key.encode() for key, _ in texts])
        if ANY in self.by_key:
            for found in keys:
                found.append(ANY)
        promising = [index for index, found in enumerate(keys) if found]
        if not promising:
            return
        for index, found in zip(promising, self._values_of(promising, keys, texts), strict=True):
            matching = {ANY, *found}
            for number in keys[index]:
                by_value = self.by_key[number]
                # Either may be large; this takes as long as the smaller one.
                for value in by_value.keys() & matching:
                    met.setdefault(by_value[value], texts[index][0])

    def _values_of(
        self, promising: Sequence[int], keys: Sequence[Sequence[int]], texts: Sequence[tuple[str, str]]
    ) -> list[list[int]]:
        """Returns for the values of promising annotations the patterns that match, those at least that matter."""
        values = [texts[index][1].encode() for index in promising]
        if sum(len(self.by_key[number]) for index in promising for number in keys[index]) > FEW:
            return self.values.find_each(values)
        wanted = ({*chain.from_iterable(self.by_key[number] for number in keys[index])} - {ANY} for index in promising)
        search = self.values.search
        return [
            [number for number in each if search(number, value)] for each, value in zip(wanted, values, strict=True)
        ]

    def slow(self, texts: Iterable[tuple[str, str]]) -> set[str]:
        """Returns the patterns that take long for annotations."""
        keys, values = ([text.encode() for text in each] for each in zip(*texts, strict=True))
        return self.keys.slow(keys) | self.values.slow(values)


def _patterns(texts: Iterable[str], known: Iterable[Patterns]) -> Patterns:
    """Returns the patterns that have to be looked for, ready ones if there are."""
    distinct = dict.fromkeys(text for text in texts if text not in ANYTHING)
    return next((patterns for patterns in known if patterns.numbers.keys() == distinct.keys()), None) or Patterns(
        distinct
    )
