"""The Ops screen: tables and trees of operators and kernels, and what its keys do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text
from textual import getters, on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.call_groups import By
from perftui.facts.gpu.roofline import Roofline
from perftui.format import several
from perftui.trace.ncu import KernelMetrics
from perftui.trace.rank_files import without_endings
from perftui.trace.text import printable
from perftui_tui.actions.clipboard import copy_text
from perftui_tui.actions.host import Host
from perftui_tui.keys.own_keys import bindings, hint, shown_key
from perftui_tui.look.format import format_count
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.screens.ops.call_details import Target, ToGroup, ToKernel
from perftui_tui.screens.ops.content import OpsContent, Table, Work
from perftui_tui.screens.ops.detail import OpsDetail, Page
from perftui_tui.screens.ops.op_tables import CallTreeState
from perftui_tui.screens.ops.roofline import RooflineChart, about
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.tables.rows import TableData, csv_text, folder_for
from perftui_tui.tables.virtual import VirtualTable

READING = "reading"
NO_WINDOW = "no trace yet: press {app.capture} to capture a window of steps"


class OpsTable(VirtualTable):
    """Operators, kernels, or the calls of a step against their roofs."""

    BINDINGS = bindings("ops.table")

    def action_branch(self, direction: int) -> None:
        """Unfold (1) or fold (-1) the selected branch: a table knows of no tree."""
        self.query_ancestor(OpsView).branch(direction)


class OpsView(Vertical):
    """Operators, grouped by name and more, as a table or a tree; kernels; calls against their
    roofs; or the page of one."""

    DEFAULT_CSS = Path(__file__).with_name("ops_view.tcss").read_text()
    BINDINGS = bindings("ops")

    @dataclass(eq=False)
    class SaveWanted(Message):
        """The table on screen is to be saved."""

        text: str
        stem: str

    page = getters.query_one(OpsDetail)
    """What is opened."""
    _table = getters.query_one(OpsTable)
    _filter = getters.query_one(Input)
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
        self._working = ""
        """What is being worked out; empty for nothing."""
        self._done = 0.0

    def compose(self) -> ComposeResult:
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
            self._working = ""
            if self.is_mounted and self.page.is_open:
                self.page.close()
        self._note = note
        if self.is_mounted:
            self._refresh()

    def focus(self, scroll_visible: bool = True) -> OpsView:
        """Focus the table, or the page over it."""
        (self.page if self.page.is_open else self._table).focus(scroll_visible)
        return self

    @property
    def useless(self) -> set[str]:
        """Actions that have no row to do anything with, or nothing to show in its place."""
        content = self._content
        has_kernels = content is None or len(content.analysis.kernels) > 0
        without_rows = set() if len(self._table.data) else {"open", "sort(-1)", "save", "filter"}
        return without_rows if has_kernels else without_rows | {"kernels", "roofline"}

    def _selected_row(self) -> int | None:
        """The row under the cursor; says why there is none."""
        if self._table.why_empty:
            self.notify(self._table.why_empty, markup=False)
        return self._table.selected_row

    @property
    def _tree(self) -> CallTreeState | None:
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
        self.screen.refresh_bindings()

    watch_table = watch_by = watch_is_tree = _refresh

    def _update_titles(self) -> None:
        self._update_text("#ops-title", printable(self._title()))
        around = None if self.page.is_open else self._content
        outside = around.outside(self.by) if around and self.table is Table.OPS else ""
        self._update_text("#ops-rest", outside)
        self._update_text("#ops-about", about(self._roofline) if around and self._roofline else "")
        self._update_name()

    @property
    def _roofline(self) -> Roofline | None:
        content = self._content if self.table is Table.ROOFLINE else None
        return content.known_roofline if content is not None else None

    @on(VirtualTable.RowHighlighted)
    def _update_name(self) -> None:
        """The whole name of the selected row; the slow layout only where its height changes."""
        name = printable(self._table.selected_name or "")
        lines = -(-cell_len(name) // max(self.size.width, 1))
        static = self.query_one("#ops-detail", Static)
        static.update(Text(name), layout=lines != self._name_lines)
        self._name_lines = lines
        roofline = self._roofline
        self.set_class(roofline is not None, "-roofline")
        self.query_one(RooflineChart).show(roofline, self._table.selected_row if roofline else None)

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
        missing = content.missing(self.table, self.by, is_tree=self.is_tree)
        if missing is not None and missing[0] != self._working:
            self._working, self._done = missing[0], 0.0
            self._work_out(content, *missing)
        data = content.data(self.table, self.by, self._filter.value, is_tree=self.is_tree)
        if missing is None or data.columns or not self._done:
            return data
        return replace(data, empty=f"{data.empty}: {self._done:.0%}")

    @work(thread=True, exclusive=True, exit_on_error=False, group="ops-table")
    def _work_out(self, content: OpsContent, name: str, work: Work) -> None:
        """Beside the screen: of a million operators it takes seconds."""
        worker = get_current_worker()

        def progress(done: float) -> bool:
            if not worker.is_cancelled and done:
                self.app.call_from_thread(self._show_progress, content, done)
            return not worker.is_cancelled

        content.work_out(name, work, progress)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._worked_out, content)

    def _show_progress(self, content: OpsContent, done: float) -> None:
        if content is self._content and not self._table.data.columns:
            self._done = done
            self._refresh()

    def _worked_out(self, content: OpsContent) -> None:
        if content is self._content:
            self._working = ""
            self._refresh()

    # The app gets only its own.
    on_worker_state_changed = Host.on_worker_state_changed

    def _title(self) -> str:
        """What is shown of what could be, in brackets; so that no colour is needed."""
        chosen = f"[{self.table.value}]"
        tables = " ".join(chosen if one is self.table else one.value for one in Table)
        parts = [tables]
        if self._content is not None and self.table is Table.OPS:
            groups = [f"[{by.value}]" if by is self.by else by.value for by in By]
            parts.append(f"by {' '.join(groups)}")
            parts.append("table [tree]" if self.is_tree else "[table] tree")
        if self._filter.value and self._tree is None:
            shown, every = len(self._table.order), len(self._table.data)
            parts.append(f"{format_count(shown)} of {format_count(every)} match")
        parts += [self._note] if self._content is not None else []
        title = "  ".join(parts)
        if self.page.is_open:
            title = f"{tables} > {self.page.title}   {shown_key('ops.detail.leave')}: back"
        # The footer has the keys of the others; then the window gives way.
        short = title.replace(tables, chosen, 1)
        shorter = (title, short, short.removesuffix(f"  {self._note}"))
        return next((one for one in shorter if cell_len(one) <= self.size.width), shorter[-1])

    # The selected row

    @on(VirtualTable.RowSelected)
    def _row_selected(self, event: VirtualTable.RowSelected) -> None:
        tree = self._tree
        if tree is not None and tree.shown[event.row].node.calls_others:
            tree.toggle(event.row)
            self._refresh()
        else:
            self.action_open()

    def action_open(self) -> None:
        content, data = self._content, self._table.data
        if content is None or self.page.is_open or (row := self._selected_row()) is None:
            return
        if self.table in (Table.RANGES, Table.CALLS):
            self.action_timeline()
            return
        # What is opened of a path of the tree is all of its name.
        columns = data.columns[1:] if self._tree is None else ()
        # All cells of the row, also those that do not fit the screen.
        figures = tuple(f"{c.title} {c.text(row)}" for c in columns if c.bar is None)
        found = content.known_roofline
        if self.table is Table.KERNELS:
            kernels = content.analysis.kernels
            target: Target = ToKernel(kernels.names[row], kernels.categories[row])
        elif self.table is Table.ROOFLINE and found is not None:
            target = ToGroup(found.calls[row].operator)
        else:
            target = ToGroup(data.names[row])
        self.add_class("-opened")
        by = self.by if self.table is Table.OPS else By.NAME
        self.page.open(content.facts, Page(target, by, self._tree is not None, figures))
        self._update_titles()

    @on(OpsDetail.Changed)
    def _page_changed(self) -> None:
        if not self.page.is_open:
            self.remove_class("-opened")
            self._table.focus()
        self._update_titles()

    def action_timeline(self) -> None:
        content = self._content
        if content is None or self.page.is_open or (row := self._selected_row()) is None:
            return
        longest = content.longest(self.table, self.by, row, is_tree=self._tree is not None)
        self.post_message(OpsDetail.RowChosen(longest))

    # Keys

    def action_back(self) -> None:
        if self.page.is_open:
            self.page.back()
        else:
            self.action_close_filter()

    def _switch(self, *tables: Table) -> None:
        """From operators to the first of ``tables``, on to the next, and back."""
        self._leave_pages()
        following = dict(zip(tables, (*tables[1:], Table.OPS), strict=True))
        self.table = following.get(self.table, tables[0])

    def action_kernels(self) -> None:
        self._switch(Table.KERNELS)

    def action_roofline(self) -> None:
        self._switch(Table.ROOFLINE)

    def action_sums(self) -> None:
        self._switch(Table.RANGES, Table.CALLS)

    def action_group(self, step: int) -> None:
        self._leave_pages()
        if self.table is not Table.OPS:
            self.table = Table.OPS
            return
        every = list(By)
        self.by = every[(every.index(self.by) + step) % len(every)]

    def action_tree(self) -> None:
        self._leave_pages()
        self.is_tree = not self.is_tree or self.table is not Table.OPS
        self.table = Table.OPS

    def _leave_pages(self) -> None:
        if self.page.is_open:
            self.page.close()

    def branch(self, direction: int) -> None:
        """In the tree open or close what is selected, or go to what is below or above."""
        tree, row = self._tree, self._table.selected_row
        if tree is None or row is None:
            return
        wanted = tree.right(row) if direction > 0 else tree.left(row)
        path = tree.shown[wanted].node.path
        self._refresh()
        self._select_path(path)

    def action_heaviest(self) -> None:
        if not self.is_tree or self.table is not Table.OPS:
            self.action_tree()
        tree, row = self._tree, self._selected_row()
        if tree is None:
            return
        path = tree.open_top_path(row)
        self._refresh()
        self._select_path(path)

    def _select_path(self, path: tuple[int, ...] | None) -> None:
        shown = self._tree.shown if self._tree else ()
        place = next((row for row, each in enumerate(shown) if each.node.path == path), None)
        if place is not None:
            self._table.select(place)
        self._update_titles()

    def action_filter(self) -> None:
        self._leave_pages()
        self.add_class("-filtering")
        self._filter.focus()

    def action_close_filter(self) -> None:
        self.remove_class("-filtering")
        self._filter.value = ""
        self._refresh()
        self._table.focus()

    @on(Input.Changed, "#ops-filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        if self._tree is not None:
            self._refresh()
        else:
            self._table.filter(event.value)
            # No row reports that it is selected where none is left.
            self._update_titles()

    @on(Input.Submitted, "#ops-filter")
    def _filter_submitted(self) -> None:
        self._table.focus()

    def action_save(self) -> None:
        data = self._table.data
        if not data.columns:
            self.notify("there is no table to save", severity="warning")
            return
        by_name = self.table.value.lower().replace(" ", "-")
        what = f"ops-by-{self.by.value}" if self.table is Table.OPS else by_name
        stem = f"{what}-tree" if self._tree is not None else what
        self.post_message(self.SaveWanted(csv_text(data, self._table.order), stem))

    def action_copy(self, what: str) -> None:
        if what == "table" and self._table.data.columns:
            copy_text(self.app, csv_text(self._table.data, self._table.order), "the table")
        elif self.page.is_open:
            copy_text(self.app, self.page.text, "the page")
        elif (row := self._selected_row()) is not None:
            copy_text(self.app, self._table.data.names[row], "the name")


class OpsScreen(RunScreen):
    """Tables of operators and kernels, and what is opened of them."""

    DEFAULT_CSS = """
    OpsScreen.-tall OpsView.-roofline > #ops-roofline { display: block; }
    OpsScreen.-tall OpsView > #ops-about { max-height: 6; }
    OpsScreen.-tall OpsView.-roofline.-opened > #ops-roofline { display: none; }
    """
    NAME = "ops"
    PART_WITH_KEYS = OpsView
    HELP = (
        "Operators with their own and total time on the CPU and the GPU, or kernels. Own excludes "
        "the operators that it calls; GPU time is that of the kernels it launched. {ops.group(1)} "
        "groups operators by name, shapes, module or line (the line of the function if torch has "
        "no other), {ops.tree} shows the call tree, {ops.kernels} the kernels, {ops.sums} the "
        "marked ranges (NVTX under nsys, record_function in torch) and then the CUDA calls by "
        "name: a range nested in another of its name on the same thread adds no time, and the mean "
        "is per range. {ops.roofline} compares the calls of one step with the roofline: the least "
        "time that the card needs for their arithmetic and memory traffic, by its data sheet and, "
        "after `perftui probe` on such a card, as measured. That needs the sizes of tensors "
        "(--shapes), and a GPU. {ops.table.open} opens a row: its kernels, callers, shapes and "
        "places on the timeline; {ops.detail.leave} goes back. {ops.filter} filters, "
        "{ops.table.sort(-1)} and {ops.table.sort(1)} (or a click on a title) choose the sort "
        "column, {ops.table.reverse} reverses the order, {ops.save} saves the table. Use of tensor "
        "cores is inferred from kernel names, and so is their share of an operator's own GPU time; "
        "occupancy is the profiler's estimate, unless --ncu measured it."
    )

    _shown: tuple[TraceAnalysis | None, str] | None = None
    """What the tables hold: they are built anew only for another window."""

    def body(self) -> Iterable[Widget]:
        yield OpsView(id="ops-view")

    def useless_actions(self) -> frozenset[str]:
        useless = super().useless_actions()
        return useless.union(
            *(view.useless for view in self.query(OpsView) if view.query(OpsTable))
        )

    def show(self, snapshot: Snapshot) -> None:
        """Hand over a window once."""
        shown = (snapshot.analysis, window_note(snapshot))
        if shown != self._shown:
            self._shown = shown
            self.query_one(OpsView).show(*shown, self.session.kernel_metrics)

    @on(OpsDetail.RowChosen)
    def _opened(self, event: OpsDetail.RowChosen) -> None:
        analysis = self.snapshot.analysis if self.snapshot else None
        if analysis is not None:
            start = int(analysis.trace.start[event.row])
            end = start + int(analysis.trace.duration[event.row])
            self.session.go_to_place(start, end, event.row)
            self.notify(hint("{app.return} goes back"), timeout=3)

    @on(OpsView.SaveWanted)
    def _save(self, event: OpsView.SaveWanted) -> None:
        target = self.session.target
        name = without_endings(target.name) or "trace"
        stem = event.stem if target.is_dir() else f"{name}-{event.stem}"
        self.save(event.text, folder_for(target), stem)


def window_note(snapshot: Snapshot) -> str:
    """The window by its first step, or why there is none."""
    if snapshot.is_memory_alone:
        return hint(
            "a memory snapshot has no timings: {app.show('memory')} shows allocations by call site"
        )
    if snapshot.phase is Phase.TRACE:
        return snapshot.title
    rank = snapshot.rank
    if snapshot.analysis is not None:
        step = snapshot.analysis.trace.path.name.split(".", 1)[0]
        window = f"{several(len(snapshot.analysis.steps), 'step')} from step {step}"
        return window if step.isdecimal() else snapshot.analysis.trace.path.name
    if rank is not None and rank.windows:
        return "the newest window is being read"
    if snapshot.goes_on:
        return hint(
            "no window profiled yet: one follows the warm-up, {app.capture} profiles one now"
        )
    return "no window was profiled"
