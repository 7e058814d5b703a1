"""Long work in steps: a generator that yields after each, so that the daemon's loop is served in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Work that is done by iterating; its result is the generator's return value."""


def finish(steps: Steps[T]) -> T:
    """Does all steps at once; returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
