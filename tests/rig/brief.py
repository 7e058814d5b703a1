"""What a person waits for: of many cases that differ little, CI tries all, and everybody else a few."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
CI = bool(os.environ.get("CI"))
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
"""Where files lie that would take most of a test's time on a disk. None: where all others do."""


def few(cases: Sequence[T], number: int = 2) -> Sequence[T]:
    """Returns all cases in CI, elsewhere so many of them: the first ones, and the last."""
    return cases if CI or number >= len(cases) else [*cases[: number - 1], cases[-1]]
