from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace.columns import arrays as module
from perftui.trace.columns import native
from perftui.trace.columns.arrays import Nesting, nest, order
from perftui.trace.model import NONE

Row = tuple[int, int, int, bool]
ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12), st.booleans()), max_size=30
)


@pytest.fixture(scope="module", autouse=True, params=["native", 3, 1 << 15])
def block(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compiled; in Python, tracks shorter than a block, and tracks of many."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "native":
            if native.compiled() is None:
                pytest.skip("installed without a C compiler: there is no compiled sweep")
        else:
            patch.setattr(native, "compiled", lambda: None)
            patch.setattr(module, "BLOCK", request.param)
        yield


def ordered(rows: list[Row]) -> list[Row]:
    numbered = sorted((row[0], row[1], -row[2], index) for index, row in enumerate(rows))
    return [rows[index] for *_, index in numbered]


def nested(rows: list[Row]) -> Nesting:
    track = np.array([row[0] for row in rows], dtype=np.int32)
    start = np.array([row[1] for row in rows], dtype=np.int64)
    duration = np.array([row[2] for row in rows], dtype=np.int64)
    return nest(track, start, duration, np.array([row[3] for row in rows], dtype=bool))


def partially(first: Row, second: Row) -> bool:
    """Whether the first row, which comes earlier, ends inside the second."""
    return first[0] == second[0] and second[1] < first[1] + first[2] < second[1] + second[2]


@given(ROWS)
def test_order_is_by_track_start_longest_first_file_order(rows: list[Row]) -> None:
    columns = [np.array([row[field] for row in rows], dtype=np.int64) for field in range(3)]
    found = order(columns[0].astype(np.int32), columns[1], columns[2])
    assert [rows[index] for index in found.tolist()] == ordered(rows)
    assert sorted(found.tolist()) == list(range(len(rows)))


@pytest.mark.parametrize("moved", [0, 5, 3000])
@pytest.mark.parametrize("seed", range(4))
def test_order_of_many_rows_however_many_are_out_of_place(seed: int, moved: int) -> None:
    chance = np.random.default_rng(seed)
    start = np.sort(chance.integers(0, 2000, 3000))
    places = chance.integers(0, len(start), moved)
    start[places] = start[chance.permutation(places)]
    duration, track = chance.integers(0, 3, len(start)), chance.integers(0, 2, len(start))
    rows = [(int(t), int(s), int(d), False) for t, s, d in zip(track, start, duration, strict=True)]
    found = order(track.astype(np.int32), start, duration)
    assert [rows[index] for index in found.tolist()] == ordered(rows)
    same = np.lexsort((np.arange(len(start)), -duration, start, track))
    assert found.tolist() == same.tolist()


@given(ROWS)
def test_calls_nest_in_the_last_call_that_is_still_open(rows: list[Row]) -> None:
    rows = ordered([(*row[:3], False) for row in rows])
    nesting = nested(rows)
    ends: list[int] = []
    for index, (track, start, duration, _) in enumerate(rows):
        open_rows = [
            earlier
            for earlier in range(index)
            if rows[earlier][0] == track and ends[earlier] > start
        ]
        parent = open_rows[-1] if open_rows else NONE
        ends.append(min([start + duration, *(ends[row] for row in open_rows[-1:])]))
        assert nesting.parent[index] == parent
        assert nesting.depth[index] == (0 if parent == NONE else nesting.depth[parent] + 1)


def test_what_starts_behind_the_parents_end_is_not_nested_in_a_call_that_outlasts_it() -> None:
    nesting = nested([(0, 0, 10, False), (0, 5, 10, False), (0, 12, 8, False)])
    assert nesting.parent.tolist() == [NONE, 0, NONE]


@given(ROWS)
def test_no_range_is_in_a_partial_overlap_with_parent_or_child(rows: list[Row]) -> None:
    rows = ordered(rows)
    nesting = nested(rows)
    for index, parent in enumerate(nesting.parent.tolist()):
        if parent != NONE and (rows[index][3] or rows[parent][3]):
            assert not partially(rows[parent], rows[index])


@given(ROWS)
def test_ranges_that_fit_stay_in_the_stack(rows: list[Row]) -> None:
    rows = ordered(rows)
    overlap = any(
        partially(first, second) for index, first in enumerate(rows) for second in rows[index:]
    )
    calls_only = nested([(*row[:3], False) for row in rows])
    if not overlap:
        assert np.array_equal(nested(rows).parent, calls_only.parent)


def test_a_range_that_outlasts_its_caller_leaves_the_stack() -> None:
    nesting = nested([(0, 0, 10, False), (0, 2, 12, True), (0, 3, 2, False)])
    assert nesting.parent.tolist() == [NONE, NONE, 0]
    assert nesting.depth.tolist() == [0, 0, 1]


def test_a_call_that_outlasts_a_range_pushes_the_range_out() -> None:
    nesting = nested([(0, 0, 10, True), (0, 2, 12, False), (0, 3, 2, False)])
    assert nesting.parent.tolist() == [NONE, NONE, 1]
