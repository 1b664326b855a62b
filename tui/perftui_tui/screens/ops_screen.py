"""The Ops screen: the operators and kernels of the newest window."""

from __future__ import annotations

from collections.abc import Iterable

from textual import on
from textual.widget import Widget

from perftui.analysis.model import TraceAnalysis
from perftui_tui.panes.window_note import window_note
from perftui_tui.screens.ops import OpsView
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.snapshot import Snapshot


class OpsScreen(RunScreen):
    """A table of operators, and one of kernels."""

    NAME = "ops"
    HELP = (
        "Operators with their self and total time on the CPU and the GPU, or kernels. Self leaves "
        "out what an operator calls; device time is that of the kernels it launched. k changes "
        "between the tables, / filters, < and > choose the column to sort by, R reverses, enter "
        "shows the longest call of a row on the timeline."
    )

    _shown: tuple[TraceAnalysis | None, str] | None = None
    """What the tables hold: they are built anew only for another window."""

    def body(self) -> Iterable[Widget]:
        """The tables."""
        yield OpsView(id="ops-view")

    def show(self, snapshot: Snapshot) -> None:
        """Hand over a window once."""
        shown = (snapshot.analysis, window_note(snapshot))
        if shown != self._shown:
            self._shown = shown
            self.query_one(OpsView).show(*shown)

    def on_screen_resume(self) -> None:
        """Catch up, and give the keys to the table."""
        super().on_screen_resume()
        self.query_one(OpsView).focus()

    @on(OpsView.OperatorOpened)
    def _opened(self, event: OpsView.OperatorOpened) -> None:
        analysis = self.snapshot.analysis if self.snapshot else None
        if analysis is not None:
            start = int(analysis.trace.start[event.row])
            end = start + int(analysis.trace.duration[event.row])
            self.session.go_to_place(start, end, event.row)
