import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.charts.bar import apportion, bar_text, label_rows, stacked_bar

VALUES = st.lists(st.integers(0, 10**12), min_size=1, max_size=10)


def test_parts_share_the_bar_in_proportion():
    assert bar_text(stacked_bar([("a", 50), ("b", 25), ("c", 25)], 8)) == "████▓▓▒▒"


def test_a_small_part_keeps_a_cell():
    cells = [part.cells for part in stacked_bar([("compute", 99_990), ("sync", 10)], 10)]
    assert cells == [9, 1]


def test_too_narrow_a_bar_drops_its_smallest_parts():
    cells = [part.cells for part in stacked_bar([("a", 5), ("b", 1), ("c", 9)], 2)]
    assert cells == [1, 0, 1]


def test_labels_stand_under_their_parts_and_the_rest_is_returned():
    segments = stacked_bar([("input wait", 30_000_000), ("sync", 100_000), ("gpu", 9_900_000)], 36)
    rows, left_out = label_rows(segments)
    assert [bar_text(segments), *rows] == [
        "███████████████████████████▓▒▒▒▒▒▒▒▒",
        "input wait                  gpu     ",
        "30.0 ms                     9.90 ms ",
    ]
    assert [part.label for part in left_out] == ["sync"]


def test_nothing_draws_nothing():
    assert bar_text(stacked_bar([("a", 0), ("b", 0)], 10)) == ""


def test_negative_parts_are_refused():
    with pytest.raises(ValueError, match="negative"):
        stacked_bar([("a", -1)], 10)


@given(VALUES, st.integers(0, 200))
def test_cells_sum_to_the_width(values, width):
    assert sum(apportion(values, width)) == (width if any(values) else 0)


@given(VALUES, st.integers(0, 200))
def test_no_part_vanishes_while_there_is_room(values, width):
    shares = apportion(values, width)
    non_zero = sum(value > 0 for value in values)
    assert sum(share > 0 for share in shares) == min(non_zero, width)
    assert all(share == 0 for share, value in zip(shares, values, strict=True) if value == 0)


@given(VALUES, st.integers(1, 200))
def test_a_larger_part_is_never_drawn_smaller(values, width):
    shares = apportion(values, width)
    pairs = sorted(zip(values, shares, strict=True))
    for (low, small), (high, large) in itertools.pairwise(pairs):
        assert low == high or small <= large


@given(VALUES, st.integers(0, 120))
def test_segments_follow_each_other(values, width):
    segments = stacked_bar([(str(i), v) for i, v in enumerate(values)], width)
    for before, after in itertools.pairwise(segments):
        assert after.start == before.start + before.cells
