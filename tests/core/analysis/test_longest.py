from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.timeline.track import longest

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
