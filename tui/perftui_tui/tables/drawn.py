"""The lines of a table, of which only those on screen are drawn: its length costs nothing."""

from __future__ import annotations

import numpy as np
from rich.segment import Segment
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from perftui.trace.model import Int64
from perftui_tui.look.rows import plain, wrap
from perftui_tui.tables.rows import EMPTY, TableData, column_widths, fit, row_text, shown_columns


class DrawnTable(ScrollView):
    """Draws what ``VirtualTable`` holds, in the colours of its component classes."""

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
        lines = self._empty(width)
        return self._line(lines[y - 1] if y <= len(lines) else "", "virtual-table--empty")

    def _line(self, text: str, component: str) -> Strip:
        style = self.get_component_rich_style(component) if component else self.rich_style
        return Strip([Segment(text, style)]).adjust_cell_length(self.size.width, style)

    def _header(self) -> Strip:
        arrow = "▼" if self._descending else "▲"
        segments = []
        for index, width in self._widths().items():
            column, is_sorted = self.data.columns[index], index == self._sort_column
            title = f"{column.title} {arrow}" if is_sorted else column.title
            component = f"virtual-table--{'sorted' if is_sorted else 'header'}"
            style = self.get_component_rich_style(component)
            segments.append(Segment(row_text([title], [width], [column.align]) + " ", style))
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
        columns = [self.data.columns[index] for index in self._widths()]
        texts = ["" if c.total is None else c.total(self.order) for c in columns]
        widths = list(self._widths().values())
        return row_text(texts, widths, [column.align for column in columns])

    def _empty(self, width: int) -> list[str]:
        """Why there is no row, in as many lines as that takes."""
        if len(self.order):
            return []
        none = f"no name contains '{self._needle}'"
        return [plain(line) for line in wrap(none if len(self.data) else self.data.empty, width)]
