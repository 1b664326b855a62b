"""The middle of numbers: as numpy has it, without what numpy imports for it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.step.steady import median


@given(st.lists(st.integers(0, 2**53), min_size=1, max_size=40))
def test_is_that_of_numpy(numbers: list[int]) -> None:
    values = np.asarray(numbers, dtype=np.int64)
    assert median(values) == float(np.median(values))
    assert median(values / 7) == float(np.median(values / 7))
