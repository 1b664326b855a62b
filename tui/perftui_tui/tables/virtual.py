"""A table of which rows are selected, sorted and filtered by keys and mouse."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from rich.segment import Segment
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from perftui.trace.model import Int64
from perftui_tui.look.rows import plain, wrap
from perftui_tui.tables.rows import (
    EMPTY,
    GAP,
    TableData,
    column_at,
    column_widths,
    fit,
    ordered_rows,
    shown_columns,
)

_FRAME_ROWS = 2
"""The header above the rows and the sums below them, which do not scroll."""

TABLE_ROWS = _FRAME_ROWS + 1
"""Rows of a table beside those of its data, with a blank."""


class VirtualTable(ScrollView, can_focus=True):
    """Rows of a ``TableData`` under a header and over a line of sums.

    Order, filter and selection are kept when new data of the same columns is shown; the selection
    follows the row's name. The text of a cell is only asked for while it is on screen. Each screen
    with a table derives its own, with the keys of its scope."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"virtual-table--{part}" for part in ("header", "sorted", "cursor", "sums", "empty", "bar")
    }
    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text()

    cursor: reactive[int] = reactive(0, repaint=False)
    """Position of the selected row in the shown order."""

    data = EMPTY
    """What is shown."""
    order: Int64 = np.zeros(0, np.int64)
    """Rows of the data as they are shown, without those that a filter leaves out."""
    _sort_column = 0
    _descending = True
    _needle = ""
    _laid_out: dict[int, int] = {}  # noqa: RUF012 - only replaced
    _laid_out_for: tuple[TableData, int] = EMPTY, 0

    @dataclass(eq=False)
    class RowMessage(Message):
        """Something happened to one row."""

        row: int
        """Row of the data, whatever the order on screen."""

    class RowHighlighted(RowMessage):
        """The selection moved to a row."""

    class RowSelected(RowMessage):
        """A row was opened with ``enter`` or by a click on the selection."""

    def show(self, data: TableData) -> None:
        """Replace the data; order, filter and selection stay where the columns are the same."""
        row = self.selected_row
        selected = None if row is None else self.data.id_of(row)
        # The order stays if the same kind of rows still has the column they are sorted by.
        before = [column.title for column in self.data.columns]
        after = [column.title for column in data.columns]
        if before and before[:1] == after[:1] and before[self._sort_column] in after:
            self._sort_column = after.index(before[self._sort_column])
        else:
            self._sort_column, self._descending = data.sort_column, data.descending
        self.data = data
        self._reorder(next((row for row in range(len(data)) if data.id_of(row) == selected), None))

    def filter(self, needle: str) -> None:
        """Show only rows whose name contains ``needle``, in any case."""
        self._needle = needle
        self._reorder(self.selected_row)

    def select(self, row: int) -> None:
        """Put the cursor on a row of the data, if it is shown."""
        places = np.flatnonzero(self.order == row)
        if len(places):
            self._select(int(places[0]))

    @property
    def selected_row(self) -> int | None:
        """Row of the data under the cursor."""
        return int(self.order[self.cursor]) if 0 <= self.cursor < len(self.order) else None

    @property
    def selected_name(self) -> str | None:
        row = self.selected_row
        return None if row is None else self.data.names[row]

    def _reorder(self, selected: int | None) -> None:
        self.order = ordered_rows(self.data, self._sort_column, self._descending, self._needle)
        self.virtual_size = Size(0, len(self.order) + _FRAME_ROWS)
        places = np.flatnonzero(self.order == (-1 if selected is None else selected))
        self.cursor = int(places[0]) if len(places) else 0
        self._reveal()
        self._announce(self.RowHighlighted)
        self.refresh()

    def _announce(self, message: type[RowMessage]) -> None:
        row = self.selected_row
        if row is not None:
            self.post_message(message(row))

    def _body_height(self) -> int:
        return max(self.size.height - _FRAME_ROWS, 1)

    def _reveal(self) -> None:
        """Scroll the selection into view; before the first layout there is nowhere to scroll."""
        if self.size.height:
            selected = Region(0, self.cursor, 1, _FRAME_ROWS + 1)
            self.scroll_to_region(selected, animate=False, force=True, immediate=True)

    def on_resize(self) -> None:
        self._reveal()

    def _select(self, position: int) -> None:
        last = len(self.order) - 1
        position = min(max(position, 0), max(last, 0))
        if position != self.cursor:
            before, top = self.cursor, self.scroll_offset.y
            self.cursor = position
            self._reveal()
            self._announce(self.RowHighlighted)
            if self.scroll_offset.y != top:
                self.refresh()
                return
            for changed in (before, position):
                if 0 <= changed - top < self._body_height():
                    self.refresh(Region(0, changed - top + 1, self.size.width, 1))

    def action_move(self, rows: int) -> None:
        self._select(self.cursor + rows)

    def action_page(self, pages: int) -> None:
        self._select(self.cursor + pages * self._body_height())

    def action_edge(self, direction: int) -> None:
        """Select the first (-1) or last (1) row."""
        self._select(0 if direction < 0 else len(self.order) - 1)

    def action_open(self) -> None:
        self._announce(self.RowSelected)

    def action_sort(self, step: int) -> None:
        """Sort by the next (1) or previous (-1) column on screen."""
        shown = [index for index in self._widths() if self.data.columns[index].bar is None]
        if shown:
            place = shown.index(self._sort_column) if self._sort_column in shown else 0
            self.sort_by(shown[(place + step) % len(shown)])

    def action_reverse(self) -> None:
        self.sort_by(self._sort_column)

    def sort_by(self, column: int) -> None:
        """Sort by a column: numbers largest first, text from A; again reverses the order."""
        if column == self._sort_column:
            self._descending = not self._descending
        else:
            self._descending = isinstance(self.data.columns[column].keys, np.ndarray)
        self._sort_column = column
        self._reorder(self.selected_row)

    def on_click(self, event: events.Click) -> None:
        """Sort by the header that was clicked, select a row, open the selected one."""
        if event.y == 0:
            widths = self._widths()
            place = column_at(list(widths.values()), event.x)
            if place is not None:
                index = list(widths)[place]
                self.sort_by(index - 1 if self.data.columns[index].bar else index)
            return
        position = event.y - 1 + self.scroll_offset.y
        if not 1 <= event.y <= self._body_height() or position >= len(self.order):
            return
        if position == self.cursor:
            self._announce(self.RowSelected)
        self._select(position)

    # Drawing

    def _widths(self) -> dict[int, int]:
        """Columns that are shown, with their cells: the same for all rows of a frame."""
        data, width = wanted = self.data, self.scrollable_content_region.width
        if self._laid_out_for != wanted:
            shown = shown_columns(data.columns, width)
            widths = column_widths(data.columns, shown, width)
            self._laid_out, self._laid_out_for = dict(zip(shown, widths, strict=True)), wanted
        return self._laid_out

    def render_line(self, y: int) -> Strip:
        """One line of the screen: header, row or sums."""
        width = self.size.width
        if y == 0:
            return self._header().extend_cell_length(width, self.rich_style)
        if y == self.size.height - 1:
            return self._line(self._sums(), "virtual-table--sums")
        position = y - 1 + self.scroll_offset.y
        if position < len(self.order):
            return self._row(int(self.order[position]), position == self.cursor)
        lines = [plain(line) for line in wrap(self.why_empty, width)]
        return self._line(lines[y - 1] if y <= len(lines) else "", "virtual-table--empty")

    def _line(self, text: str, component: str) -> Strip:
        style = self.get_component_rich_style(component)
        return Strip([Segment(text, style)]).adjust_cell_length(self.size.width, style)

    def _header(self) -> Strip:
        arrow = "▼" if self._descending else "▲"
        segments = []
        for index, width in self._widths().items():
            column, is_sorted = self.data.columns[index], index == self._sort_column
            title = f"{column.title} {arrow}" if is_sorted else column.title
            component = f"virtual-table--{'sorted' if is_sorted else 'header'}"
            style = self.get_component_rich_style(component)
            segments.append(Segment(fit(title, width, column.align) + " ", style))
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def _row(self, row: int, is_selected: bool) -> Strip:
        """Text in one style, but for bars, which look the same in every row."""
        component = "virtual-table--cursor" if is_selected else ""
        style = self.get_component_rich_style(component) if component else self.rich_style
        bar_style = self.get_component_rich_style("virtual-table--bar")
        segments = []
        cells: list[str] = []
        for index, width in self._widths().items():
            column = self.data.columns[index]
            if column.bar is None:
                text = fit(column.text(row), width, column.align, middle=column.middle)
                cells.append(f"{text} ")
                continue
            segments.append(Segment("".join(cells), style))
            segments.append(Segment(column.bar(row, width).ljust(width) + " ", bar_style))
            cells.clear()
        segments.append(Segment("".join(cells), style))
        return Strip(segments).adjust_cell_length(self.size.width, style)

    def _sums(self) -> str:
        columns = ((self.data.columns[index], width) for index, width in self._widths().items())
        return (" " * GAP).join(
            fit("" if column.total is None else column.total(self.order), width, column.align)
            for column, width in columns
        )

    @property
    def why_empty(self) -> str:
        """Why there is no row; empty where there is one."""
        none = f"no name contains '{self._needle}'" if len(self.data) else self.data.empty
        return "" if len(self.order) else none
