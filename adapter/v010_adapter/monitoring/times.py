"""Histograms of durations, for `status` and for the metrics."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Any

BOUNDS = tuple(step * 10.0**power for power in range(-4, 2) for step in (1, 2, 5))
"""The upper bounds of the buckets in seconds, from 100 microseconds to 50 seconds; the last bucket has none."""


class Histogram:
    """The number of durations in each bucket, and their sum."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Counts a duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    def describe(self) -> dict[str, Any]:
        """Returns the histogram for JSON."""
        return {"counts": list(self.counts), "seconds": self.seconds}


def quantiles(*histograms: Histogram) -> dict[str, float | None]:
    """Returns the upper bounds of the buckets with the median (`p50`) and the 99th percentile (`p99`).

    They are None without durations. The last bucket counts as if its bound were twice the bound before it.
    """
    ends = list(accumulate(sum(bucket) for bucket in zip(*(histogram.counts for histogram in histograms), strict=True)))
    total = ends[-1] if ends else 0
    bounds = *BOUNDS, 2 * BOUNDS[-1]
    shares = {"p50": 0.5, "p99": 0.99}
    return {name: bounds[bisect_left(ends, share * total)] if total else None for name, share in shares.items()}
