"""Tables of columns that scripts and notebooks read."""

from __future__ import annotations

import math
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.api.table import Table, table_of, texts, whole

NAMES = ("index", "allocated_bytes", "operator")


def table(
    rows: list[tuple[int, float | None, str | None]],
) -> Table:
    unknown = [math.nan if row[1] is None else row[1] for row in rows]
    return table_of(
        {
            "index": whole(row[0] for row in rows),
            "allocated_bytes": np.array(unknown, dtype=np.float64),
            "operator": texts(row[2] for row in rows),
        }
    )


numbers = st.integers(-(2**63), 2**63 - 1)
values = st.none() | st.floats(allow_nan=False)
names = st.none() | st.text()


@pytest.mark.slow
@given(st.lists(st.tuples(numbers, values, names)))
def test_rows_and_lists_hold_what_went_in(rows: list[tuple[int, float | None, str | None]]) -> None:
    made = table(rows)

    assert made.columns == NAMES
    assert len(made) == len(rows)
    assert [tuple(row) for row in made] == rows
    assert list(zip(*made.to_dict().values(), strict=True)) == rows


def test_rows_have_names_and_values_of_python() -> None:
    (row,) = table([(3, None, "aten::mm")])

    assert (row.index, row.allocated_bytes, row.operator) == (3, None, "aten::mm")
    assert type(row.index) is int


def test_columns_can_be_read_only() -> None:
    made = table([(3, 1.0, "aten::mm")])

    with pytest.raises(ValueError, match="read-only"):
        made["index"][0] = 4
    with pytest.raises(TypeError):
        made.values["index"] = made["index"]  # type: ignore[index] - what must not work
    with pytest.raises(KeyError):
        made["no such column"]


def test_a_table_says_what_it_holds() -> None:
    assert repr(table([])) == "<Table: 0 rows of index, allocated_bytes, operator>"
    many = table_of({f"c{at}": whole([1]) for at in range(9)})
    assert repr(many) == "<Table: 1 row of c0, c1, c2, c3, c4, c5, ...>"


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_package_that_is_missing_is_named(monkeypatch: Any, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ImportError, match=f"to_{package} needs {package}: pip install {package}"):
        getattr(table([]), f"to_{package}")()


def test_frames_are_made_of_the_columns(monkeypatch: Any) -> None:
    """With packages that write down what they are given."""
    made = table([(3, None, "aten::mm"), (4, 2.0, None)])
    for package in ("pandas", "polars"):
        played: Any = ModuleType(package)
        played.DataFrame = lambda columns, **how: (columns, how)
        monkeypatch.setitem(sys.modules, package, played)

    columns, how = made.to_pandas()
    assert how == {}
    assert {name: column is made[name] for name, column in columns.items()} == dict.fromkeys(
        NAMES, True
    )
    columns, how = made.to_polars()
    assert how == {"nan_to_null": True}
    assert columns["operator"] == ["aten::mm", None]
    assert columns["index"] is made["index"]


@pytest.mark.slow
def test_pandas_reads_them() -> None:
    pytest.importorskip("pandas")
    frame = table([(3, None, "aten::mm"), (4, 2.0, None)]).to_pandas()

    assert list(frame.columns) == list(NAMES)
    assert frame["index"].tolist() == [3, 4]
    assert frame["allocated_bytes"].isna().tolist() == [True, False]


@pytest.mark.slow
def test_polars_reads_them() -> None:
    pytest.importorskip("polars")
    frame = table([(3, None, "aten::mm"), (4, 2.0, None)]).to_polars()

    assert frame.rows() == [(3, None, "aten::mm"), (4, 2.0, None)]
