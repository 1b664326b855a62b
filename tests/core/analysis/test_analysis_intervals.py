from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.intervals import Intervals, complement, intersect, subtract, union, unite

Pairs = list[tuple[int, int]]
PAIRS = st.lists(st.tuples(st.integers(-20, 40), st.integers(-3, 12)), max_size=12)
MOMENTS = range(-40, 80)


def covered(pairs: Pairs) -> set[int]:
    """Slow and obvious: every unit of time by itself."""
    return {moment for start, length in pairs for moment in range(start, start + length)}


def made(pairs: Pairs) -> Intervals:
    start = np.array([start for start, _ in pairs], dtype=np.int64)
    return union(start, start + np.array([length for _, length in pairs], dtype=np.int64))


def moments(intervals: Intervals) -> set[int]:
    ends = zip(intervals.start.tolist(), intervals.end.tolist(), strict=True)
    return {moment for start, end in ends for moment in range(start, end)}


def is_normal(intervals: Intervals) -> bool:
    """Sorted, not empty, not touching."""
    lasting = bool(np.all(intervals.end > intervals.start))
    return lasting and bool(np.all(intervals.start[1:] > intervals.end[:-1]))


@pytest.mark.slow
@given(PAIRS)
def test_union(pairs: Pairs) -> None:
    assert moments(made(pairs)) == covered(pairs)
    assert made(pairs).total == len(covered(pairs))
    assert is_normal(made(pairs))


@given(PAIRS)
def test_moments_that_are_covered(pairs: Pairs) -> None:
    times = np.array(MOMENTS, dtype=np.int64)
    held = made(pairs).holds(times)
    assert set(times[held].tolist()) == covered(pairs) & set(MOMENTS)


@pytest.mark.slow
@given(PAIRS, PAIRS)
def test_set_operations(first: Pairs, second: Pairs) -> None:
    one, other = covered(first), covered(second)
    results = {
        "intersect": (intersect(made(first), made(second)), one & other),
        "subtract": (subtract(made(first), made(second)), one - other),
        "unite": (unite(made(first), made(second)), one | other),
    }
    for name, (found, wanted) in results.items():
        assert moments(found) == wanted, name
        assert is_normal(found), name


@given(PAIRS, st.integers(-30, 60), st.integers(0, 40))
def test_complement(pairs: Pairs, start: int, length: int) -> None:
    found = complement(made(pairs), start, start + length)
    assert moments(found) == set(range(start, start + length)) - covered(pairs)
    assert is_normal(found)


@pytest.mark.slow
@given(PAIRS)
def test_time_covered_before_and_within(pairs: Pairs) -> None:
    times = np.array(MOMENTS, dtype=np.int64)
    inside = covered(pairs)
    before = [sum(moment < time for moment in inside) for time in MOMENTS]
    assert made(pairs).before(times).tolist() == before
    within = made(pairs).within(times, times + 7).tolist()
    assert within == [sum(t <= moment < t + 7 for moment in inside) for t in MOMENTS]


def test_uniting_nothing_is_nothing() -> None:
    assert len(unite()) == 0
