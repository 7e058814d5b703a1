"""Patterns as RE2 takes them: some hundred of them in one Filter, or one that no Filter takes.

A Filter finds the literals that its patterns require, and tries only patterns whose literals are there, each with an
automaton of its own.
"""

from __future__ import annotations

import functools
import re
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

MAX_MEMORY = 1 << 20
"""Bytes for a pattern's program, a quarter of this, and its automata; RE2's own limit is eight times as much."""
SIZE = 24 << 10
"""Characters of patterns in one Filter; RE2 refuses more than twice as many literals."""
LAST = 1024
"""One pattern of so many is the last of a Filter, so that another one more or less changes few of them."""
_ASSERTION = re.compile(r"[\^$]|\\[bBAz]")
"""What looks at the ends of a text or of a word; perhaps, for in a class it means something else."""
Searcher: TypeAlias = Callable[[bytes], bool]
_SENTINEL = "\0is this on?\0"
"""A literal in each Filter that tells whether it finds any."""


@functools.cache
def options() -> Any:
    """Returns RE2's options for patterns of hooks."""
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415 - only where there are patterns

    made = re2.Options()
    made.log_errors = False
    made.never_capture = True
    made.max_mem = MAX_MEMORY
    return made


def compiled(pattern: str) -> Any:
    """Returns one pattern by itself. Raises re2.error."""
    import re2  # noqa: PLC0415

    return re2.compile(pattern, options())


class Shard:
    """Some of many patterns, which have numbers that follow each other."""

    def __init__(self, first: int, filter_: Any, patterns: Sequence[str]) -> None:
        """Takes the first number, and a Filter of the patterns and the sentinel."""
        self.first = first
        self._filter = filter_
        self._sentinel = len(patterns)
        unselective = filter_.Match(b"", potential=True) or ()
        self._unselective = [first + index for index in unselective]
        """The patterns that require no literal, so that any text is a candidate for them."""
        self._rest: Any = _filter([patterns[index] for index in unselective])
        self._is_free = not any(_ASSERTION.search(patterns[index]) for index in unselective)
        """Whether what they match in one text they match in several together, too."""

    def find(self, text: bytes) -> list[int]:
        """Returns the numbers of the patterns that match."""
        return self._numbers(self._filter.Match(text, False))

    def _find_unselective(self, text: bytes) -> list[int]:
        return [self._unselective[index] for index in self._rest.Match(text, False) or ()]

    def candidates_each(self, texts: Sequence[bytes], candidates: Sequence[list[int]]) -> None:
        """Adds for each of a few texts the numbers of the patterns that may match any of them."""
        together = self._numbers(self._filter.Match(b"\n".join(texts), True))
        for numbers in candidates:
            numbers.extend(together)

    def _numbers(self, found: list[int] | None) -> list[int]:
        if not found:
            return []
        if found[-1] == self._sentinel:
            del found[-1]
        first = self.first
        return [first + index for index in found] if first else found

    def find_each(self, texts: Sequence[bytes], found: Sequence[list[int]]) -> None:
        """Adds for each of a few texts the numbers of the patterns that match."""
        joined = b"\n".join(texts)
        together = self._filter.Match(joined, True)
        if together is None:
            return
        find = self.find
        if len(together) == len(self._unselective):
            if self._is_free and self._rest.Match(joined, False) is None:
                return
            find = self._find_unselective
        for text, numbers in zip(texts, found, strict=True):
            numbers.extend(find(text))

    def searcher(self, number: int) -> Searcher:
        """Returns what tells whether one pattern matches a text."""
        search = self._filter.re(number - self.first).search
        return lambda text: search(text) is not None


class Single:
    """A pattern that requires more literals than a Filter can look for."""

    def __init__(self, first: int, pattern: str) -> None:
        """Takes its number, and the pattern."""
        self.first = first
        self._pattern = compiled(pattern)

    def find(self, text: bytes) -> list[int]:
        """Returns its number if it matches."""
        return [] if self._pattern.search(text) is None else [self.first]

    def candidates_each(self, texts: Sequence[bytes], candidates: Sequence[list[int]]) -> None:
        """Adds its number for every text."""
        for numbers in candidates:
            numbers.append(self.first)

    def find_each(self, texts: Sequence[bytes], found: Sequence[list[int]]) -> None:
        """Adds its number for texts that it matches."""
        for text, numbers in zip(texts, found, strict=True):
            numbers.extend(self.find(text))

    def searcher(self, _: int) -> Searcher:
        """Returns what tells whether it matches a text."""
        search = self._pattern.search
        return lambda text: search(text) is not None


def shards(patterns: Sequence[str], first: int) -> Iterator[Shard | Single]:
    """Yields good patterns in shards that RE2 takes; their numbers begin with `first`."""
    for part in _parts(patterns):
        yield from _made(part, first)
        first += len(part)


def _parts(patterns: Iterable[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0
    for pattern in patterns:
        if part and size + len(pattern) > SIZE:
            yield part
            part, size = [], 0
        part.append(pattern)
        size += len(pattern)
        if zlib.crc32(pattern.encode()) % LAST == 0:
            yield part
            part, size = [], 0
    if part:
        yield part


def _made(patterns: Sequence[str], first: int) -> Iterator[Shard | Single]:
    filter_ = _filter(patterns)
    if filter_ is not None:
        yield Shard(first, filter_, patterns)
    elif len(patterns) == 1:
        yield Single(first, patterns[0])
    else:
        middle = len(patterns) // 2
        yield from _made(patterns[:middle], first)
        yield from _made(patterns[middle:], first + middle)


_filters: weakref.WeakValueDictionary[tuple[str, ...], Any] = weakref.WeakValueDictionary()
"""Those in use: hooks of which few are new have most of them in common with those before."""


def _filter(patterns: Sequence[str]) -> Any:
    """Returns a Filter of the patterns; None if they require more literals than it can look for."""
    known = _filters.get(tuple(patterns))
    if known is None:
        known = _new_filter(patterns)
        if known is not None:
            _filters[tuple(patterns)] = known
    return known


def _new_filter(patterns: Sequence[str]) -> Any:
    import re2  # noqa: PLC0415

    made = _type()()
    for pattern in (*patterns, re2.escape(_SENTINEL)):
        made.Add(pattern, options())
    try:
        made.Compile()
    except re2.error:
        return None
    # The automaton that looks for the literals would be silent about having no memory.
    heard = made.Match(_SENTINEL, potential=True)
    return made if heard and heard[-1] == len(patterns) else None


@functools.cache
def _type() -> type[Any]:
    """Returns a Filter that weak references take."""
    import re2  # noqa: PLC0415

    return type("Filter", (re2.Filter,), {})
