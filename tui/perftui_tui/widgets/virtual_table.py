"""A table that draws only the rows on screen, so that its length costs nothing."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from perftui_tui.charts.units import ASCII_TEXT
from perftui_tui.keymap import bindings
from perftui_tui.widgets.row_view import RowView
from perftui_tui.widgets.table_rows import (
    EMPTY,
    TableData,
    column_at,
    column_widths,
    ordered_rows,
    row_text,
    shown_columns,
)

_FRAME_ROWS = 2
"""The header above the rows and the sums below them, which do not scroll."""


class VirtualTable(ScrollView, can_focus=True):
    """Rows of a ``TableData`` under a header and over a line of sums.

    Order, filter and selection are kept when new data of the same columns is shown; the selection
    follows the row's name. The text of a cell is only asked for while it is on screen.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "virtual-table--header",
        "virtual-table--sorted",
        "virtual-table--cursor",
        "virtual-table--sums",
        "virtual-table--empty",
    }
    DEFAULT_CSS = """
    VirtualTable {
        height: 1fr;
        scrollbar-size: 0 1;
        overflow-x: hidden;
        & > .virtual-table--header { text-style: bold; color: $text-muted; }
        & > .virtual-table--sorted { text-style: bold; color: $text; }
        & > .virtual-table--cursor { background: $panel; text-style: bold; }
        & > .virtual-table--sums { text-style: bold; }
        & > .virtual-table--empty { color: $text-muted; }
        &:focus > .virtual-table--cursor { color: $background; background: $primary; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("ops.table")

    cursor: reactive[int] = reactive(0, repaint=False)
    """Position of the selected row in the shown order."""

    class RowMessage(Message):
        """Something happened to one row of ``table``."""

        def __init__(self, table: VirtualTable, row: int) -> None:
            super().__init__()
            self.table = table
            self.row = row
            """Row of the data, whatever the order on screen."""

        @property
        def control(self) -> VirtualTable:
            """The table that sent the message."""
            return self.table

    class RowHighlighted(RowMessage):
        """The selection moved to a row."""

    class RowSelected(RowMessage):
        """A row was opened with ``enter`` or by a click on the selection."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._data = EMPTY
        self._order = np.zeros(0, np.int64)
        self._sort_column = 0
        self._descending = True
        self._needle = ""

    def show(self, data: TableData) -> None:
        """Replace the data; order, filter and selection stay where the columns are the same."""
        selected = self.selected_name
        if [c.title for c in data.columns] != [c.title for c in self._data.columns]:
            self._sort_column, self._descending = data.sort_column, data.descending
        self._data = data
        self._reorder(selected)

    def filter(self, needle: str) -> None:
        """Show only rows whose name contains ``needle``, in any case."""
        selected, self._needle = self.selected_name, needle
        self._reorder(selected)

    @property
    def selected_row(self) -> int | None:
        """Row of the data under the cursor."""
        return int(self._order[self.cursor]) if 0 <= self.cursor < len(self._order) else None

    @property
    def selected_name(self) -> str | None:
        """Name of the row under the cursor."""
        row = self.selected_row
        return None if row is None else self._data.names[row]

    def _reorder(self, selected: str | None) -> None:
        self._order = ordered_rows(self._data, self._sort_column, self._descending, self._needle)
        self.virtual_size = Size(0, len(self._order) + _FRAME_ROWS)
        names = (self._data.names[row] for row in self._order.tolist())
        self.cursor = next((i for i, name in enumerate(names) if name == selected), 0)
        self._reveal()
        self._announce(self.RowHighlighted)
        self.refresh()

    def _announce(self, message: type[RowMessage]) -> None:
        row = self.selected_row
        if row is not None:
            self.post_message(message(self, row))

    def _body_height(self) -> int:
        return max(self.size.height - _FRAME_ROWS, 1)

    def _reveal(self) -> None:
        """Scroll the selection into view; before the first layout there is nowhere to scroll."""
        if self.size.height == 0:
            return
        top, body = self.scroll_offset.y, self._body_height()
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True)
        elif self.cursor >= top + body:
            self.scroll_to(y=self.cursor - body + 1, animate=False, immediate=True)

    def on_resize(self) -> None:
        """Keep the selection in view."""
        self._reveal()

    def _select(self, position: int) -> None:
        last = len(self._order) - 1
        position = min(max(position, 0), max(last, 0))
        if position != self.cursor:
            self.cursor = position
            self._reveal()
            self._announce(self.RowHighlighted)
            self.refresh()

    def action_move(self, rows: int) -> None:
        """Move the selection by ``rows``."""
        self._select(self.cursor + rows)

    def action_page(self, pages: int) -> None:
        """Move the selection by a screenful."""
        self._select(self.cursor + pages * self._body_height())

    def action_edge(self, direction: int) -> None:
        """Select the first (-1) or last (1) row."""
        self._select(0 if direction < 0 else len(self._order) - 1)

    def action_open(self) -> None:
        """Open the selected row."""
        self._announce(self.RowSelected)

    def action_sort(self, step: int) -> None:
        """Sort by the next (1) or previous (-1) column on screen."""
        shown = self._shown()
        if shown:
            place = shown.index(self._sort_column) if self._sort_column in shown else 0
            self.sort_by(shown[(place + step) % len(shown)])

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._descending = not self._descending
        self._reorder(self.selected_name)

    def sort_by(self, column: int) -> None:
        """Sort by a column: numbers largest first, words from A; again turns it round."""
        if column == self._sort_column:
            self._descending = not self._descending
        else:
            self._descending = isinstance(self._data.columns[column].keys, np.ndarray)
        self._sort_column = column
        self._reorder(self.selected_name)

    def on_click(self, event: events.Click) -> None:
        """Sort by the header that was clicked, select a row, open the selected one."""
        if event.y == 0:
            place = column_at(self._widths(), event.x)
            if place is not None:
                self.sort_by(self._shown()[place])
            return
        position = event.y - 1 + self.scroll_offset.y
        if not 1 <= event.y <= self._body_height() or position >= len(self._order):
            return
        if position == self.cursor:
            self._announce(self.RowSelected)
        self._select(position)

    def _shown(self) -> list[int]:
        return shown_columns(self._data.columns, self.scrollable_content_region.width)

    def _widths(self) -> list[int]:
        width = self.scrollable_content_region.width
        return column_widths(self._data.columns, self._shown(), width)

    def render_line(self, y: int) -> Strip:
        """One line of the screen: header, row or sums."""
        width = self.size.width
        if y == 0:
            return self._header().extend_cell_length(width, self.rich_style)
        if y == self.size.height - 1:
            return self._line(self._sums(), "virtual-table--sums")
        position = y - 1 + self.scroll_offset.y
        if position < len(self._order):
            style = "virtual-table--cursor" if position == self.cursor else ""
            return self._line(self._row(int(self._order[position])), style)
        return self._line(self._empty() if y == 1 else "", "virtual-table--empty")

    def _line(self, text: str, component: str) -> Strip:
        style = self.get_component_rich_style(component) if component else self.rich_style
        text = text.translate(ASCII_TEXT) if RowView.ascii_only else text
        return Strip([Segment(text, style)]).adjust_cell_length(self.size.width, style)

    def _header(self) -> Strip:
        arrow = ("v" if self._descending else "^") if RowView.ascii_only else None
        arrow = arrow or ("▼" if self._descending else "▲")
        segments = []
        for index, width in zip(self._shown(), self._widths(), strict=True):
            column, is_sorted = self._data.columns[index], index == self._sort_column
            title = f"{column.title} {arrow}" if is_sorted else column.title
            component = f"virtual-table--{'sorted' if is_sorted else 'header'}"
            style = self.get_component_rich_style(component)
            segments.append(Segment(row_text([title], [width], [column.align]) + " ", style))
        return Strip(segments).adjust_cell_length(self.size.width, self.rich_style)

    def _row(self, row: int) -> str:
        columns = [self._data.columns[index] for index in self._shown()]
        texts = [column.text(row) for column in columns]
        return row_text(texts, self._widths(), [column.align for column in columns])

    def _sums(self) -> str:
        columns = [self._data.columns[index] for index in self._shown()]
        texts = ["" if c.total is None else c.total(self._order) for c in columns]
        return row_text(texts, self._widths(), [column.align for column in columns])

    def _empty(self) -> str:
        if len(self._order):
            return ""
        return f"no name contains '{self._needle}'" if len(self._data) else self._data.empty
