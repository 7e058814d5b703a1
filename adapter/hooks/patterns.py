"""Regular expressions of hook files, many at a time, with RE2: Go's syntax, linear time, whoever wrote the text.

RE2's Set would be the obvious means, but its automaton has nothing to fall back on: one pattern that makes it explode
makes it crawl for all of them, and when its memory is gone it reports nothing. The literals that patterns require
cannot explode, and with them few patterns have to be tried. Most need not even that: they are a literal, or a few,
from end to end. RE2 is imported when there are others.
"""

from __future__ import annotations

import functools
import itertools
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from adapter.hooks.shard import Searcher, Shard, Single, compiled, options, shards

ANYTHING = frozenset({"", ".*", "^", "^.*"})
"""Patterns that every text matches."""
LARGE = 500
"""Instructions of a program, of which most have fewer than 50."""
GROUP = 8
"""Texts that are looked at together first, for mostly nothing is found in any of them."""
SLOW = 5
"""Times as long as an easy search. Usual is 1, or 4 where all of a long text matches; exploding takes 6 and more."""
SAMPLES = 4
"""Of so many texts, or parts of one, the fastest tells."""
_EASY = r"[\x00\x01]\x02"
"""What is easy to find nowhere: no literal to jump to, and an automaton of a few states."""
_LITERAL = r"(?:[^\\.+*?()|\[\]{}^$]|\\[-./+*?()\[\]{}^$])*"
_LITERALS = re.compile(rf"\^(?:({_LITERAL})|\((?:\?:)?({_LITERAL}(?:\|{_LITERAL})*)\))\$")
_MAY_BE_LARGE = re.compile(r"[{\x80-\U0010ffff]|\\[pP]|.{50}", re.DOTALL)
_ESCAPE = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(.)", re.DOTALL)


_Adding = Callable[[Sequence[bytes], Sequence[list[int]]], None]


def fault(patterns: Iterable[str]) -> tuple[str, str] | None:
    """Returns the first pattern that is none, and why; None if all are good."""
    for pattern in patterns:
        if pattern in ANYTHING or _LITERALS.fullmatch(pattern):
            continue
        import re2  # type: ignore[import-untyped]  # noqa: PLC0415 - only where there are patterns

        try:
            _trial(next(_tried) // 256).Add(pattern)
            is_large(pattern)
        except re2.error:
            return pattern, _reason(pattern)
        if "\\C" in pattern and any(match[1] == "C" for match in _ESCAPE.finditer(pattern)):
            return pattern, "\\C, a single byte, is not in Go's syntax"
    return None


_tried = itertools.count()


@functools.lru_cache(maxsize=1)
def _trial(generation: int) -> Any:
    """Returns a Set, which parses patterns but does not compile them; a new one now and then, for it keeps them."""
    import re2  # noqa: PLC0415

    return re2.Set.SearchSet(options())


def is_large(pattern: str) -> bool:
    """Whether a pattern is too large to be tried along with others; one that is much too large is an error of RE2's."""
    return _MAY_BE_LARGE.search(pattern) is not None and compiled(pattern).programsize > LARGE


def _reason(pattern: str) -> str:
    import re2  # noqa: PLC0415

    try:
        compiled(pattern)
    except re2.error as error:
        text = error.args[0]
        return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return "not accepted"


class Patterns:
    """Distinct patterns, known by number, that are looked for together. RE2 gets them when they are first used."""

    def __init__(self, patterns: Iterable[str]) -> None:
        """Takes patterns that are good."""
        self.numbers: dict[str, int] = {}
        self._literals: dict[bytes, list[int]] = {}
        self._others: list[str] = []
        self._shards: list[Shard | Single] | None = None
        self._searchers: dict[int, Searcher] = {}
        for pattern in dict.fromkeys(patterns):
            match = _LITERALS.fullmatch(pattern)
            if match is None:
                self._others.append(pattern)
            else:
                self._add_literals(pattern, match)
        self._first = len(self.numbers)
        self.numbers.update(zip(self._others, range(self._first, self._first + len(self._others)), strict=True))

    def _add_literals(self, pattern: str, match: re.Match[str]) -> None:
        number = self.numbers[pattern] = len(self.numbers)
        for literal in [match[1]] if match[1] is not None else set(match[2].split("|")):
            self._literals.setdefault(literal.replace("\\", "").encode(), []).append(number)

    def prepare(self) -> list[Shard | Single]:
        """Hands the patterns to RE2 before they are needed."""
        if self._shards is None:
            self._shards = list(shards(self._others, self._first))
        return self._shards

    def find_each(self, texts: Sequence[bytes]) -> list[list[int]]:
        """Returns for each text the numbers of the patterns that match."""
        return self._each(texts, lambda shard: shard.find_each)

    def candidates_each(self, texts: Sequence[bytes]) -> list[list[int]]:
        """Returns for each text the numbers of patterns among which are all that match it."""
        return self._each(texts, lambda shard: shard.candidates_each)

    def _each(self, texts: Sequence[bytes], way: Callable[[Shard | Single], _Adding]) -> list[list[int]]:
        literals = self._literals
        found = [literals[text][:] if text in literals else [] for text in texts]
        for shard in self.prepare():
            add = way(shard)
            for start in range(0, len(texts), GROUP):
                add(texts[start : start + GROUP], found[start : start + GROUP])
        return found

    def search(self, number: int, text: bytes) -> bool:
        """Whether one pattern matches."""
        return self.searcher(number)(text)

    def searcher(self, number: int) -> Searcher:
        """Returns what tells whether one pattern matches a text."""
        known = self._searchers.get(number)
        if known is None:
            known = self._searchers[number] = self._searcher(number)
        return known

    def _searcher(self, number: int) -> Searcher:
        if number < self._first:
            return lambda text: number in self._literals.get(text, ())
        return next(shard for shard in reversed(self.prepare()) if shard.first <= number).searcher(number)

    def slow(self, texts: Sequence[bytes]) -> set[str]:
        """Returns the patterns that are slow with short texts, as far as the longest of them tell."""
        longest = sorted(texts, key=len)[-SAMPLES:]
        [candidates] = self.candidates_each([b"\n".join(longest)])
        return {
            pattern
            for pattern, number in self.numbers.items()
            if number in candidates and self.cost(number, [[text] for text in longest]) > SLOW
        }

    def cost(self, number: int, samples: Sequence[Sequence[bytes]]) -> float:
        """Returns how many times as long as an easy search of as much the search for a pattern takes, just now.

        Of several samples the fastest counts: in the first an automaton is built, and what happens now and then, as an
        interrupt, is not the pattern's.
        """
        easy = _easy()
        return min(self._time(number, texts) for texts in samples) / min(
            easy._time(0, [b"a" * len(text) for text in texts]) for texts in samples
        )

    def _time(self, number: int, texts: Iterable[bytes]) -> float:
        search = self.searcher(number)
        start = time.thread_time()
        for text in texts:
            search(text)
        return time.thread_time() - start


@functools.cache
def _easy() -> Patterns:
    return Patterns([_EASY])
