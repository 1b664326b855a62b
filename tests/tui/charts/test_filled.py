import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.charts.bars import filled_steps
from perftui_tui.screens.timeline.track_cells import all_filled_steps


@given(st.lists(st.floats(-1, 2) | st.integers(-8, 16).map(lambda n: n / 16)), st.integers(2, 9))
def test_the_same_as_one_by_one(fractions: list[float], steps: int) -> None:
    found = all_filled_steps(np.array(fractions, dtype=np.float64), steps)
    assert found.tolist() == [filled_steps(fraction, steps) for fraction in fractions]
