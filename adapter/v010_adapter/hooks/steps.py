"""Long work in steps: a generator that yields after each step, so that the daemon can serve its loop in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Iterating over it does the work. The generator's return value is the result."""


def finish(steps: Steps[T]) -> T:
    """Runs all steps at once; returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
