"""Samples on columns of time, against looking at every nanosecond."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.timeline.counter import Counter, intervals, usual_interval

WHOLE = st.integers(-40, 140)


def counter_of(at, value, interval, *, is_mean=False):
    at = np.array(at, dtype=np.int64)
    start, end = intervals(at, interval, is_mean=is_mean)
    kept = end > start
    return Counter(
        "GPU use", "GPU", "%", "made up", 100.0, interval, is_mean,
        start[kept], end[kept], at[kept], np.array(value, dtype=np.float64)[kept],
    )  # fmt: skip


def holds(at, value, interval, is_mean):
    """By nanosecond the value that is known there, as the rule says it in words."""
    known = {}
    for place, (time, one) in enumerate(zip(at, value, strict=True)):
        beside = at[place - 1] if is_mean and place else None
        if not is_mean and place + 1 < len(at):
            beside = at[place + 1]
        own = interval[place] if isinstance(interval, list) else interval
        apart = own if beside is None else abs(time - beside)
        reach = apart if apart <= 1.5 * own else own
        span = range(time - reach, time) if is_mean else range(time, time + reach)
        known.update(dict.fromkeys(span, one))
    return known


@given(
    st.lists(st.tuples(WHOLE, st.integers(0, 50)), max_size=8, unique_by=lambda each: each[0]),
    st.integers(1, 30),
    st.booleans(),
    st.integers(-20, 100),
    st.integers(1, 60),
    st.integers(1, 9),
)
def test_a_column_is_the_mean_of_what_is_known_in_it(samples, interval, is_mean, t0, span, columns):
    samples.sort()
    at, value = [each[0] for each in samples], [float(each[1]) for each in samples]
    known = holds(at, value, interval, is_mean)
    found = counter_of(at, value, interval, is_mean=is_mean)
    means = found.means(t0, t0 + span, columns)
    edges = [t0 + span * column // columns for column in range(columns + 1)]
    for mean, low, high in zip(means.tolist(), edges, edges[1:], strict=False):
        here = [known[time] for time in range(low, high) if time in known]
        if not here:
            assert math.isnan(mean)
        elif len(set(here)) == 1 and len(at) == 1:
            assert mean == here[0]
        else:
            assert mean == pytest.approx(sum(here) / len(here))
    for time in range(t0, t0 + span):
        place = found.place_at(time)
        assert known.get(time) == (None if place is None else found.sample(place).value)
        assert found.is_sampled_in(time, time + 1) == (time in found.at)


@given(
    st.lists(st.tuples(WHOLE, st.integers(1, 30)), max_size=8, unique_by=lambda each: each[0]),
    st.booleans(),
)
def test_each_sample_may_have_an_interval_of_its_own(samples, is_mean):
    samples.sort()
    at, each = [time for time, _ in samples], [interval for _, interval in samples]
    start, end = intervals(
        np.array(at, dtype=np.int64), np.array(each, dtype=np.int64), is_mean=is_mean
    )
    found = {
        moment: float(place)
        for place, (low, high) in enumerate(zip(start.tolist(), end.tolist(), strict=True))
        for moment in range(low, high)
    }
    assert found == holds(at, [float(place) for place in range(len(at))], each, is_mean)


def test_nothing_is_known_between_samples_that_are_far_apart():
    found = counter_of([0, 100, 500, 600], [10, 20, 30, 40], 100)
    assert found.start.tolist() == [0, 100, 500, 600]
    assert found.end.tolist() == [100, 200, 600, 700]
    means = found.means(0, 800, 8)
    assert means.tolist()[:2] == [10, 20]
    assert np.isnan(means[2:5]).all()
    assert means.tolist()[5:7] == [30, 40]
    assert math.isnan(means[7])


def test_a_sample_may_be_half_an_interval_late():
    found = counter_of([0, 140, 300], [1, 2, 3], 100)
    assert found.end.tolist() == [140, 240, 400]


def test_a_mean_stands_for_the_time_before_it():
    found = counter_of([100, 200], [50, 70], 100, is_mean=True)
    assert list(zip(found.start, found.end, strict=True)) == [(0, 100), (100, 200)]
    assert found.place_at(150) == 1
    assert found.place_at(200) is None


def test_a_column_within_one_sample_has_its_value_exactly():
    huge = 85_520_809_985.0
    found = counter_of([0, 10**9, 2 * 10**9], [1.0, huge, 3.0], 10**9)
    assert set(found.means(10**9 + 7, 10**9 + 5000, 50).tolist()) == {huge}


def test_no_sample_is_nothing():
    found = counter_of([], [], 100)
    assert np.isnan(found.means(0, 100, 3)).all()
    assert found.place_at(5) is None
    assert not found.is_sampled_in(0, 100)


def test_the_usual_interval_is_the_median():
    assert usual_interval(np.array([0, 10, 20, 500], dtype=np.int64), 7) == 10
    assert usual_interval(np.array([3], dtype=np.int64), 7) == 7
