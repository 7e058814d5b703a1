"""Pairs of patterns, for the key and the value of an annotation, in the form in which they are looked up together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
        return any(number in patterns.unselective for patterns, number, _ in self.searches)


class Table:
    """Conditions by their pairs of patterns. A pair says of each of its patterns only once what all texts match."""

    def __init__(self, conditions: Mapping[Pair, int]) -> None:
        """Takes the conditions' numbers by their pairs."""
        self.conditions = conditions
        self._keys = Patterns(key for key, _ in conditions if key not in ANYTHING)
        self._values = Patterns(value for _, value in conditions if value not in ANYTHING)
        self._by_key: dict[int, dict[int, int]] = {}
        for (key, value), condition in conditions.items():
            by_value = self._by_key.setdefault(self._keys.numbers.get(key, ANY), {})
            by_value[self._values.numbers.get(value, ANY)] = condition
        self._by_any_key = self._by_key.get(ANY)

    def __bool__(self) -> bool:
        """Whether there is any condition."""
        return bool(self.conditions)

    def look(self, key: str, value: str, met: dict[int, str]) -> None:
        """Adds the conditions that an annotation meets."""
        keys = self._keys.find(key.encode())
        if not keys and self._by_any_key is None:
            return
        values = self._values.find(value.encode())
        values.append(ANY)
        for by_key in (ANY, *keys):
            by_value = self._by_key.get(by_key)
            if by_value is not None:
                for number in by_value.keys() & values:
                    met.setdefault(by_value[number], key)

    def questions(self, key: str, value: str) -> Iterator[Question]:
        """Yields what is to be asked about an annotation, to know which conditions it meets."""
        key_text, value_text = key.encode(), value.encode()
        values: set[int] | None = None
        for by_key in (ANY, *self._keys.find(key_text, candidates=True)):
            by_value = self._by_key.get(by_key)
            if by_value is None:
                continue
            if values is None:
                values = {ANY, *self._values.find(value_text, candidates=True)}
            key_search = [] if by_key == ANY else [(self._keys, by_key, key_text)]
            for number in by_value.keys() & values:
                value_search = [] if number == ANY else [(self._values, number, value_text)]
                yield Question(by_value[number], key, [*key_search, *value_search])

    def slow(self, key: str, value: str) -> set[str]:
        """Returns the patterns that take long for an annotation that is short."""
        return self._keys.slow(key.encode()) | self._values.slow(value.encode())
