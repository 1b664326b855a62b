"""The Memory screen: GPU memory by step, its peak, and allocations by call site."""

from __future__ import annotations

from collections.abc import Iterable

from textual.containers import Container
from textual.widget import Widget

from perftui_tui.keys.keymap import bindings
from perftui_tui.look.rows import wrap
from perftui_tui.panes.snapshot_pane import SnapshotPane
from perftui_tui.reading.allocations import UNREADABLE
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.screens.memory.allocations import allocation_rows
from perftui_tui.screens.memory.chart import memory_chart, memory_now, memory_title
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.widgets.row_view import RowView

TITLE = "Allocations by call site"


class MemoryScreen(RunScreen):
    """Allocated and reserved over the steps, and the largest allocations of a snapshot."""

    NAME = "memory"
    HELP = (
        "GPU memory at the end of each step: what tensors hold (allocated), and what PyTorch keeps "
        "for them (reserved). The peak is the most that was allocated at any time. Allocations "
        "that were tried again cost time, since PyTorch then empties its cache. Where a snapshot "
        "of the allocator is there, the lines of the program that hold the memory are listed. "
        "Without a GPU the memory of the training's processes is shown."
    )
    CHART = "memory"
    BINDINGS = bindings("memory")

    DEFAULT_CSS = """
    MemoryScreen {
        #memory-now { height: 2; overflow: hidden hidden; }
        #memory-panes { height: 1fr; }
        #memory-chart { height: 2fr; min-height: 6; border: round $chart; }
        #allocations { height: 3fr; min-height: 4; border: round $chart; }
    }
    MemoryScreen.-no-steps #memory-chart { display: none; }
    MemoryScreen.-no-allocations #memory-chart { height: 1fr; }
    MemoryScreen.-tall.-wide {
        #memory-panes { layout: horizontal; }
        #memory-chart { width: 1fr; height: 1fr; }
        #allocations { width: 1fr; height: 1fr; }
    }
    """

    def body(self) -> Iterable[Widget]:
        """Figures, the chart, and the allocations."""
        yield SnapshotPane(memory_now, id="memory-now")
        chart = SnapshotPane(memory_chart, id="memory-chart", chart="memory")
        yield Container(chart, RowView(id="allocations", title=TITLE), id="memory-panes")

    def show(self, snapshot: Snapshot) -> None:
        """Title and allocations."""
        self.set_class(snapshot.run is None, "-no-steps")
        self.set_class(snapshot.allocations is None, "-no-allocations")
        self.query_one("#memory-chart", SnapshotPane).entitle(memory_title(snapshot))
        pane = self.query_one("#allocations", RowView)
        cells = pane.scrollable_content_region.width
        if cells:
            problem = next((one for one in snapshot.problems if one.startswith(UNREADABLE)), "")
            damage = wrap(problem, cells, "warn")
            pane.rows = damage or allocation_rows(snapshot.allocations, cells)
            # Words alone take the rows that they need, and the chart has the rest.
            rows = len(pane.rows) + pane.gutter.height
            if snapshot.allocations is None:
                pane.styles.height = rows
            elif pane.styles.inline.has_rule("height"):
                pane.styles.height = None
        source = f" ({snapshot.allocations.path.name})" if snapshot.allocations else ""
        pane.entitle(f"{TITLE}{source}")

    def action_scroll_holders(self, rows: int) -> None:
        """Scroll the allocations."""
        self.query_one("#allocations", RowView).scroll_relative(y=rows, animate=False)
