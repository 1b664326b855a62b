from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from perftui_tui.tables.columns import Texts, name_column
from perftui_tui.tables.rows import (
    LEFT,
    RIGHT,
    Column,
    TableData,
    column_at,
    column_widths,
    fit,
    ordered_rows,
    row_text,
    shown_columns,
)


def table(names, numbers):
    keys = np.asarray(numbers, np.int64)
    return TableData(
        names,
        (
            Column("name", names, names.__getitem__, align=LEFT),
            Column("number", keys, lambda row: str(keys[row]), width=6),
        ),
    )


ROWS = st.lists(st.tuples(st.text(max_size=5), st.integers(-9, 9)), max_size=30)


@given(ROWS, st.booleans(), st.text(max_size=2))
def test_numbers_sort_as_a_stable_sort_of_the_filtered_rows(rows, descending, needle):
    names, numbers = [name for name, _ in rows], [number for _, number in rows]
    wanted = [i for i, name in enumerate(names) if needle.casefold() in name.casefold()]
    wanted.sort(key=lambda i: -numbers[i] if descending else numbers[i])
    assert ordered_rows(table(names, numbers), 1, descending, needle).tolist() == wanted


def test_words_sort_in_any_case():
    assert ordered_rows(table(["b", "A", "C"], [0, 0, 0]), 0, False).tolist() == [1, 0, 2]


@given(st.text(max_size=30), st.integers(1, 20), st.sampled_from([LEFT, RIGHT]), st.booleans())
def test_a_cell_is_as_wide_as_its_column(text, width, align, middle):
    assert cell_len(fit(text, width, align, middle=middle)) == width


def test_a_cell_that_loses_its_middle_keeps_both_ends():
    name = "sm90_xmma_gemm_f32f32_tn_n 128x64x32"
    assert fit(name, 20, LEFT, middle=True) == "sm90_xmma_ge…8x64x32"
    assert fit("日本語の名前", 6, LEFT, middle=True) == "日本 …"


def test_wide_characters_are_not_cut_in_two():
    assert fit("日本語", 4, LEFT) == "日 …"


COLUMNS = (
    Column("name", [], str, align=LEFT),
    Column("a", [], str, width=10),
    Column("b", [], str, width=10, optional=2),
    Column("c", [], str, width=10, optional=1),
)


def test_a_narrow_screen_loses_the_least_needed_column_first():
    assert [shown_columns(COLUMNS, width) for width in (80, 50, 40, 10)] == [
        [0, 1, 2, 3],
        [0, 1, 3],
        [0, 1],
        [0, 1],
    ]


@given(st.integers(40, 300))
def test_the_flexible_column_takes_what_is_left(width):
    widths = column_widths(COLUMNS, [0, 1, 2], width)
    assert sum(widths) + len(widths) - 1 == width


@given(st.integers(40, 300), st.integers(0, 120))
def test_a_bar_takes_what_names_do_not_need(width, longest):
    bar = Column("", [], str, width=10, bar=lambda _row, _cells: "")
    columns = (replace(COLUMNS[0], longest=longest), COLUMNS[1], bar)
    name, number, drawn = column_widths(columns, [0, 1, 2], width)
    assert name + number + drawn + 2 == width
    assert number == 10
    assert 10 <= drawn <= 60
    assert drawn == 10 or name >= longest > 0
    # Without a bar on screen names have it all.
    assert column_widths(columns, [0, 1], width) == [width - 11, 10]


def test_the_longest_text_of_names_is_known_unless_they_are_very_many():
    assert name_column("op", ["a" * 40, "b"], "ops").longest == 40
    assert name_column("op", ["a"], "operators").longest == len("0 of 1 operator")
    made = []
    many = Texts(3000, lambda row: made.append(row) or "a")
    assert name_column("op", many, "ops").longest == 0
    assert made == []


def test_a_click_finds_its_column():
    assert [column_at([4, 6], x) for x in (0, 4, 5, 11, 12)] == [0, 0, 1, 1, None]


def test_cells_are_joined_with_one_blank():
    assert row_text(["aten::mm", "12"], [6, 4], [LEFT, RIGHT]) == "aten:…   12"


def test_a_cut_name_still_tells_forward_from_backward():
    names = [f"aten::_scaled_dot_product_flash_attention{end}" for end in ("", "_backward")]
    column = name_column("op", names, "ops")
    forward, backward = (
        fit(column.text(row), 24, column.align, middle=column.middle) for row in (0, 1)
    )
    assert backward.endswith("_backward")
    assert forward.endswith("attention")
