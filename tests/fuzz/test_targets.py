"""The targets of the fuzzer hold for what is really sent, for some mutations of it, and for what was found once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from .target import TARGETS, findings, target

FOUND = [(name, path) for name in TARGETS for path in findings(name)]


@pytest.mark.parametrize("name", TARGETS)
def test_an_invariant_holds_for_real_inputs_and_mutations_of_them(name: str) -> None:
    fuzzed = target(name)
    for number, seed in enumerate(fuzzed.seeds()):
        fuzzed.check(seed)
        fuzzed.check(fuzzed.mutate(seed, random.Random(number)))  # noqa: S311 - no secret


@pytest.mark.parametrize(("name", "path"), FOUND, ids=[f"{name}-{path.name}" for name, path in FOUND])
def test_what_broke_an_invariant_once_does_so_no_more(name: str, path: Path) -> None:
    target(name).check(path.read_bytes())
