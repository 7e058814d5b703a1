"""Regular expressions of hook files, matched with RE2: Go's syntax, in time linear in the text."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Any

MAX_MEMORY = 1 << 19
"""Maximum bytes of memory that RE2 uses for one pattern: its program and its automata."""
MAX_PROGRAM = MAX_MEMORY // 32
"""Maximum instructions of a program in this memory (RE2's re2.cc, compile.cc: Setup)."""
_ESCAPE = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(.)", re.DOTALL)


def _re2() -> Any:
    """Returns the module re2. It is imported for the first pattern, because many nodes have no patterns."""
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415

    return re2


@functools.cache
def _options() -> Any:
    options = _re2().Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MAX_MEMORY
    return options


@functools.lru_cache(maxsize=1024)
def fault(pattern: str) -> str:
    """Returns why a pattern cannot be used, empty if it can."""
    try:
        _re2()
    except ImportError as error:  # its wheel needs libstdc++, which not every system has
        return f"google-re2 cannot be imported: {error}"
    try:
        _re2().Filter().Add(pattern, _options())  # ten times as fast as re2.compile, but its error has no reason
    except _re2().error:
        return _reason(pattern)
    if "\\C" in pattern and any(match[1] == "C" for match in _ESCAPE.finditer(pattern)):
        return "\\C, a single byte, is not in Go's syntax"
    return ""


def _reason(pattern: str) -> str:
    try:
        compiled(pattern)
    except _re2().error as error:
        text = error.args[0]
        reason = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        return f"it compiles to more than {MAX_PROGRAM} RE2 instructions" if "too large" in reason else reason
    return "not accepted"


def compiled(pattern: str) -> Any:
    """Returns one pattern as RE2 compiles it for the daemon. Raises re2.error."""
    return _re2().compile(pattern, _options())


class Patterns:
    """Valid patterns that are matched together.

    RE2's Filter searches a text once for the literals of all patterns. Then it searches only for the patterns whose
    literals are in the text.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        """Compiles valid patterns, duplicates once."""
        self._filter: Any = None
        self._fits = True
        self._patterns = list(dict.fromkeys(patterns))
        sizes: list[int] = []
        if self._patterns:
            self._filter = _re2().Filter()
            sizes = [self._filter.re(self._filter.Add(pattern, _options())).programsize for pattern in self._patterns]
            try:
                self._filter.Compile()
            except _re2().error:  # too many literals for a Filter; thousands of usual patterns fit
                self._fits = False
        self.size = sum(sizes)
        """The number of RE2 instructions of all patterns. A search takes at most so many steps for each byte."""

    def find(self, text: str) -> set[str]:
        """Returns the patterns that match a text."""
        if not self._patterns:
            return set()
        encoded = text.encode()
        if self._fits:
            return {self._patterns[index] for index in self._filter.Match(encoded) or ()}
        return {
            pattern
            for index, pattern in enumerate(self._patterns)
            if self._filter.re(index).search(encoded) is not None
        }
