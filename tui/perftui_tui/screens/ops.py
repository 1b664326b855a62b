"""Operators and kernels of a trace: which take the time."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Input, Static

from perftui.analysis.model import TraceAnalysis
from perftui.trace.text import printable
from perftui_tui.charts.units import ASCII_TEXT, format_ns
from perftui_tui.keymap import bindings
from perftui_tui.widgets.op_tables import kernel_table, operator_table
from perftui_tui.widgets.row_view import RowView
from perftui_tui.widgets.table_rows import TableData
from perftui_tui.widgets.virtual_table import VirtualTable

READING = "reading"
NO_WINDOW = "no trace yet: press c to capture a window of steps"


class OpsView(Vertical):
    """The operators of a trace and its kernels in a sortable, filtered table.

    ``k`` changes between the two, ``/`` filters by name as you type, ``<`` and ``>`` choose the
    column to sort by and ``R`` turns the order round. ``enter`` opens the longest call of a row.
    """

    DEFAULT_CSS = """
    OpsView {
        height: 1fr;
        & > #ops-title { height: 1; color: $text-muted; }
        & > #ops-filter { height: 1; border: none; padding: 0; display: none; }
        &.-filtering > #ops-filter { display: block; }
        & > #ops-detail { height: auto; max-height: 3; color: $text; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("ops")

    kernels_shown: reactive[bool] = reactive(False, init=False)
    """Kernels instead of operators."""

    class OperatorOpened(Message):
        """The person wants to see ``row`` of the trace on the timeline."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._analysis: TraceAnalysis | None = None
        self._note = READING

    def compose(self) -> ComposeResult:
        """Title, filter, table, and the whole name of the selected row."""
        yield Static(id="ops-title", markup=False)
        yield Input(placeholder="part of a name", id="ops-filter")
        yield VirtualTable(id="ops-table")
        yield Static(id="ops-detail", markup=False)

    def on_mount(self) -> None:
        """Show what was handed over before the view was on screen."""
        self._filter.cursor_blink = False
        self._refresh()

    def show(self, analysis: TraceAnalysis | None, note: str) -> None:
        """Show ``analysis``; ``note`` says which window it comes from, or why there is none."""
        self._analysis, self._note = analysis, note
        if self.is_mounted:
            self._refresh()

    def focus(self, scroll_visible: bool = True) -> OpsView:
        """Focus the table."""
        self._table.focus(scroll_visible)
        return self

    @property
    def _table(self) -> VirtualTable:
        return self.query_one("#ops-table", VirtualTable)

    @property
    def _filter(self) -> Input:
        return self.query_one("#ops-filter", Input)

    def watch_kernels_shown(self) -> None:
        """Draw the other table."""
        self._refresh()

    def _refresh(self) -> None:
        self._table.show(self._table_data())
        title = printable(self._title())
        title = title.translate(ASCII_TEXT) if RowView.ascii_only else title
        self.query_one("#ops-title", Static).update(Content(title))
        self._show_detail()

    def _table_data(self) -> TableData:
        if self._analysis is None:
            return TableData((), (), empty=printable(self._note) or NO_WINDOW)
        if self.kernels_shown:
            return kernel_table(self._analysis.kernels, RowView.ascii_only)
        return operator_table(self._analysis, RowView.ascii_only)

    def _title(self) -> str:
        tabs = "Ops [Kernels]" if self.kernels_shown else "[Ops] Kernels"
        if self._analysis is None:
            return tabs
        return "  ".join(part for part in (tabs, self._note, self._outside()) if part)

    def _outside(self) -> str:
        """Device time that belongs to no operator, so that the sum agrees with the whole."""
        if self._analysis is None or self.kernels_shown or not self._analysis.has_gpu:
            return ""
        kernels, ops = self._analysis.kernels, self._analysis.ops
        rest = int(kernels.total.sum()) - int(ops.device_self.sum())
        return f"+ {format_ns(rest)} of GPU time launched by no operator" if rest > 0 else ""

    @on(VirtualTable.RowHighlighted)
    def _row_highlighted(self, event: VirtualTable.RowHighlighted) -> None:
        event.stop()
        self._show_detail()

    def _show_detail(self) -> None:
        name = self._table.selected_name
        self.query_one("#ops-detail", Static).update(Text(printable(name or "")))

    @on(VirtualTable.RowSelected)
    def _row_selected(self, event: VirtualTable.RowSelected) -> None:
        event.stop()
        if self._analysis is not None:
            table = self._analysis.kernels if self.kernels_shown else self._analysis.ops
            self.post_message(self.OperatorOpened(int(table.first_row[event.row])))

    def action_kernels(self) -> None:
        """Change between operators and kernels."""
        self.kernels_shown = not self.kernels_shown

    def action_filter(self) -> None:
        """Start typing a filter."""
        self.add_class("-filtering")
        self._filter.focus()

    def action_close_filter(self) -> None:
        """Show all rows again."""
        self.remove_class("-filtering")
        self._filter.value = ""
        self._table.filter("")
        self._table.focus()

    @on(Input.Changed, "#ops-filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._table.filter(event.value)
        # No row tells that it is selected where none is left.
        self._show_detail()

    @on(Input.Submitted, "#ops-filter")
    def _filter_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._table.focus()
