"""Which patterns of hooks take long for the annotations of a hostile pod."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from functools import cache

from adapter.hooks.patterns import compiled

LIMIT = 0.1
"""Seconds of processor time."""
SIZE = 256 << 10
"""Bytes of annotations that Kubernetes permits a pod."""
PARTS = (SIZE // 64, SIZE // 8, SIZE)
"""A pattern that takes too long for a part takes too long for the whole."""


def slow(patterns: Iterable[str]) -> list[str]:
    """Returns the patterns whose search takes longer than LIMIT in some text of SIZE."""
    return [one for one in dict.fromkeys(patterns) if any(_seconds(one, text) > LIMIT for text in _texts())]


def _seconds(pattern: str, text: bytes) -> float:
    start = time.thread_time()
    compiled(pattern).search(text)
    return time.thread_time() - start


@cache
def _texts() -> tuple[bytes, ...]:
    """Returns texts that make automata large: one letter, few letters, lines, words, letters beyond ASCII."""
    rng = random.Random(1)  # noqa: S311 - the same texts each time
    kinds = ("ab", "abcdefghijklmnopqrstuvwxyz0123456789-_./=:, ", "0123456789abcdef", "éßçя漢")
    random_texts = ("".join(rng.choices(kind, k=SIZE)).encode()[:SIZE] for kind in kinds)
    texts = (b"a" * SIZE, (b"k" * 63 + b"\n") * (SIZE // 64), *random_texts)
    return tuple(text[:part] for part in PARTS for text in texts)
