import math

from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.charts.histogram import bin_counts, histogram

VALUES = st.lists(st.floats(-1e9, 1e9) | st.just(math.nan), max_size=80)


def test_the_fullest_bin_is_as_high_as_the_chart():
    assert histogram([1, 1, 1, 1, 3], width=4, height=1, low=0, high=4) == [" █ ▂"]


@given(VALUES, st.integers(1, 50), st.floats(-100, 100), st.floats(0, 100))
def test_every_value_is_counted_once(values, bins, low, span):
    counted = sum(bin_counts(values, bins, low, low + span))
    assert counted == sum(not math.isnan(value) for value in values)


def test_a_span_of_almost_nothing_still_counts_every_value():
    assert bin_counts([1e9, -1e9, 0.0, math.inf], 3, 0.0, 2e-311) == [2, 0, 2]
