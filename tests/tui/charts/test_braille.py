"""Areas of braille dots: as wide as asked, and as high as the values."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.charts.area import DOTS, braille_area, column_steps

VALUES = st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), max_size=60)


def heights(rows: list[str]) -> list[int]:
    """Dots of each column, left to right, counted by the bits of the characters."""
    left, right = 0x47, 0xB8
    patterns = [[0 if cell == " " else ord(cell) - 0x2800 for cell in line] for line in rows]
    columns = zip(*patterns, strict=True)
    return [
        sum((cell & side).bit_count() for cell in column)
        for column in columns
        for side in (left, right)
    ]


def test_a_cell_holds_two_values() -> None:
    assert braille_area([1, 2, 3, 4], width=2, height=1, low=0, high=4) == ["⣠⣾"]


def test_rows_go_from_top_to_bottom() -> None:
    assert braille_area([4, 8], width=1, height=2, low=0, high=8) == ["⢸", "⣿"]


def test_fewer_values_than_columns_stand_at_the_right() -> None:
    assert braille_area([8, 4], width=3, height=1, low=0, high=8) == ["  ⣧"]


@given(VALUES, st.integers(1, 30), st.integers(1, 8))
def test_every_row_is_as_wide_as_asked(values: list[float], width: int, height: int) -> None:
    rows = braille_area(values, width, height, -10, 10)
    assert [len(row) for row in rows] == [width] * height


@given(st.lists(st.floats(0, 10) | st.just(math.nan), max_size=20), st.integers(1, 6))
def test_every_column_is_as_high_as_its_value(values: list[float], height: int) -> None:
    rows = braille_area(values, 10, height, 0, 10)
    padded = [math.nan] * (20 - len(values)) + values
    assert heights(rows) == [column_steps(value, 0, 10, height * DOTS) for value in padded]
