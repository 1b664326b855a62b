"""What the Ops screen shows of a trace, worked out beside it where that takes long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Input, Static
from textual.worker import Worker, WorkerState, get_current_worker

from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.call_groups import By
from perftui.trace.ncu import KernelMetrics
from perftui.trace.text import printable
from perftui_tui.keys.keymap import bindings, hint, shown_key
from perftui_tui.look.units import format_count
from perftui_tui.screens.ops.call_rows import CallTreeState
from perftui_tui.screens.ops.content import OpsContent, Table
from perftui_tui.screens.ops.detail import OpsDetail
from perftui_tui.screens.ops.roofline_chart import RooflineChart
from perftui_tui.tables.rows import TableData
from perftui_tui.tables.virtual import VirtualTable

READING = "reading"
NO_WINDOW = "no trace yet: press {app.capture} to capture a window of steps"


class OpsTable(VirtualTable):
    """Operators, kernels, or the calls of a step against their roofs."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("ops.table")

    @dataclass(eq=False)
    class Branched(Message):
        """The selected branch of the tree is to be unfolded (1) or folded (-1)."""

        direction: int

    def action_branch(self, direction: int) -> None:
        """Ask for it: a table knows of no tree."""
        self.post_message(self.Branched(direction))


class OpsShown(Vertical):
    """Title, filter, table and page, made anew where what is asked for changes."""

    table: reactive[Table] = reactive(Table.OPS, init=False)
    """Which of the tables is shown."""
    by: reactive[By] = reactive(By.NAME, init=False)
    """What operators are grouped by."""
    is_tree: reactive[bool] = reactive(False, init=False)
    """The tree of calls instead of the table."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._content: OpsContent | None = None
        self._note = READING
        self._shown_texts: dict[str, str] = {}
        self._name_lines = 0
        self._working: tuple[By, bool] | None = None
        self._done = 0.0

    def compose(self) -> ComposeResult:
        """Title, filter, table, the whole name of the selected row; and the page over them."""
        yield Static(id="ops-title", markup=False)
        yield Input(placeholder="part of a name", id="ops-filter")
        yield OpsTable(id="ops-table")
        yield RooflineChart(id="ops-roofline")
        yield Static(id="ops-detail", markup=False)
        yield Static(id="ops-rest", markup=False)
        yield Static(id="ops-about", markup=False)
        yield OpsDetail(id="ops-page")

    def on_mount(self) -> None:
        """Show what was handed over before the view was on screen."""
        self._filter.cursor_blink = False
        self._refresh()

    def show(
        self, analysis: TraceAnalysis | None, note: str, metrics: KernelMetrics | None = None
    ) -> None:
        """Show ``analysis``, with ncu's ``metrics``; ``note`` names the window, or why none."""
        if analysis is None or self._content is None or self._content.analysis is not analysis:
            self._content = OpsContent(analysis, metrics) if analysis is not None else None
            self._working = None
            if self.is_mounted and self.page.is_open:
                self.page.close()
        self._note = note
        if self.is_mounted:
            self._refresh()

    def focus(self, scroll_visible: bool = True) -> OpsShown:
        """Focus the table, or the page over it."""
        (self.page.lines if self.page.is_open else self._table).focus(scroll_visible)
        return self

    @property
    def page(self) -> OpsDetail:
        """What is opened."""
        return self.query_one(OpsDetail)

    @property
    def _table(self) -> VirtualTable:
        return self.query_one("#ops-table", VirtualTable)

    @property
    def _filter(self) -> Input:
        return self.query_one("#ops-filter", Input)

    @property
    def _tree(self) -> CallTreeState | None:
        """The tree on screen, if one is."""
        if self._content is None or not self.is_tree or self.table is not Table.OPS:
            return None
        return self._content.trees.get(self.by)

    # What is on screen

    def _refresh(self) -> None:
        data = self._table_data()
        self._table.show(data)
        # A tree finds what leads to a match itself.
        self._table.filter("" if data.parents is not None else self._filter.value)
        self._update_titles()

    watch_table = watch_by = watch_is_tree = _refresh

    def _update_titles(self) -> None:
        """The lines around the table."""
        title = printable(self._title())
        self._update_text("#ops-title", title)
        around = None if self.page.is_open else self._content
        is_roofline = self.table is Table.ROOFLINE
        outside = around.outside(self.by) if around and self.table is Table.OPS else ""
        self._update_text("#ops-rest", outside)
        self._update_text("#ops-about", around.about_roofline() if around and is_roofline else "")
        self._update_name()

    def _update_name(self) -> None:
        """The whole name of the selected row; the slow layout only where its height changes."""
        name = printable(self._table.selected_name or "")
        lines = -(-cell_len(name) // max(self.size.width, 1))
        static = self.query_one("#ops-detail", Static)
        static.update(Text(name), layout=lines != self._name_lines)
        self._name_lines = lines
        self._update_chart()

    def _update_chart(self) -> None:
        found = self._content.known_roofline if self._content else None
        is_shown = self.table is Table.ROOFLINE and found is not None
        self.set_class(is_shown, "-roofline")
        self.query_one(RooflineChart).show(
            found if is_shown else None, self._table.selected_row if is_shown else None
        )

    def _update_text(self, where: str, text: str) -> None:
        static = self.query_one(where, Static)
        if self._shown_texts.get(where) != text:
            self._shown_texts[where] = text
            # A line of its own height needs no layout, but when it comes or goes.
            static.update(Content(text), layout="\n" in text)
            static.display = bool(text)

    def _table_data(self) -> TableData:
        content = self._content
        if content is None:
            return TableData((), (), empty=printable(self._note) or hint(NO_WINDOW))
        if self.table is Table.KERNELS:
            if content.lacks_launches:
                self._read_launches(content)
            return content.kernels()
        if self.table is Table.ROOFLINE:
            if content.lacks_roofline:
                self._work_out_roofline(content)
            return content.roofline()
        if self.table is not Table.OPS:
            sums = content.sums(self.table)
            if sums is None:
                self._sum_up(content, self.table)
            return TableData((), (), empty="counting") if sums is None else sums
        found = content.operators(self.by, self._filter.value, is_tree=self.is_tree)
        if not self.is_tree and content.lacks_tensor_cores(self.by):
            self._work_out_tensor_cores(content, self.by)
        return self._wait_for(content) if found is None else found

    def _wait_for(self, content: OpsContent) -> TableData:
        if self._working != (self.by, self.is_tree):
            self._working, self._done = (self.by, self.is_tree), 0.0
            self._work_out(content, self.by, self.is_tree)
        done = f": {self._done:.0%}" if self._done else ""
        text = "reading the arguments of all operators" if self.by.needs_arguments else "counting"
        return TableData((), (), empty=f"{text}{done}")

    @work(thread=True, exclusive=True, exit_on_error=False, group="ops-calls")
    def _work_out(self, content: OpsContent, by: By, is_tree: bool) -> None:
        """Beside the screen: of a million operators it takes seconds."""
        worker = get_current_worker()

        def progress(done: float) -> bool:
            if not worker.is_cancelled and done:
                self.app.call_from_thread(self._show_progress, content, done)
            return not worker.is_cancelled

        if content.work_out(by, progress, is_tree=is_tree) and not worker.is_cancelled:
            self.app.call_from_thread(self._worked_out, content)

    @work(thread=True, exclusive=True, exit_on_error=False, group="ops-sums")
    def _sum_up(self, content: OpsContent, table: Table) -> None:
        """Ranges or calls, beside the screen."""
        worker = get_current_worker()
        content.sum_up(table)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._worked_out, content)

    def _show_progress(self, content: OpsContent, done: float) -> None:
        if content is self._content:
            self._done = done
            self._refresh()

    def _worked_out(self, content: OpsContent) -> None:
        if content is self._content:
            self._working = None
            self._refresh()

    @work(thread=True, exclusive=True, exit_on_error=False, group="ops-launches")
    def _read_launches(self, content: OpsContent) -> None:
        """Grids and occupancies: the columns come when they are known."""
        worker = get_current_worker()
        if content.read_launches(lambda _done: not worker.is_cancelled):
            self.app.call_from_thread(self._worked_out, content)

    @work(thread=True, exclusive=True, exit_on_error=False, group="ops-tensor-cores")
    def _work_out_tensor_cores(self, content: OpsContent, by: By) -> None:
        """The column comes when it is known."""
        worker = get_current_worker()
        if content.work_out_tensor_cores(by, lambda _done: not worker.is_cancelled):
            self.app.call_from_thread(self._worked_out, content)

    @work(thread=True, exclusive=True, exit_on_error=False, group="ops-roofline")
    def _work_out_roofline(self, content: OpsContent) -> None:
        """The sizes of hundreds of calls are read from the file."""
        worker = get_current_worker()
        if content.work_out_roofline(lambda _done: not worker.is_cancelled):
            self.app.call_from_thread(self._worked_out, content)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Notify of failed background work of this widget: the app gets only its own."""
        if event.state is WorkerState.ERROR:
            self.notify(str(event.worker.error), severity="error", markup=False, timeout=10)

    def _title(self) -> str:
        """What is shown of what could be, in brackets; so that no colour is needed."""
        chosen = f"[{self.table.value}]"
        tables = " ".join(chosen if one is self.table else one.value for one in Table)
        parts = [tables]
        if self.page.is_open:
            return f"{parts[0]} > {self.page.title}   {shown_key('ops.detail.leave')}: back"
        if self._content is not None and self.table is Table.OPS:
            groups = [f"[{by.value}]" if by is self.by else by.value for by in By]
            parts.append(f"by {' '.join(groups)}")
            parts.append("table [tree]" if self.is_tree else "[table] tree")
        if self._filter.value and self._tree is None:
            shown, every = len(self._table.order), len(self._table.data)
            parts.append(f"{format_count(shown)} of {format_count(every)} match")
        parts += [self._note] if self._content is not None else []
        title = "  ".join(parts)
        # The footer has the keys of the others.
        return title if cell_len(title) <= self.size.width else title.replace(tables, chosen, 1)
