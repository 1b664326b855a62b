"""The Ops view: what its keys and its selected row do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Input

from perftui.analysis.ops.call_groups import By
from perftui_tui.actions.clipboard import copy_text
from perftui_tui.keys.keymap import bindings
from perftui_tui.screens.ops.content import Table, figures_of
from perftui_tui.screens.ops.detail import OpsDetail, Page
from perftui_tui.screens.ops.linked_lines import Target, ToGroup, ToKernel
from perftui_tui.screens.ops.shown import OpsShown, OpsTable
from perftui_tui.tables.csv_files import csv_text
from perftui_tui.tables.virtual import VirtualTable


class OpsView(OpsShown):
    """Operators, grouped by name and more, as a table or a tree; kernels; calls against their
    roofs; or the page of one."""

    DEFAULT_CSS = """
    OpsView {
        height: 1fr;
        & > #ops-title { height: 1; color: $text-muted; }
        & > #ops-filter { height: 1; border: none; padding: 0; display: none; }
        &.-filtering > #ops-filter { display: block; }
        & > #ops-detail { height: auto; max-height: 3; color: $text; }
        & > #ops-rest { height: 1; color: $text-muted; }
        & > #ops-about { height: auto; max-height: 3; color: $text-muted; display: none; }
        & > #ops-roofline { height: 1fr; border: round $chart; display: none; }
        &.-opened > #ops-table, &.-opened > #ops-filter, &.-opened > #ops-detail { display: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings("ops")

    @dataclass(eq=False)
    class SaveWanted(Message):
        """The table on screen is to be saved."""

        text: str
        stem: str

    # The selected row

    @on(VirtualTable.RowHighlighted)
    def _row_highlighted(self, event: VirtualTable.RowHighlighted) -> None:
        event.stop()
        self._update_name()

    @on(VirtualTable.RowSelected)
    def _row_selected(self, event: VirtualTable.RowSelected) -> None:
        event.stop()
        tree = self._tree
        if tree is not None and tree.shown[event.row].node.calls_others:
            tree.toggle(event.row)
            self._refresh()
        else:
            self.action_open()

    def action_open(self) -> None:
        """Open the selected operator or kernel."""
        row, content, data = self._table.selected_row, self._content, self._table.data
        if content is None or row is None or self.page.is_open:
            return
        if self.table in (Table.RANGES, Table.CALLS):
            self.action_timeline()
            return
        # What is opened of a path of the tree is all of its name.
        figures = figures_of(data, row) if self._tree is None else ()
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
    def _page_changed(self, event: OpsDetail.Changed) -> None:
        event.stop()
        if not self.page.is_open:
            self.remove_class("-opened")
            self._table.focus()
        self._update_titles()

    def action_timeline(self) -> None:
        """The longest call of the selected row on the timeline."""
        row, content = self._table.selected_row, self._content
        if row is None or content is None or self.page.is_open:
            return
        if self.table is Table.KERNELS:
            longest = int(content.analysis.kernels.first_row[row])
        elif self.table is Table.ROOFLINE and content.known_roofline is not None:
            longest = content.known_roofline.calls[row].row
        elif self.table in (Table.RANGES, Table.CALLS):
            longest = content.longest_of_sum(self.table, row)
        else:
            longest = content.longest(self.by, row, is_tree=self._tree is not None)
        self.post_message(OpsDetail.RowChosen(longest))

    # Keys

    def action_back(self) -> None:
        """Leave the page that is open, or the filter."""
        if self.page.is_open:
            self.page.back()
        else:
            self.action_close_filter()

    def action_kernels(self) -> None:
        """Change between operators and kernels."""
        self._leave_pages()
        self.table = Table.OPS if self.table is Table.KERNELS else Table.KERNELS

    def action_roofline(self) -> None:
        """Switch between operators and the calls of a step against their roofs."""
        self._leave_pages()
        self.table = Table.OPS if self.table is Table.ROOFLINE else Table.ROOFLINE

    def action_sums(self) -> None:
        """Switch from operators to ranges, to calls, and back."""
        self._leave_pages()
        following = {Table.RANGES: Table.CALLS, Table.CALLS: Table.OPS}
        self.table = following.get(self.table, Table.RANGES)

    def action_group(self, step: int) -> None:
        """Group operators by the next criterion."""
        self._leave_pages()
        if self.table is not Table.OPS:
            self.table = Table.OPS
            return
        every = list(By)
        self.by = every[(every.index(self.by) + step) % len(every)]

    def action_tree(self) -> None:
        """Change between table and tree."""
        self._leave_pages()
        if self.table is not Table.OPS:
            self.table = Table.OPS
            self.is_tree = True
        else:
            self.is_tree = not self.is_tree

    def _leave_pages(self) -> None:
        if self.page.is_open:
            self.page.close()

    @on(OpsTable.Branched)
    def _branched(self, event: OpsTable.Branched) -> None:
        """In the tree open or close what is selected, or go to what is below or above."""
        event.stop()
        tree, row = self._tree, self._table.selected_row
        if tree is None or row is None:
            return
        wanted = tree.right(row) if event.direction > 0 else tree.left(row)
        path = tree.shown[wanted].node.path
        self._refresh()
        self._select_path(path)

    def action_heaviest(self) -> None:
        """In the tree open the top path below the selected row."""
        if not self.is_tree or self.table is not Table.OPS:
            self.action_tree()
        tree = self._tree
        if tree is None:
            return
        path = tree.open_top_path(self._table.selected_row)
        self._refresh()
        self._select_path(path)

    def _select_path(self, path: tuple[int, ...] | None) -> None:
        tree = self._tree
        places = (
            [row for row, each in enumerate(tree.shown) if each.node.path == path] if tree else []
        )
        if places:
            self._table.select(places[0])
        self._update_titles()

    def action_filter(self) -> None:
        """Start typing a filter."""
        self._leave_pages()
        self.add_class("-filtering")
        self._filter.focus()

    def action_close_filter(self) -> None:
        """Show all rows again."""
        self.remove_class("-filtering")
        self._filter.value = ""
        self._refresh()
        self._table.focus()

    @on(Input.Changed, "#ops-filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._tree is not None:
            self._refresh()
        else:
            self._table.filter(event.value)
            # No row reports that it is selected where none is left.
            self._update_titles()

    @on(Input.Submitted, "#ops-filter")
    def _filter_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._table.focus()

    def action_save(self) -> None:
        """Save the table, in its order and with its filter, but with all columns."""
        data = self._table.data
        if not data.columns:
            self.notify("there is no table to save", severity="warning")
            return
        by_name = self.table.value.lower().replace(" ", "-")
        what = f"ops-by-{self.by.value}" if self.table is Table.OPS else by_name
        stem = f"{what}-tree" if self._tree is not None else what
        self.post_message(self.SaveWanted(csv_text(data, self._table.order), stem))

    def action_copy(self, what: str) -> None:
        """Copy the name of the selected row, or the page; or the whole table."""
        if what == "table" and self._table.data.columns:
            copy_text(self.app, csv_text(self._table.data, self._table.order), "the table")
        elif self.page.is_open:
            copy_text(self.app, self.page.lines.text, "the page")
        elif self._table.selected_name is not None:
            copy_text(self.app, self._table.selected_name, "the name")
