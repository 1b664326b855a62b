from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis.timeline.track import TrackIndex, edges

pytestmark = pytest.mark.usefixtures("route")

Spans = list[tuple[int, int]]


@pytest.fixture(params=[1, 2, 4], autouse=True)
def shift(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow blocks, so that few events have many levels of them."""
    monkeypatch.setattr("perftui.analysis.timeline.track._SHIFT", request.param)


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
    """Enough for several levels of blocks."""
    chance = np.random.default_rng(4)
    steps = chance.integers(0, 60, (9000, 2)).tolist()
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
