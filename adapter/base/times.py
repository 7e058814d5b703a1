"""Histograms of durations, for `status` and for the metrics."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
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
    """Returns the median (`p50`) and the 99th percentile (`p99`) of all durations, in seconds; None without any."""
    counts = [sum(bucket) for bucket in zip(*(histogram.counts for histogram in histograms), strict=True)]
    return {"p50": _quantile(counts, 0.5), "p99": _quantile(counts, 0.99)}


def _quantile(counts: Sequence[int], share: float) -> float | None:
    """Returns a quantile as Prometheus estimates it (histogram_quantile): durations are spread evenly in a bucket."""
    rank = share * sum(counts)
    low = 0.0
    for high, count in zip(BOUNDS, counts, strict=False):
        if count and rank <= count:
            return low + (high - low) * rank / count
        rank -= count
        low = high
    return low if any(counts) else None
