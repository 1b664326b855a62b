import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.charts.area import area, over_all_columns, resample, sparkline
from perftui_tui.charts.bars import LOWER_EIGHTHS, filled_steps

VALUES = st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), max_size=60)


def test_rows_go_from_top_to_bottom():
    assert area([0, 1, 2, 3, 4], width=5, height=2, low=0, high=4) == [
        "   ▄█",
        "▁▄███",
    ]


def test_missing_values_are_blank_and_zeros_are_not():
    assert sparkline([0, math.nan, 8], width=3, low=0, high=8) == "▁ █"


def test_fewer_values_than_columns_stand_at_the_right():
    assert sparkline([8, 4], width=5, low=0, high=8) == "   █▄"


@pytest.mark.slow
@given(st.lists(st.floats(0, 1), max_size=30), st.integers(1, 40))
def test_what_is_over_fills_all_columns_in_order(values, columns):
    shown = over_all_columns(values, columns)
    assert len(shown) == (columns if values else 0)
    assert max(shown, default=0) == max(values, default=0)
    if 0 < len(values) <= columns:
        assert [shown[-(-at * columns // len(values))] for at in range(len(values))] == values


def test_peaks_survive_resampling():
    assert resample([1, 9, 1, 1, 2, 1], 3) == [9, 1, 2]


@given(VALUES, st.integers(1, 40), st.integers(1, 8))
def test_every_row_is_as_wide_as_asked(values, width, height):
    rows = area(values, width, height, -10, 10)
    assert [len(row) for row in rows] == [width] * height


@given(VALUES, st.integers(1, 40))
def test_the_highest_value_is_never_lost(values, width):
    present = [v for v in values if not math.isnan(v)]
    drawn = [v for v in resample(values, width) if not math.isnan(v)]
    assert max(drawn, default=None) == max(present, default=None)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(2, 64))
def test_more_never_fills_less(one, other, steps):
    low, high = sorted((one, other))
    assert filled_steps(low, steps) <= filled_steps(high, steps)


@given(st.floats(0, 1, exclude_min=True, exclude_max=True), st.integers(2, 64))
def test_a_part_is_neither_nothing_nor_all(fraction, steps):
    assert 0 < filled_steps(fraction, steps) < steps


def test_ramp_ends_are_empty_and_full():
    assert (LOWER_EIGHTHS[0], LOWER_EIGHTHS[-1]) == (" ", "█")
