"""Searches that may take long: done one by one, the fast ones first, in what time there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from adapter.hooks.patterns import Patterns
from adapter.hooks.table import Question, Search, Table

Text = tuple[Table, str, str]
"""An annotation's key and value, and the conditions that it may meet."""
PROBE = 32
"""Bytes of a text that are tried to learn what the others may take; if that is bearable, FACTOR times as many."""
FACTOR = 8
SHARES = (0.02, 0.1, 0.3, 1.0)
"""Parts of all the time that one search may take, in one round after the other."""


class Budget:
    """Processor time, for a busy machine must not change what hooks do; and searches that keep within it."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.thread_time) -> None:
        """Takes how much there is from now on."""
        self._seconds = seconds
        self._clock = clock
        self._end = clock() + seconds
        self._tried: dict[Search, tuple[int, float]] = {}
        """How much of a text is to be tried next, and the seconds that a byte of it may take."""

    def left(self) -> float:
        """Seconds that are left, below 0 when it is used up."""
        return self._end - self._clock()

    def search(self, search: Search, share: float = 1.0) -> bool | None:
        """Whether a pattern matches; None if to find out may take more than this share of the time, or than is left."""
        patterns, number, text = search
        size, rate = self._tried.get(search, (PROBE, 0.0))
        while rate * min(2 * size, len(text)) < min(self.left(), share * self._seconds):
            if size >= len(text):
                return patterns.search(number, text)
            if size == PROBE:
                patterns.search(number, text[:size])  # what happens once shall not count for each byte
            now = self._rate(patterns, number, (text[size : 2 * size], text[-size:]))
            # What has become slower with more text will go on so.
            rate = now * max(1.0, now / rate) if rate else now
            size *= FACTOR
            self._tried[search] = size, rate
        return None

    def _rate(self, patterns: Patterns, number: int, texts: Sequence[bytes]) -> float:
        """Searches texts, and returns the seconds for a byte."""
        start = self._clock()
        for text in texts:
            patterns.search(number, text)
        return (self._clock() - start) / sum(map(len, texts))


def look(texts: Iterable[Text], budget: Budget, met: dict[int, str], undecided: dict[int, str]) -> None:
    """Adds the conditions that annotations meet, and those of which there is no time to know."""
    questions: list[Question] = []
    unasked: dict[Table, str] = {}
    enough = budget.left() / 2
    for table, key, value in texts:
        if budget.left() > enough:
            questions += table.questions(key, value)
        else:
            unasked.setdefault(table, key)
    # First the patterns of which the text has what they require, for these are likely to match.
    questions.sort(key=Question.is_unselective)
    answers: dict[Search, bool] = {}
    for share in SHARES:
        if budget.left() > 0:
            questions = [question for question in questions if not _is_answered(question, budget, share, answers, met)]
    for table, key in unasked.items():
        undecided |= dict.fromkeys(table.conditions, key)
    undecided |= {question.condition: question.key for question in questions}
    for condition in met.keys() & undecided.keys():
        del undecided[condition]


def _is_answered(
    question: Question, budget: Budget, share: float, answers: dict[Search, bool], met: dict[int, str]
) -> bool:
    """Answers a question if there is time for that; what other questions need too is searched once."""
    condition, key, searches = question
    if condition in met:
        return True
    for search in searches:
        if search not in answers:
            answer = budget.search(search, share)
            if answer is None:
                return False
            answers[search] = answer
        if not answers[search]:
            return True
    met[condition] = key
    return True
