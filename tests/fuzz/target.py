"""What a target of the fuzzer is, and which there are."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

TARGETS = ("wire", "nri")  # the modules that have a target as TARGET
FINDINGS = Path(__file__).with_name("findings")
"""Inputs that have broken an invariant once, in a folder for each target."""


class Target(NamedTuple):
    """An invariant, and what the search for an input that breaks it begins with.

    `check` raises for an input that breaks the invariant. `words` are parts of inputs that are not found by chance.
    `mutate` changes an input as its format allows; else only bytes are changed.
    """

    check: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    mutate: Callable[[bytes, random.Random], bytes]
    words: Iterable[str] = ()


def target(name: str) -> Target:
    made: Target = importlib.import_module(f"tests.fuzz.{name}").TARGET
    return made


def findings(name: str) -> list[Path]:
    return sorted((FINDINGS / name).iterdir()) if (FINDINGS / name).is_dir() else []
