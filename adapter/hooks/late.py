"""Searches that may take long: whether one does is seen from parts of its texts, against an easy search of as much.

A pattern that is about as fast as others is searched for whatever the texts' size is, which takes time in proportion;
so what a hook is decided on does not depend on how fast the machine is or what else it does. Only what is many times
slower, as automata are that explode, is limited to so much work.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import accumulate, count

from adapter.hooks.patterns import SAMPLES, SLOW, Patterns
from adapter.hooks.table import ANY, Table

PARTS = (512, 4096)
"""Bytes of the samples that are tried; some patterns become slow only with more text."""
TEXTS = 16
"""At most so many texts are in one sample."""
CALL = 1024
"""A search of nothing takes as long as an easy one of so many bytes more."""
WORK = 4 << 20
"""Bytes that could be searched easily instead of all that is many times slower."""


class Allowance:
    """How much slow work is still to be done for one container."""

    def __init__(self, work: float) -> None:
        """Takes the work, in bytes of an easy search."""
        self._left = work

    def search(self, patterns: Patterns, number: int, texts: Mapping[int, bytes]) -> set[int] | None:
        """Returns in which of the texts a pattern is found; None if to find out is too much work."""
        if not self._covers(patterns, number, list(texts.values())):
            return None
        search = patterns.searcher(number)
        return {index for index, text in texts.items() if search(text)}

    def _covers(self, patterns: Patterns, number: int, texts: list[bytes]) -> bool:
        size = sum(map(len, texts))
        if size <= PARTS[0]:
            return True
        costs = (patterns.cost(number, _samples(texts, part)) for part in PARTS)
        cost = next((cost for cost in costs if cost > SLOW), 0)
        work = cost * (size + CALL * len(texts))
        if work > self._left:
            return False
        self._left -= work
        return True


def _samples(texts: Iterable[bytes], size: int) -> list[list[bytes]]:
    """Returns parts of texts of about this size; others each time, for an automaton gets used to a text."""
    pieces = [text[start : start + size] for text in texts for start in range(0, len(text), size)]
    turn = next(_turns) * (TEXTS + 1)  # odd, so that it takes long to come back
    starts = ((turn + len(pieces) * number // SAMPLES) % len(pieces) for number in range(SAMPLES))
    return [_first(pieces[start : start + TEXTS], size) for start in starts]


_turns = count()


def _first(pieces: list[bytes], size: int) -> list[bytes]:
    """Returns so many of the pieces that they have this size."""
    ends = accumulate(map(len, pieces))
    return pieces[: next((number for number, end in enumerate(ends, 1) if end >= size), TEXTS)]


def look(
    table: Table, texts: Sequence[tuple[str, str]], allowance: Allowance, met: dict[int, str], undecided: dict[int, str]
) -> None:
    """Adds the conditions that annotations meet, and those of which it would take too much work to know."""
    keys = _Side(table.keys, {index: key.encode() for index, (key, _) in enumerate(texts)}, allowance)
    passed = {number: keys.found(number, keys.texts) for number in table.by_key.keys() & keys.likely.keys()}
    promising = sorted({index for found in passed.values() for index in found or ()})
    values = _Side(table.values, {index: texts[index][1].encode() for index in promising}, allowance)
    for by_key, indexes in passed.items():
        by_value = table.by_key[by_key]
        if indexes is None:
            key = texts[keys.likely[by_key][0]][0]
            undecided |= dict.fromkeys(by_value.values(), key)
            continue
        for number in by_value.keys() & values.likely.keys():
            found = values.found(number, indexes)
            if found is None:
                undecided[by_value[number]] = texts[values.likely[number][0]][0]
            elif found:
                met.setdefault(by_value[number], texts[min(found)][0])
    for condition in met.keys() & undecided.keys():
        del undecided[condition]


class _Side:
    """The keys of annotations, or the values of some, and the patterns for them."""

    def __init__(self, patterns: Patterns, texts: dict[int, bytes], allowance: Allowance) -> None:
        self.texts = texts
        self.likely: dict[int, list[int]] = {ANY: list(texts)} if texts else {}
        """By pattern, the texts that may match it."""
        self._patterns = patterns
        self._allowance = allowance
        for index, candidates in zip(texts, patterns.candidates_each(list(texts.values())), strict=True):
            for number in candidates:
                self.likely.setdefault(number, []).append(index)

    def found(self, number: int, among: Container[int]) -> set[int] | None:
        """Returns which of these texts a pattern matches; None if to find out is too much work."""
        indexes = [index for index in self.likely[number] if index in among]
        if number == ANY or not indexes:
            return set(indexes)
        return self._allowance.search(self._patterns, number, {index: self.texts[index] for index in indexes})
