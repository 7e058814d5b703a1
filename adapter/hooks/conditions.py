"""Which conditions of hooks a container meets, found in few passes and in bounded time.

Whoever writes a pod chooses its annotations, so nothing may depend on their being few, short or harmless. Short texts
are tried with all patterns at once. Long texts, and patterns that are large or have proved slow, come last and one by
one; what is too much work does not count as met, and is known to be undecided.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from adapter.hooks import late
from adapter.hooks.late import WORK, Allowance
from adapter.hooks.patterns import ANYTHING, is_large
from adapter.hooks.table import Pair, Table

SHORT = 1024
"""Characters of an annotation that is tried with all patterns at once."""
STRETCH = 64
"""Annotations that are tried before the time they took is looked at, and whether there is anything left to find."""
FIRST = 4
"""So many at first."""
SLOW = 0.0005
"""Seconds; when they took longer, patterns that are to blame are looked for and set apart."""
AGAIN = 4
"""That is done anew only when so many times as many texts have been tried, for many that match take their time too."""


class Findings(NamedTuple):
    """The conditions that are met, by number, with the key of the annotation that does; and those left undecided."""

    met: dict[int, str]
    undecided: dict[int, str]


class Conditions:
    """The conditions of many hooks that are about texts. One that several hooks have is looked for once."""

    def __init__(self, pairs: Iterable[Pair], commands: Iterable[str]) -> None:
        """Takes pairs of patterns for annotations, and patterns for the command."""
        numbers: dict[tuple[bool, Pair], int] = {}
        self.about_annotations = {
            pair: numbers.setdefault((True, _canonical(pair)), len(numbers)) for pair in dict.fromkeys(pairs)
        }
        """The numbers of conditions on annotations; two that mean the same have the same."""
        self.about_command = {
            command: numbers.setdefault((False, _canonical(("", command))), len(numbers))
            for command in dict.fromkeys(commands)
        }
        """The numbers of conditions on the command, by their patterns."""
        self._annotations = _Group({pair: number for (is_pair, pair), number in numbers.items() if is_pair})
        self._command = _Group({pair: number for (is_pair, pair), number in numbers.items() if not is_pair})

    def prepare(self) -> None:
        """Makes the patterns ready before the first container comes."""
        self._annotations.prepare()
        self._command.prepare()

    def met_by(self, annotations: Mapping[str, str], command: str | None) -> Findings:
        """Returns what a container with these annotations and this command meets."""
        self.prepare()  # nothing of it shall count for this container
        found = Findings({}, {})
        allowance = Allowance(WORK)
        self._annotations.look(list(annotations.items()), allowance, *found)
        if command is not None:
            self._command.look([("", command)], allowance, *found)
        return found


def _canonical(pair: Pair) -> Pair:
    key, value = pair
    return "" if key in ANYTHING else key, "" if value in ANYTHING else value


class _Group:
    """Conditions on one kind of text: most of them in a crowd, those with patterns that are slow apart from it."""

    def __init__(self, conditions: Mapping[Pair, int]) -> None:
        self._conditions = conditions
        self._apart = set(filter(is_large, {pattern for pair in conditions for pattern in pair}))
        self._crowd = self._slow = Table({})
        self._arrange()

    def prepare(self) -> None:
        self._crowd.prepare()
        self._slow.prepare()

    def _arrange(self) -> None:
        apart = {pair for pair in self._conditions if not self._apart.isdisjoint(pair)}
        crowd = {pair: number for pair, number in self._conditions.items() if pair not in apart}
        slow = {pair: number for pair, number in self._conditions.items() if pair in apart}
        self._crowd, self._slow = Table(crowd, self._crowd), Table(slow, self._slow)

    def look(
        self, texts: Sequence[tuple[str, str]], allowance: Allowance, met: dict[int, str], undecided: dict[int, str]
    ) -> None:
        """Adds the conditions that texts meet, and those of which it would take too much work to know."""
        if self._crowd:
            short: list[tuple[str, str]] = []
            long: list[tuple[str, str]] = []
            for text in texts:
                (short if len(text[0]) + len(text[1]) <= SHORT else long).append(text)
            self._try(short, met)
            if long:
                late.look(self._crowd, long, allowance, met, undecided)
        if self._slow:
            late.look(self._slow, texts, allowance, met, undecided)

    def _try(self, texts: Sequence[tuple[str, str]], met: dict[int, str]) -> None:
        """Adds the conditions that short texts meet."""
        done = again = 0
        while done < len(texts) and not self._crowd.conditions <= met.keys():
            start = time.thread_time()
            stretch = texts[done : done + (STRETCH if done else FIRST)]
            self._crowd.look(stretch, met)
            done += len(stretch)
            if done > again and time.thread_time() - start > SLOW:
                again = AGAIN * done
                self._set_apart(stretch)

    def _set_apart(self, texts: Iterable[tuple[str, str]]) -> None:
        """Takes the patterns out of the crowd that make it slow, as far as these texts tell."""
        slow = self._crowd.slow(texts)
        if slow:
            self._apart |= slow
            self._arrange()
