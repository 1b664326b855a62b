"""The Ops screen: the operators and kernels of the newest window."""

from __future__ import annotations

from collections.abc import Iterable

from textual import on
from textual.widget import Widget

from perftui_tui.panes.window_note import window_note
from perftui_tui.screens.ops import OpsView
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.snapshot import Snapshot
from perftui_tui.widgets.row_view import RowView


class OpsScreen(RunScreen):
    """A table of operators, and one of kernels."""

    NAME = "ops"
    HELP = (
        "Operators with their self and total time on the CPU and the GPU, or kernels. Self leaves "
        "out what an operator calls; device time is that of the kernels it launched. k changes "
        "between the tables, / filters, < and > choose the column to sort by, R reverses, enter "
        "shows the longest call of a row on the timeline."
    )

    def body(self) -> Iterable[Widget]:
        """The tables."""
        yield OpsView(id="ops-view", ascii_only=RowView.ascii_only)

    def show(self, snapshot: Snapshot) -> None:
        """Hand over a window once: a table that is being read is not built anew each second."""
        view = self.query_one(OpsView)
        if not view.is_attached or self.is_shown(snapshot.analysis):
            return
        view.show(snapshot.analysis, window_note(snapshot))
        view.focus()

    @on(OpsView.OperatorOpened)
    def _opened(self, event: OpsView.OperatorOpened) -> None:
        self.session.show_trace_row(event.row)
