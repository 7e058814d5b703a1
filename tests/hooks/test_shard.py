"""Shards of patterns: hooks of which few are new are ready soon."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import pytest

from adapter.hooks import shard
from adapter.hooks.match import Matcher
from adapter.hooks.patterns import Patterns

from .examples import container, files, hook


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of patterns in the Filters that were made."""
    gc.collect()  # what other tests have left
    made: list[int] = []
    really = shard._new_filter

    def note(patterns: Sequence[str]) -> object:
        made.append(len(patterns))
        return really(patterns)

    monkeypatch.setattr(shard, "_new_filter", note)
    return made


def matcher(*numbers: int) -> Matcher:
    found = Matcher(hook(f"{number:05}.json", annotations={"": f"[ab]-{number}$"}) for number in numbers)
    found.prepare()
    return found


@pytest.mark.parametrize("now", [[*range(9999), 20_000], range(9999), range(1, 10_000), range(10_001)])
def test_with_one_other_hook_most_of_the_patterns_are_ready(now: Sequence[int], compiled: list[int]) -> None:
    before = matcher(*range(10_000))
    assert len(compiled) > 8
    compiled.clear()
    after = matcher(*now)
    assert sum(compiled) < 5000
    for each, numbers in ((before, range(10_000)), (after, now)):
        for number in (0, 1, 5000, 9998, 9999, 10_000, 20_000):
            found = [f"{number:05}.json"] if number in numbers else []
            assert files(each.match(container({"k": f"a-{number}"}))) == found


def test_the_same_hooks_again_are_ready(compiled: list[int]) -> None:
    before = matcher(*range(100))
    compiled.clear()
    assert files(matcher(*range(100)).match(container({"k": "a-7"}))) == ["00007.json"]
    assert compiled == []
    del before


def test_patterns_that_no_hook_has_any_more_are_forgotten() -> None:
    gc.collect()
    before = len(shard._filters)
    found = matcher(*range(100))
    assert len(shard._filters) > before
    del found
    gc.collect()
    assert len(shard._filters) == before


@pytest.mark.parametrize("pattern", ["x+y?", "^x+y?$", "\\bx", "a.*x", "a\nx", "[^a]x"])
def test_texts_that_are_looked_at_together_match_as_each_would_alone(pattern: str) -> None:
    """What looks like the end of a text when it stands alone does not when others stand beside it."""
    texts = [b"x", b"ax", b"a", b"", b"y", b"bx a", b"xx", b"no"]
    together = Patterns([pattern, "[0-9]"]).find_each(texts)
    alone = [Patterns([pattern]).search(0, text) for text in texts]
    assert [bool(found) for found in together] == alone
