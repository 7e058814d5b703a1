"""Durations in buckets: none is lost, and a quantile is the bound of the bucket of the duration that it stands for."""

from __future__ import annotations

import math
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from v010_adapter.monitoring.times import BOUNDS, Histogram, quantiles


def histogram(*seconds: float) -> Histogram:
    made = Histogram()
    for one in seconds:
        made.add(one)
    return made


def test_a_bucket_has_what_is_no_longer_than_its_bound() -> None:
    counts = histogram(0, BOUNDS[0], BOUNDS[1], BOUNDS[1] + 1e-9, BOUNDS[-1], BOUNDS[-1] + 1).counts
    assert counts == [2, 1, 1, *[0] * (len(BOUNDS) - 4), 1, 1]


def test_a_quantile_is_the_bound_of_its_bucket_and_beyond_all_bounds_more_than_the_last() -> None:
    assert quantiles() == quantiles(histogram()) == {"p50": None, "p99": None}
    assert quantiles(histogram(*[1.5] * 98, 3, 30)) == {"p50": 2.0, "p99": 5.0}
    assert quantiles(histogram(1000)) == {"p50": 100.0, "p99": 100.0}


@given(st.lists(st.lists(st.floats(0, BOUNDS[-1]), max_size=20), min_size=1, max_size=3).filter(any))
def test_a_quantile_of_several_histograms_is_the_bound_of_the_true_ones_bucket(seconds: list[list[float]]) -> None:
    made = [histogram(*some) for some in seconds]
    ordered = sorted(one for some in seconds for one in some)
    assert sum(one.seconds for one in made) == pytest.approx(sum(ordered))
    for key, share in (("p50", 0.5), ("p99", 0.99)):
        bucket = bisect_left(BOUNDS, ordered[math.ceil(share * len(ordered)) - 1])
        assert quantiles(*made)[key] == BOUNDS[bucket]
