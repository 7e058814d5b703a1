"""Regular expressions of hook files, many at a time, with RE2: Go's syntax, linear time, whoever wrote the text.

RE2's Set would be the obvious means, but its automaton has nothing to fall back on: one pattern that makes it explode
makes it crawl for all of them, and when its memory is gone it reports nothing. A Filter looks for the literals that
patterns require, which cannot explode, and tries only patterns whose literals are there, each with an automaton of
its own that gives way to a slower one in time. Most patterns need neither: they are one literal or a few, from end to
end. RE2 is imported when there is a pattern.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

ANYTHING = frozenset({"", ".*", "^", "^.*"})
"""Patterns that every text matches."""
MAX_MEMORY = 1 << 20
"""Bytes for a pattern's program, a quarter of this, and its automata; RE2's own limit is eight times as much."""
LARGE = 500
"""Instructions of a program, of which most have fewer than 50."""
SLOW_CALL = 10e-6
SLOW_BYTE = 30e-9
"""Seconds; the usual is a microsecond for the call and two nanoseconds for each byte."""
_SHARD = 16 << 10
"""Characters of patterns in one Filter; RE2 refuses four times as many literals."""
_SENTINEL = "\0is this on?\0"
"""A literal in each Filter that tells whether it finds any."""
_LITERAL = r"(?:[^\\.+*?()|\[\]{}^$]|\\[-./+*?()\[\]{}^$])*"
_LITERALS = re.compile(rf"\^(?:({_LITERAL})|\((?:\?:)?({_LITERAL}(?:\|{_LITERAL})*)\))\$")
_MAY_BE_LARGE = re.compile(r"[{\x80-\U0010ffff]|\\[pP]|.{50}", re.DOTALL)
_ESCAPE = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(.)", re.DOTALL)


@functools.cache
def _options() -> Any:
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415 - only where there are patterns

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MAX_MEMORY
    return options


def fault(patterns: Iterable[str]) -> tuple[str, str] | None:
    """Returns the first pattern that is none, and why; None if all are good."""
    trial = None
    for pattern in patterns:
        if pattern in ANYTHING or _LITERALS.fullmatch(pattern):
            continue
        import re2  # noqa: PLC0415

        trial = trial or re2.Set.SearchSet(_options())
        try:
            trial.Add(pattern)
            is_large(pattern)
        except re2.error:
            return pattern, _reason(pattern)
        if "\\C" in pattern and any(match[1] == "C" for match in _ESCAPE.finditer(pattern)):
            return pattern, "\\C, a single byte, is not in Go's syntax"
    return None


def is_large(pattern: str) -> bool:
    """Whether a pattern is too large to be tried along with others; one that is much too large is an error of RE2's."""
    return _MAY_BE_LARGE.search(pattern) is not None and _compiled(pattern).programsize > LARGE


def _compiled(pattern: str) -> Any:
    import re2  # noqa: PLC0415

    return re2.compile(pattern, _options())


def _reason(pattern: str) -> str:
    import re2  # noqa: PLC0415

    try:
        _compiled(pattern)
    except re2.error as error:
        text = error.args[0]
        return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return "not accepted"


class Patterns:
    """Distinct patterns, known by number, that are looked for in a text together."""

    def __init__(self, patterns: Iterable[str]) -> None:
        """Takes patterns that are good."""
        self.numbers: dict[str, int] = {}
        self._literals: dict[bytes, list[int]] = {}
        self._shards: list[tuple[int, Any]] = []
        self._alone: dict[int, Any] = {}
        self.unselective: set[int] = set()
        """Patterns that require no literal, so that every text is a candidate for them."""
        self._next = 0
        others = [pattern for pattern in dict.fromkeys(patterns) if not self._add_literals(pattern)]
        for shard in _shards(others):
            self._add(shard)

    def _add_literals(self, pattern: str) -> bool:
        """Takes the pattern if it is nothing but texts that match it."""
        match = _LITERALS.fullmatch(pattern)
        if match is None:
            return False
        number = self.numbers[pattern] = self._next
        self._next += 1
        for literal in [match[1]] if match[1] is not None else set(match[2].split("|")):
            self._literals.setdefault(literal.replace("\\", "").encode(), []).append(number)
        return True

    def _add(self, patterns: Sequence[str]) -> None:
        first = self._next
        shard = _filter(patterns)
        if shard is not None:
            self._shards.append((first, shard))
            self.unselective.update(first + number for number in shard.Match(b"", True) or ())
        elif len(patterns) > 1:
            middle = len(patterns) // 2
            self._add(patterns[:middle])
            self._add(patterns[middle:])
            return
        else:
            self._alone[first] = _compiled(patterns[0])
        self.numbers.update(zip(patterns, range(first, first + len(patterns)), strict=True))
        self._next = first + len(patterns) + 1  # the last is the sentinel's

    def find(self, text: bytes, *, candidates: bool = False) -> list[int]:
        """Returns the numbers of the patterns that match, or of those among which they are."""
        found = self._literals.get(text, [])[:]
        for first, shard in self._shards:
            hits = shard.Match(text, candidates)
            if hits:
                found += [first + hit for hit in hits]
        for number, one in self._alone.items():
            if candidates or one.search(text):
                found.append(number)
        return found

    def slow(self, text: bytes) -> set[str]:
        """Returns the patterns that are slow with a text."""
        candidates = set(self.find(text, candidates=True))
        return {
            pattern for pattern, number in self.numbers.items() if number in candidates and self._is_slow(number, text)
        }

    def _is_slow(self, number: int, text: bytes) -> bool:
        # An automaton has got used to the text itself. Of several times the shortest, for the others may be accidents.
        texts = (text[::-1], text[len(text) // 2 :] + text[: len(text) // 2], text[::-2] + text[::2])
        return min(self._timed(number, text) for text in texts) > SLOW_CALL + SLOW_BYTE * len(text)

    def _timed(self, number: int, text: bytes) -> float:
        start = time.thread_time()
        self.search(number, text)
        return time.thread_time() - start

    def search(self, number: int, text: bytes) -> bool:
        """Whether one pattern matches."""
        if number in self._alone:
            return self._alone[number].search(text) is not None
        for first, shard in reversed(self._shards):
            if first <= number:
                return shard.re(number - first).search(text) is not None
        return number in self._literals.get(text, ())


def _shards(patterns: Iterable[str]) -> Iterator[list[str]]:
    shard: list[str] = []
    size = 0
    for pattern in patterns:
        if shard and size + len(pattern) > _SHARD:
            yield shard
            shard, size = [], 0
        shard.append(pattern)
        size += len(pattern)
    if shard:
        yield shard


def _filter(patterns: Sequence[str]) -> Any:
    """Returns a Filter of the patterns; None if they require more literals than one can look for."""
    import re2  # noqa: PLC0415

    made = re2.Filter()
    for pattern in (*patterns, re2.escape(_SENTINEL)):
        made.Add(pattern, _options())
    try:
        made.Compile()
    except re2.error:
        return None
    # The automaton that looks for the literals would be silent about having no memory.
    heard = made.Match(_SENTINEL, potential=True)
    return made if heard and heard[-1] == len(patterns) else None
