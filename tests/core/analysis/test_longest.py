from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.timeline.longest import LongestIndex

pytestmark = pytest.mark.usefixtures("route")

VALUES = st.lists(st.integers(0, 9), max_size=80)
STRETCHES = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), max_size=12)


def first_largest(values: list[int], begin: int, stop: int) -> int:
    stretch = values[begin:stop]
    return begin + stretch.index(max(stretch)) if stretch else -1


@pytest.fixture(params=[1, 2, 4], autouse=True)
def shift(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow blocks, so that few values have many levels of them."""
    monkeypatch.setattr("perftui.analysis.timeline.longest._SHIFT", request.param)


@given(VALUES, STRETCHES)
def test_the_first_largest_of_each_stretch(
    values: list[int], stretches: list[tuple[int, int]]
) -> None:
    inside = [(min(begin, len(values)), min(stop, len(values))) for begin, stop in stretches]
    begin, stop = np.array(inside, dtype=np.int64).reshape(-1, 2).T
    found = LongestIndex(np.array(values, dtype=np.int64)).argmax(begin, stop)
    assert found.tolist() == [first_largest(values, *each) for each in inside]


def test_a_million_values() -> None:
    chance = np.random.default_rng(1)
    values = chance.integers(0, 10**6, 1_000_000)
    begin = chance.integers(0, 1_000_000, 50)
    stop = np.minimum(begin + chance.integers(0, 400_000, 50), len(values))
    found = LongestIndex(values).argmax(begin, stop)
    slow = [
        b + int(np.argmax(values[b:s])) if s > b else -1 for b, s in zip(begin, stop, strict=True)
    ]
    assert found.tolist() == slow
