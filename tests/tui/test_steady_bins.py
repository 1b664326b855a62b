"""A chart that does not shimmer."""

import math

from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.charts.area import steady_bins

numbers = st.lists(st.floats(0, 1000), min_size=1, max_size=200)


@given(numbers, st.integers(0, 5000), st.integers(1, 60))
def test_no_peak_is_lost_and_the_width_is_exact(
    values: list[float], first: int, columns: int
) -> None:
    bins = steady_bins(values, first, columns)
    assert len(bins) == columns
    assert max(one for one in bins if not math.isnan(one)) == max(values)


@given(numbers, st.integers(2, 60))
def test_one_more_value_changes_one_column_or_doubles_the_bins(
    values: list[float], columns: int
) -> None:
    before, after = steady_bins(values[:-1], 0, columns), steady_bins(values, 0, columns)
    changed = sum(
        a != b and not (math.isnan(a) and math.isnan(b)) for a, b in zip(before, after, strict=True)
    )
    full = not math.isnan(before[-1])
    assert changed <= 1 or full


def test_missing_values_leave_holes() -> None:
    bins = steady_bins([1.0, math.nan, 3.0], 0, 4)
    assert bins[0] == 1.0
    assert math.isnan(bins[1])
    assert bins[2] == 3.0
    assert math.isnan(bins[3])


def test_nothing_is_blank() -> None:
    assert all(math.isnan(one) for one in steady_bins([], 0, 5))
