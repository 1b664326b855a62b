"""The table that draws only the rows in sight."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App

from perftui_tui.screens.ops.screen import OpsTable
from perftui_tui.tables.rows import (
    LEFT,
    RIGHT,
    Column,
    TableData,
    Texts,
    column_at,
    column_widths,
    fit,
    name_column,
    ordered_rows,
    shown_columns,
)
from perftui_tui.tables.virtual import VirtualTable
from tests.tui.driving import in_ascii


def table_of(count, offset=0):
    names = [f"op{index}" for index in range(count)]
    calls = np.arange(count, dtype=np.int64) + offset
    return TableData(
        names,
        (
            Column(
                "op", names, names.__getitem__, align=LEFT, total=lambda rows: f"{len(rows)} ops"
            ),
            Column(
                "calls",
                calls,
                lambda row: str(calls[row]),
                width=12,
                total=lambda rows: str(calls[rows].sum()),
            ),
        ),
        sort_column=1,
        empty="nothing here",
    )


class Host(App):
    def __init__(self, data):
        super().__init__()
        self.data = data
        self.seen = []

    def compose(self):
        yield OpsTable()

    def on_mount(self):
        self.table = self.query_one(VirtualTable)
        self.table.show(self.data)
        self.table.focus()

    def on_virtual_table_row_selected(self, event):
        self.seen.append(("selected", event.row))

    def lines(self):
        height = self.table.size.height
        return [self.table.render_line(y).text.rstrip() for y in range(height)]


@pytest.fixture
async def host():
    app = Host(table_of(1000))
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        app.pilot = pilot
        yield app


async def test_largest_first_between_titles_and_sums(host):
    lines = host.lines()
    assert lines[0].split() == ["op", "calls", "▼"]
    assert lines[1].split() == ["op999", "999"]
    assert lines[-1].split() == ["1000", "ops", "499500"]
    assert len(lines) == 10
    header, row = host.lines()[:2]
    assert header.index("op") == row.index("op") == 0
    assert len(header) == len(row)
    # The wheel moves rows, not header and sums.
    host.table.scroll_to(y=500, animate=False, immediate=True)
    lines = host.lines()
    assert lines[0].split()[0] == "op"
    assert lines[1].split() == ["op499", "499"]
    assert lines[-1].split()[0] == "1000"


@pytest.mark.keys(
    "ops.table.move(1)", "ops.table.edge(1)", "ops.table.page(1)",
    "ops.table.move(-1)", "ops.table.edge(-1)", "ops.table.page(-1)",
)  # fmt: skip
async def test_keys_move_the_selection(host):
    await host.pilot.press("down", "down", "up")
    assert host.table.selected_name == "op998"
    await host.pilot.press("end")
    assert host.table.selected_name == "op0"
    assert "op0" in host.lines()[-2]
    await host.pilot.press("home", "pagedown")
    assert host.table.selected_name == "op991"
    await host.pilot.press("pageup")
    assert host.table.selected_name == "op999"


@pytest.mark.keys("ops.table.reverse", "ops.table.sort(-1)", "ops.table.sort(1)")
async def test_keys_change_the_order_and_keep_the_selection(host):
    await host.pilot.press("down", "R")
    assert "calls ▲" in host.lines()[0]
    assert host.table.selected_name == "op998"
    assert any("op998" in line for line in host.lines()[1:-1])
    await host.pilot.press("less_than_sign")
    assert "op ▲" in host.lines()[0]
    await host.pilot.press("greater_than_sign")
    assert "calls ▼" in host.lines()[0]


async def test_a_click_on_a_header_sorts(host):
    await host.pilot.click(VirtualTable, offset=(1, 0))
    assert "op ▲" in host.lines()[0]
    await host.pilot.click(VirtualTable, offset=(1, 0))
    assert "op ▼" in host.lines()[0]


async def test_a_click_selects_and_a_second_or_enter_opens(host):
    await host.pilot.click(VirtualTable, offset=(1, 3))
    assert (host.table.selected_name, host.seen) == ("op997", [])
    await host.pilot.click(VirtualTable, offset=(1, 3))
    await host.pilot.press("down", "enter")
    assert host.seen == [("selected", 997), ("selected", 996)]


async def test_a_filter_keeps_the_selection_and_sums_what_is_shown(host):
    await host.pilot.press("down")
    host.table.filter("OP99")
    assert host.table.selected_name == "op998"
    assert host.lines()[-1].split() == ["11", "ops", str(99 + sum(range(990, 1000)))]
    host.table.filter("zzz")
    assert host.lines()[1] == "no name contains 'zzz'"
    assert host.table.selected_row is None
    await host.pilot.press("down", "up", "end", "pageup", "enter")
    assert host.seen == []


async def test_new_data_keeps_order_and_selection(host):
    await host.pilot.press("R", "end", "up")
    host.table.show(table_of(1200, offset=5))
    assert "calls ▲" in host.lines()[0]
    assert host.table.selected_name == "op998"


async def test_an_empty_table_says_why():
    app = Host(table_of(0))
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        assert app.lines()[1] == "nothing here"
        await pilot.press("down", "enter", "R", "greater_than_sign")
        assert app.seen == []


async def test_why_a_table_is_empty_is_never_cut():
    app = Host(TableData((), (), empty="nothing has been written: the first steps say more"))
    async with app.run_test(size=(30, 10)) as pilot:
        await pilot.pause()
        assert [line.strip() for line in app.lines()[1:4]] == [
            "nothing has been written: the",
            "first steps say more",
            "",
        ]


async def test_a_table_without_columns_takes_keys():
    app = Host(TableData((), (), empty="no trace"))
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.press("down", "R", "less_than_sign", "enter", "end")
        await pilot.click(VirtualTable, offset=(1, 0))
        assert app.lines()[1] == "no trace"


async def test_a_hundred_thousand_rows_format_only_what_is_on_screen():
    asked = []
    data = table_of(100_000)
    plain = data.columns[1]
    counted = Column(plain.title, plain.keys, lambda row: asked.append(row) or "x", width=12)
    app = Host(TableData(data.names, (data.columns[0], counted), sort_column=1))
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.press("end", "R")
        await pilot.pause()
        assert len(set(asked)) < 60


async def test_ascii_marks():
    app = Host(table_of(3))
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        assert " v" in in_ascii(*app.lines())[0]


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


def test_a_cell_is_cut_so_that_names_are_told_apart():
    assert fit("日本語", 4, LEFT) == "日 …"
    name = "sm90_xmma_gemm_f32f32_tn_n 128x64x32"
    assert fit(name, 20, LEFT, middle=True) == "sm90_xmma_ge…8x64x32"
    assert fit("日本語の名前", 6, LEFT, middle=True) == "日本 …"
    names = [f"aten::_scaled_dot_product_flash_attention{end}" for end in ("", "_backward")]
    column = name_column("op", names, "ops")
    forward, backward = (
        fit(column.text(row), 24, column.align, middle=column.middle) for row in (0, 1)
    )
    assert backward.endswith("_backward")
    assert forward.endswith("attention")


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
