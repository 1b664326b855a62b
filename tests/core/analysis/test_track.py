"""Tracks, counters, and rows against intervals."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis import kinds
from perftui.analysis.intervals import union
from perftui.analysis.kinds import begun_in, covered, part_of_rows, within
from perftui.analysis.ops.calls import called_operators
from perftui.analysis.timeline.track import (
    Counter,
    TrackIndex,
    edges,
    intervals,
    longest,
    usual_interval,
)
from perftui.trace.model import NONE, Trace
from tests.traces.events import cpu, trace_of

Spans = list[tuple[int, int]]


def spans_of(steps: list[tuple[int, int]]) -> Spans:
    """Events from (idle before, length) pairs."""
    spans, now = [], 0
    for idle, length in steps:
        spans.append((now + idle, now + idle + length))
        now += idle + length
    return spans


def lane(spans: Spans) -> TrackIndex:
    """Rows are numbered from 100 so that a row is not an index by accident."""
    rows = np.arange(100, 100 + len(spans), dtype=np.int32)
    start, end = (np.array([span[side] for span in spans], dtype=np.int64) for side in (0, 1))
    return TrackIndex(rows, start, end)


SPANS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40).map(spans_of)
WINDOW = st.tuples(st.integers(-9, 300), st.integers(1, 300))
COLUMNS = st.integers(1, 30)


def column_edges(window: tuple[int, int], columns: int) -> Spans:
    t0, length = window
    cuts = [t0 + length * index // columns for index in range(columns + 1)]
    return [(cuts[index], cuts[index + 1]) for index in range(columns)]


def overlap(span: tuple[int, int], column: tuple[int, int]) -> int:
    return max(0, min(span[1], column[1]) - max(span[0], column[0]))


def longest_touched(gaps: Spans, column: tuple[int, int]) -> int:
    """Length of the longest gap that a column touches."""
    return max((gap[1] - gap[0] for gap in gaps if overlap(gap, column)), default=0)


@given(WINDOW, COLUMNS)
def test_columns_fill_the_window_evenly(window: tuple[int, int], columns: int) -> None:
    found = edges(window[0], window[0] + window[1], columns).tolist()
    cuts = column_edges(window, columns)
    assert found[0] == window[0]
    assert found[-1] == window[0] + window[1]
    assert found == [cuts[0][0], *(high for _, high in cuts)]


def test_columns_of_a_day_long_window_do_not_overflow() -> None:
    day = 86_400 * 10**9
    assert edges(0, 10 * day, 500)[-1] == 10 * day


@given(SPANS, WINDOW, COLUMNS)
def test_busy_time_of_every_column(spans: Spans, window: tuple[int, int], columns: int) -> None:
    found = lane(spans).busy(window[0], sum(window), columns).tolist()
    cuts = column_edges(window, columns)
    assert found == [sum(overlap(span, column) for span in spans) for column in cuts]


def slow_dominant(spans: Spans, column: tuple[int, int]) -> int:
    shares = [overlap(span, column) for span in spans]
    most = max(shares, default=0)
    return 100 + shares.index(most) if most else -1


def test_events_may_lie_apart_in_memory() -> None:
    times = np.array([[0, 4], [5, 9]], dtype=np.int64)
    found = TrackIndex(np.array([7, 8], dtype=np.int32), times[:, 0], times[:, 1])
    assert found.dominant(0, 10, 2).tolist() == [7, 8]


@given(SPANS, WINDOW, COLUMNS)
def test_dominant_row_of_every_column(spans: Spans, window: tuple[int, int], columns: int) -> None:
    found = lane(spans).dominant(window[0], sum(window), columns).tolist()
    assert found == [slow_dominant(spans, column) for column in column_edges(window, columns)]


def gaps_of(spans: Spans) -> Spans:
    return [(first[1], second[0]) for first, second in pairwise(spans)]


@pytest.mark.slow
@given(SPANS, WINDOW, COLUMNS)
def test_largest_gap_of_every_column(spans: Spans, window: tuple[int, int], columns: int) -> None:
    found = lane(spans).largest_gap(window[0], sum(window), columns).tolist()
    cuts = column_edges(window, columns)
    gaps = gaps_of(spans)
    assert found == [longest_touched(gaps, column) for column in cuts]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 7, 40])
def test_many_events_in_few_columns(columns: int) -> None:
    steps = np.random.default_rng(4).integers(0, 60, (9000, 2)).tolist()
    spans = spans_of([(idle, length) for idle, length in steps])
    window = (spans[100][0] + 3, spans[-50][1] - spans[100][0] - 7)
    index, cuts = lane(spans), column_edges(window, columns)
    gaps = gaps_of(spans)
    largest = index.largest_gap(window[0], sum(window), columns).tolist()
    assert largest == [longest_touched(gaps, column) for column in cuts]
    dominant = index.dominant(window[0], sum(window), columns).tolist()
    assert dominant == [slow_dominant(spans, column) for column in cuts]


@pytest.mark.slow
@settings(max_examples=200)
@given(SPANS, st.integers(-5, 300), st.integers(0, 10))
def test_gaps_around_a_time(spans: Spans, t: int, threshold: int) -> None:
    large = [gap for gap in gaps_of(spans) if gap[1] - gap[0] >= max(threshold, 1)]
    after = [gap for gap in large if gap[0] > t]
    before = [gap for gap in large if gap[0] < t]
    index = lane(spans)
    assert index.next_gap(t, threshold) == (after[0] if after else None)
    assert index.previous_gap(t, threshold) == (before[-1] if before else None)


def test_a_gap_far_away_is_found() -> None:
    spans = spans_of([(1, 5)] * 1000 + [(500, 5)] + [(1, 5)] * 1000)
    index = lane(spans)
    gap = (spans[999][1], spans[1000][0])
    assert index.next_gap(0, 100) == gap
    assert index.previous_gap(spans[-1][1], 100) == gap
    assert index.next_gap(gap[0], 100) is None
    assert index.previous_gap(gap[0], 100) is None


SPAN = 40
events = st.tuples(st.integers(0, SPAN), st.integers(0, 12), st.integers(1, 3), st.booleans())
"""Start, duration, thread, and whether it is an operator."""

properties = settings(max_examples=60)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    rows = draw(st.lists(events, min_size=1, max_size=25))
    return trace_of(
        *(
            cpu("op", start, length, "cpu_op" if is_op else "cuda_runtime", tid=thread)
            for start, length, thread, is_op in rows
        )
    )


@st.composite
def parts(draw: st.DrawFn) -> list[np.ndarray]:
    """Intervals of two kinds in turns, in ns."""
    edges = sorted(draw(st.sets(st.integers(0, SPAN + 10), min_size=4, max_size=9)))
    pairs = np.array(edges[: len(edges) // 2 * 2], dtype=np.int64).reshape(-1, 2) * 1000
    return [pairs[::2], pairs[1::2]]


@properties
@given(traces(), parts())
def test_a_row_is_of_the_part_that_it_begins_in(trace: Trace, pairs: list[np.ndarray]) -> None:
    sets = [union(*each.T) for each in pairs]
    found = part_of_rows(trace, sets)
    holds = [each.holds(trace.start) for each in sets]
    assert found.tolist() == np.select(holds, [0, 1], NONE).tolist()
    assert begun_in(trace, sets[1]).tolist() == holds[1].tolist()


@properties
@given(traces())
def test_what_rows_cover_is_the_union_of_all_tracks(trace: Trace) -> None:
    chosen = kinds.operators(trace)
    found, expected = covered(trace, chosen), union(trace.start[chosen], trace.ends_of(chosen))
    assert found.start.tolist() == expected.start.tolist()
    assert found.end.tolist() == expected.end.tolist()


@properties
@given(traces(), st.integers(2, 4))
def test_rows_are_within_those_chosen_before_them_on_their_track(trace: Trace, each: int) -> None:
    rows = np.flatnonzero(kinds.operators(trace))
    chosen = np.arange(len(rows)) % each == 0
    expected = [
        bool(chosen[at])
        or any(
            chosen[before]
            and trace.track[rows[before]] == trace.track[row]
            and trace.start[rows[before]] + trace.duration[rows[before]] > trace.start[row]
            for before in range(at)
        )
        for at, row in enumerate(rows.tolist())
    ]
    assert within(trace, rows, chosen).tolist() == expected


@properties
@given(traces())
def test_an_operator_s_own_time_leaves_out_what_it_called(trace: Trace) -> None:
    operators = kinds.operators(trace)
    chosen = operators & (trace.start >= 5_000)
    found = called_operators(trace, chosen)
    rows = np.flatnonzero(chosen).tolist()
    own, callers = dict.fromkeys(rows, 0), []
    for row in rows:
        above = int(trace.parent[row])
        while above != NONE and not operators[above]:
            above = int(trace.parent[above])
        own[row] += int(trace.duration[row])
        if above in own:
            own[above] -= int(trace.duration[row])
        callers.append(rows.index(above) if above in own else NONE)
    assert found.rows.tolist() == rows
    assert found.caller.tolist() == callers
    assert found.own.tolist() == [max(time, 0) for time in own.values()]


VALUES = st.lists(st.integers(0, 9), max_size=80)
STRETCHES = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), max_size=12)


def first_largest(values: list[int], begin: int, stop: int) -> int:
    stretch = values[begin:stop]
    return begin + stretch.index(max(stretch)) if stretch else -1


@given(VALUES, STRETCHES)
def test_the_first_largest_of_each_stretch(
    values: list[int], stretches: list[tuple[int, int]]
) -> None:
    inside = [(min(begin, len(values)), min(stop, len(values))) for begin, stop in stretches]
    begin, stop = np.array(inside, dtype=np.int64).reshape(-1, 2).T
    found = longest(np.array(values, dtype=np.int64), begin, stop)
    assert found.tolist() == [first_largest(values, *each) for each in inside]


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


def test_a_sample_may_be_half_an_interval_late_and_a_mean_is_of_the_time_before_it():
    found = counter_of([0, 140, 300], [1, 2, 3], 100)
    assert found.end.tolist() == [140, 240, 400]
    found = counter_of([100, 200], [50, 70], 100, is_mean=True)
    assert list(zip(found.start, found.end, strict=True)) == [(0, 100), (100, 200)]
    assert found.place_at(150) == 1
    assert found.place_at(200) is None


def test_a_column_within_one_sample_has_its_value_exactly():
    huge = 85_520_809_985.0
    found = counter_of([0, 10**9, 2 * 10**9], [1.0, huge, 3.0], 10**9)
    assert set(found.means(10**9 + 7, 10**9 + 5000, 50).tolist()) == {huge}


def test_no_sample_is_nothing_and_the_usual_interval_is_the_median():
    found = counter_of([], [], 100)
    assert np.isnan(found.means(0, 100, 3)).all()
    assert found.place_at(5) is None
    assert not found.is_sampled_in(0, 100)
    assert usual_interval(np.array([0, 10, 20, 500], dtype=np.int64), 7) == 10
    assert usual_interval(np.array([3], dtype=np.int64), 7) == 7
