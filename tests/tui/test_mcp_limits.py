"""How answers of tools are cut, and what is said of it."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.report.csv_tables import CsvTable, csv_text
from perftui.report.encode import encode_object
from perftui_tui.commands.mcp_answer import MOST_BYTES, TooLongError, csv_rows, limited


def test_tables_are_cut_wherever_they_are() -> None:
    rows = [{"parts": [{"at": at} for at in range(3)]} for _ in range(5)]
    found = limited({"a": {"rows": rows}, "path": "x"}, 2)
    assert found == {
        "a": {"rows": [{"parts": [{"at": 0}, {"at": 1}]}] * 2},
        "path": "x",
        "left_out": {"a.rows": 3, "a.rows[0].parts": 1, "a.rows[1].parts": 1},
    }


def test_a_table_by_column_is_cut_as_one() -> None:
    found = limited({"rows": {"start": list(range(9)), "kind": ["train"] * 9}}, 4)
    assert found == {
        "rows": {"start": [0, 1, 2, 3], "kind": ["train"] * 4},
        "left_out": {"rows": 5},
    }


def test_commands_notes_and_pairs_stay_whole() -> None:
    whole: dict[str, Any] = {
        "next": ["perftui", "diagnose", "--modules", "--window", "80", "RUN"],
        "parts_ns": {"forward": [3, 4]},
        "notes": ["a", "b", "c"],
    }
    assert limited(whole, 1) == whole


def test_an_answer_is_never_longer_than_the_limit() -> None:
    long = [{"name": "x" * 1_000} for _ in range(100)]
    found = limited({"kernels": long}, 80)
    assert len(encode_object(found, on_one_line=True)) <= MOST_BYTES
    assert found["left_out"] == {"kernels": 100 - len(found["kernels"])}
    assert len(found["kernels"]) == 20
    with pytest.raises(TooLongError, match="bytes with one row in each table"):
        limited({"kernels": [{"name": "x" * MOST_BYTES}] * 3}, 10)


CELLS = st.none() | st.integers() | st.text(alphabet='a",\n\r\x1b\u2028 ', max_size=6)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=6), st.integers(0, 7), st.integers(1, 7))
def test_parts_of_csv_are_whole_rows(
    rows: list[tuple[str | int | None, ...]], skip: int, most: int
) -> None:
    text = csv_text(CsvTable(("a", "b"), tuple(rows)))
    part, total = csv_rows(text, skip, most)
    assert total == len(rows)
    # As Python reads it: a row that is empty but for the comma has two cells.
    read = list(csv.reader(io.StringIO(part, newline="")))
    written = list(csv.reader(io.StringIO(text, newline="")))
    assert read == [written[0], *written[1:][skip : skip + most]]


def test_long_rows_are_fewer() -> None:
    text = csv_text(CsvTable(("a",), tuple(("x" * 15_000,) for _ in range(9))))
    part, total = csv_rows(text, 0, 9)
    assert (part.count("\n"), total) == (1 + 2, 9)
    alone = csv_text(CsvTable(("a",), (("x" * 2 * MOST_BYTES,),)))
    assert csv_rows(alone, 0, 1) == (alone, 1)
