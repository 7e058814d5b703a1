"""Pairs of patterns, for the key and the value of an annotation, in the form in which they are looked up together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from adapter.hooks.patterns import ANYTHING, Patterns

ANY = -1
"""Number of the pattern that every text matches."""

Pair = tuple[str, str]
"""Patterns for the key and the value of an annotation. A command is the value of a nameless one."""
Search = tuple[Patterns, int, bytes]
"""A pattern, by its number, and the text it is looked for in."""


class Question(NamedTuple):
    """Whether an annotation, known by its key, meets a condition: whether all of these searches succeed."""

    condition: int
    key: str
    searches: list[Search]

    def is_unselective(self) -> bool:
        """Whether a pattern is among them for which every text is a candidate."""
        return any(patterns.is_unselective(number) for patterns, number, _ in self.searches)


class Table:
    """Conditions by their pairs of patterns."""

    def __init__(self, conditions: Mapping[Pair, int], before: Table | None = None) -> None:
        """Takes the conditions' numbers by their pairs, and a table of nearly the same ones to make it faster."""
        self.conditions = frozenset(conditions.values())
        known = () if before is None else (before._keys, before._values)
        self._keys: Patterns = _patterns((key for key, _ in conditions), known)
        self._values: Patterns = _patterns((value for _, value in conditions), known)
        self._by_key: dict[int, dict[int, int]] = {}
        for (key, value), condition in conditions.items():
            by_value = self._by_key.setdefault(self._keys.numbers.get(key, ANY), {})
            by_value[self._values.numbers.get(value, ANY)] = condition

    def __bool__(self) -> bool:
        """Whether there is any condition."""
        return bool(self.conditions)

    def prepare(self) -> None:
        """Makes the patterns ready before they are needed."""
        self._keys.prepare()
        self._values.prepare()

    def look(self, texts: Sequence[tuple[str, str]], met: dict[int, str]) -> None:
        """Adds the conditions that annotations meet."""
        keys = self._keys.find_each([key.encode() for key, _ in texts])
        if ANY in self._by_key:
            for found in keys:
                found.append(ANY)
        promising = [index for index, found in enumerate(keys) if found]
        if not promising:
            return
        values = self._values.find_each([texts[index][1].encode() for index in promising])
        for index, found in zip(promising, values, strict=True):
            matching = {ANY, *found}
            for number in keys[index]:
                by_value = self._by_key[number]
                # Either may be large; this takes as long as the smaller one.
                for value in by_value.keys() & matching:
                    met.setdefault(by_value[value], texts[index][0])

    def questions(self, key: str, value: str) -> Iterator[Question]:
        """Yields what is to be asked about an annotation, to know which conditions it meets."""
        key_text, value_text = key.encode(), value.encode()
        values: set[int] | None = None
        for by_key in (ANY, *self._keys.candidates(key_text)):
            by_value = self._by_key.get(by_key)
            if by_value is None:
                continue
            if values is None:
                values = {ANY, *self._values.candidates(value_text)}
            key_search = [] if by_key == ANY else [(self._keys, by_key, key_text)]
            for number in by_value.keys() & values:
                value_search = [] if number == ANY else [(self._values, number, value_text)]
                yield Question(by_value[number], key, [*key_search, *value_search])

    def slow(self, key: str, value: str) -> set[str]:
        """Returns the patterns that take long for an annotation that is short."""
        return self._keys.slow(key.encode()) | self._values.slow(value.encode())


def _patterns(texts: Iterable[str], known: Iterable[Patterns]) -> Patterns:
    """Returns the patterns that have to be looked for, ready ones if there are."""
    distinct = dict.fromkeys(text for text in texts if text not in ANYTHING)
    return next((patterns for patterns in known if patterns.numbers.keys() == distinct.keys()), None) or Patterns(
        distinct
    )
