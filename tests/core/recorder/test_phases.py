"""Exclusive times against an oracle that asks, for every nanosecond, who is innermost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.recorder.rank_journals import Interval, exclusive_times
from perftui.run.columns import PHASES

KINDS = PHASES[:-1]

INTERVALS = st.lists(
    st.builds(
        lambda start, length, kind: Interval(start, start + length, kind),
        st.integers(-5, 40),
        st.integers(0, 30),
        st.sampled_from(KINDS),
    ),
    max_size=12,
)


def _oracle(start: int, end: int, intervals: list[Interval]) -> dict[str, int]:
    totals = dict.fromkeys(PHASES, 0)
    for instant in range(start, end):
        covering = [
            (interval.start, -interval.end, -order, interval.kind)
            for order, interval in enumerate(intervals)
            if interval.start <= instant < interval.end
        ]
        totals[max(covering)[3] if covering else "other"] += 1
    return totals


@settings(deadline=None)
@given(start=st.integers(-3, 20), length=st.integers(0, 40), intervals=INTERVALS)
def test_every_nanosecond_belongs_to_the_innermost(
    start: int, length: int, intervals: list[Interval]
) -> None:
    phases = exclusive_times(start, start + length, intervals)
    assert phases == _oracle(start, start + length, intervals)


@settings(deadline=None)
@given(
    start=st.integers(0, 2**62),
    length=st.integers(0, 2**40),
    shifts=st.lists(
        st.tuples(st.integers(-(2**40), 2**40), st.integers(0, 2**40), st.sampled_from(KINDS)),
        max_size=30,
    ),
)
def test_parts_sum_to_the_step_exactly(
    start: int, length: int, shifts: list[tuple[int, int, str]]
) -> None:
    intervals = [Interval(start + at, start + at + size, kind) for at, size, kind in shifts]
    phases = exclusive_times(start, start + length, intervals)
    assert sum(phases.values()) == length
    assert min(phases.values()) >= 0
    assert tuple(phases) == PHASES


def test_closure_inside_the_optimizer_is_taken_out_of_it() -> None:
    # LBFGS calls forward and backward twice from optimizer.step.
    intervals = [
        Interval(10, 30, "forward"),
        Interval(30, 60, "backward"),
        Interval(60, 80, "forward"),
        Interval(80, 95, "backward"),
        Interval(5, 100, "optimizer"),
    ]
    phases = exclusive_times(0, 110, intervals)
    assert phases["forward"] == 40
    assert phases["backward"] == 45
    assert phases["optimizer"] == 95 - 85
    assert phases["other"] == 15
