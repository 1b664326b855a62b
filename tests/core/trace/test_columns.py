"""Arrays that grow, order, nest and hold times exactly."""

from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace.columns import arrays as module
from perftui.trace.columns import native
from perftui.trace.columns.arrays import (
    FAR,
    GrowableArray,
    Nesting,
    downcast,
    nest,
    order,
    time_outliers,
)
from perftui.trace.kineto import events
from perftui.trace.model import NONE

Row = tuple[int, int, int, bool]
ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12), st.booleans()), max_size=30
)


@pytest.fixture(scope="module", params=["native", 3, 1 << 15])
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


@pytest.mark.usefixtures("block")
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


@pytest.mark.usefixtures("block")
@given(ROWS)
def test_no_range_is_in_a_partial_overlap_with_parent_or_child(rows: list[Row]) -> None:
    rows = ordered(rows)
    nesting = nested(rows)
    for index, parent in enumerate(nesting.parent.tolist()):
        if parent != NONE and (rows[index][3] or rows[parent][3]):
            assert not partially(rows[parent], rows[index])


@pytest.mark.usefixtures("block")
@given(ROWS)
def test_ranges_that_fit_stay_in_the_stack(rows: list[Row]) -> None:
    rows = ordered(rows)
    overlap = any(
        partially(first, second) for index, first in enumerate(rows) for second in rows[index:]
    )
    calls_only = nested([(*row[:3], False) for row in rows])
    if not overlap:
        assert np.array_equal(nested(rows).parent, calls_only.parent)


@pytest.mark.usefixtures("block")
def test_a_range_that_outlasts_its_caller_leaves_the_stack() -> None:
    nesting = nested([(0, 0, 10, False), (0, 2, 12, True), (0, 3, 2, False)])
    assert nesting.parent.tolist() == [NONE, NONE, 0]
    assert nesting.depth.tolist() == [0, 0, 1]


@pytest.mark.usefixtures("block")
def test_a_call_that_outlasts_a_range_pushes_the_range_out() -> None:
    nesting = nested([(0, 0, 10, True), (0, 2, 12, False), (0, 3, 2, False)])
    assert nesting.parent.tolist() == [NONE, NONE, 1]


def slow(text: str) -> int:
    return int((Decimal(text) * 1000).to_integral_value(ROUND_HALF_EVEN))


NEAR_US = st.integers(-(2**43) + 1, 2**43 - 1)
THOUSANDTHS = st.integers(0, 999)


@given(st.lists(st.tuples(NEAR_US, THOUSANDTHS), min_size=1))
def test_floats_below_the_limit_keep_every_nanosecond(values: list[tuple[int, int]]) -> None:
    texts = [f"{whole}.{part:03}" for whole, part in values]
    column = events.time_column([float(text) for text in texts])
    assert column.tolist() == [slow(text) for text in texts]


@given(st.integers(0, 2**43 - 1), st.integers(0, 9_999_999), st.integers(1, 7))
def test_digits_below_a_nanosecond_are_never_guessed(whole: int, part: int, places: int) -> None:
    text = f"{whole}.{part:07}"[: len(str(whole)) + 1 + places]
    column = events.time_column([float(text)])
    assert column is None or column.tolist() == [slow(text)]


@given(st.lists(st.integers(-(2**51), 2**51), min_size=1))
def test_whole_microseconds_are_exact(values: list[int]) -> None:
    assert events.time_column(values).tolist() == [1000 * value for value in values]


@pytest.mark.parametrize(
    "values",
    [
        [1712195495502094.565],
        [20.0005],
        [float("nan")],
        [1.0, float("inf")],
        ["12.5"],
        [None],
        [1, [2]],
        [2**60],
        [2**70],
    ],
)
def test_what_numbers_cannot_say_exactly_is_left_to_the_text(values: list[object]) -> None:
    assert events.time_column(values) is None


@given(st.integers(0, 2**51), THOUSANDTHS)
def test_text_is_read_exactly(whole: int, part: int) -> None:
    assert events.nanoseconds(f"{whole}.{part:03}") == whole * 1000 + part
    assert events.nanoseconds(Decimal(f"{whole}.{part:03}")) == whole * 1000 + part


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1e3", 1_000_000),
        (" 7 ", 7000),
        (True, None),
        ("soon", None),
        (None, None),
        ("nan", None),
        ("Infinity", None),
        ("1e999999", None),
        (2**80, None),
        ("0.0005", 0),
        ("0.0015", 2),
    ],
)
def test_odd_spellings(value: object, expected: int | None) -> None:
    assert events.nanoseconds(value) == expected


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
    assert found.rows.tolist() == rows
    assert found.message.startswith(said)


def test_a_long_recording_with_events_all_along_is_whole() -> None:
    assert time_outliers(np.arange(0, 100 * HOUR, HOUR)) is None
