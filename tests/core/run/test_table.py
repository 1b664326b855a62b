"""A growing table holds what a plain list of rows would, and its snapshots never change."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.run.journal import Column
from perftui.run.table import GrowingTable

COLUMNS = (Column("n"), Column("m"), Column("data"))
INTEGERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.one_of(st.text(max_size=4), st.lists(st.integers(), max_size=2), st.just({"k": [1]}))
BATCHES = st.lists(st.lists(st.tuples(INTEGERS, INTEGERS, TEXTS), max_size=40), max_size=8)


@pytest.mark.slow
@settings(deadline=None)
@given(batches=BATCHES)
def test_integers_equal_a_list_of_rows(batches: list[list[tuple[Any, ...]]]) -> None:
    table = GrowingTable(COLUMNS, floats=False)
    oracle: list[tuple[Any, ...]] = []
    snapshots = []
    for batch in batches:
        table.extend(batch)
        oracle += batch
        snapshots.append((table.freeze(), len(oracle)))
    for snapshot, length in snapshots:
        rows = oracle[:length]
        assert len(snapshot) == length
        assert snapshot["n"].tolist() == [-1 if row[0] is None else row[0] for row in rows]
        assert snapshot["m"].tolist() == [-1 if row[1] is None else row[1] for row in rows]
        assert snapshot["data"].tolist() == [row[2] for row in rows]
    assert table.refused == 0


@settings(deadline=None)
@given(values=st.lists(st.one_of(st.none(), st.integers(-9, 9), st.floats()), max_size=100))
def test_floats_keep_a_missing_value_as_nan(values: list[float | None]) -> None:
    table = GrowingTable((Column("x"),), floats=True)
    for value in values:
        table.extend([[value]])
    expected = [math.nan if value is None else float(value) for value in values]
    assert np.array_equal(table.freeze()["x"], np.array(expected), equal_nan=True)


@pytest.mark.parametrize("bad", ["7", 1.5, 2**63, -(2**63) - 1, [1], {"a": 1}, 2**70])
def test_row_that_does_not_fit_is_left_out_and_counted(bad: object) -> None:
    table = GrowingTable(COLUMNS, floats=False)
    table.extend([[1, 2, "a"], [3, bad, "b"], [5, 6, "c"]])
    frozen = table.freeze()
    assert frozen["n"].tolist() == [1, 5]
    assert frozen["m"].tolist() == [2, 6]
    assert frozen["data"].tolist() == ["a", "c"]
    assert table.refused == 1


def test_snapshot_cannot_be_written() -> None:
    table = GrowingTable((Column("x"),), floats=False)
    table.extend([[1]])
    with pytest.raises(ValueError, match="read-only"):
        table.freeze()["x"][0] = 2


def test_where_takes_the_rows_of_its_mask() -> None:
    table = GrowingTable((Column("x"),), floats=False)
    table.extend([[1], [2], [3]])
    frozen = table.freeze()
    assert frozen.where(frozen["x"] > 1)["x"].tolist() == [2, 3]
