import itertools

from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.charts.bars import apportion

VALUES = st.lists(st.integers(0, 10**12), min_size=1, max_size=10)


def test_parts_share_the_bar_in_proportion():
    assert apportion([50, 25, 25], 8) == [4, 2, 2]


def test_a_small_part_keeps_a_cell():
    assert apportion([99_990, 10], 10) == [9, 1]


def test_too_narrow_a_bar_drops_its_smallest_parts():
    assert apportion([5, 1, 9], 2) == [1, 0, 1]


def test_nothing_draws_nothing():
    assert apportion([0, 0], 10) == [0, 0]


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
