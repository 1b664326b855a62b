from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace.columns.arrays import GrowableArray, downcast

VALUES = st.lists(
    st.one_of(
        st.integers(-100, 100),
        st.integers(-(2**31) - 1, 2**31),
        st.sampled_from([2**15 - 1, 2**15, -(2**15), 2**31 - 1, 2**62, -(2**63)]),
    ),
    max_size=20,
)


@pytest.mark.slow
@given(VALUES)
def test_narrowed_holds_the_same_values_in_no_more_bytes_than_needed(values: list[int]) -> None:
    column = downcast(np.array(values, dtype=np.int64))
    assert column.tolist() == values
    for bits, kind in ((15, np.int16), (31, np.int32)):
        if values and all(-(2**bits) <= value < 2**bits for value in values):
            assert column.dtype == kind
            break


@pytest.mark.slow
@given(st.lists(VALUES, max_size=8))
def test_a_growing_column_is_all_that_was_appended(pieces: list[list[int]]) -> None:
    column = GrowableArray()
    for piece in pieces:
        column.extend(np.array(piece, dtype=np.int64))
    whole = [value for piece in pieces for value in piece]
    assert len(column) == len(whole)
    assert column.take().tolist() == whole
    assert len(column) == 0


def test_it_grows_over_many_blocks() -> None:
    column = GrowableArray()
    for start in range(0, 200_000, 700):
        column.extend(np.arange(start, min(start + 700, 200_000), dtype=np.int64))
    values = column.take()
    assert values.dtype == np.int32
    assert np.array_equal(values, np.arange(200_000))
