from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace.columns.arrays import FAR, time_outliers

HOUR = 3_600_000_000_000


@given(st.lists(st.integers(0, FAR - 1), min_size=1))
def test_a_recording_of_some_hours_is_nothing_special(starts: list[int]) -> None:
    assert time_outliers(np.array(starts)) is None


@pytest.mark.parametrize(
    ("starts", "rows", "said"),
    [
        ([0, 5, 240 * HOUR, 9], [2], "1 event lies 240 hours from all others"),
        (
            [0, 30 * HOUR, 1, 30 * HOUR + 1, 30 * HOUR + 2],
            [0, 2],
            "2 events lie 30 hours from all others",
        ),
    ],
)
def test_few_events_far_from_the_rest_are_said(
    starts: list[int], rows: list[int], said: str
) -> None:
    found = time_outliers(np.array(starts))
    assert found is not None
    assert found.rows.tolist() == rows
    assert found.message.startswith(said)


def test_a_long_recording_with_events_all_along_is_whole() -> None:
    assert time_outliers(np.arange(0, 100 * HOUR, HOUR)) is None
