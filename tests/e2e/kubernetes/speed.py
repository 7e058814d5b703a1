"""How long 30 pods take until they run: without plugins, with upstream's two, and with the chart in their place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from . import upstream
from .node import PLUGINS, apply, chart, delete, ready, say, uninstall

PODS = 30
ROUNDS = 3


def play() -> Iterator[str]:
    """Prints the times as ratios, the rounds one by one: what else the machine does, it does to all of a round."""
    _pods_run()  # the first takes longer
    rounds = []
    for _ in range(ROUNDS):
        without = _pods_run()
        upstream.configure(*PLUGINS)
        upstream.launch(*upstream.PLUGINS)
        of_upstream = _pods_run()
        upstream.remove(*upstream.PLUGINS)
        chart("install", legacy={})
        ours = _pods_run()
        uninstall()
        upstream.forget()
        rounds.append((of_upstream / without, ours / without, ours / of_upstream))
        say("upstream's / without {:.2f}, ours / without {:.2f}, ours / upstream's {:.2f}".format(*rounds[-1]))
    names = ("upstream's / without", "ours / without", "ours / upstream's")
    medians = (f"{name} {median(ratios):.2f}" for name, ratios in zip(names, zip(*rounds, strict=True), strict=True))
    say(f"time until {PODS} pods run, medians of {ROUNDS} rounds: {', '.join(medians)}")
    yield from ()


def _pods_run() -> float:
    started = time.monotonic()
    apply("timed", PODS)
    ready("timed")
    taken = time.monotonic() - started
    delete("timed")
    return taken
