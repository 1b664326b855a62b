"""The Memory screen: GPU memory by step and by category, the host's, and who holds it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from textual.containers import Container
from textual.widget import Widget

from perftui.facts.gpu.cards import gpu_memory
from perftui_tui.charts.run_charts import Chart
from perftui_tui.keys.own_keys import bindings
from perftui_tui.look.rows import wrap
from perftui_tui.panes.meter import SnapshotPane
from perftui_tui.reading.memory import UNREADABLE, memory_curves
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.telemetry import table_of
from perftui_tui.screens.memory.allocations import allocation_rows, category_chart, peak_rows
from perftui_tui.screens.memory.chart import (
    host_line,
    host_rows,
    memory_chart,
    memory_is_level,
    memory_now,
    memory_title,
    steps_line,
)
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.widgets.row_view import RowView

TITLE = "Allocations by call site"

FRAME = 2
"""Rows of a pane's border."""

LOWEST_CHART = 7
"""Rows of a chart, border included, that tables leave to it."""

FEWEST_TABLE = 4
"""Rows of a table, border included, that are always left to it."""

ENOUGH = 99
"""More rows than a table has."""

FEWEST_ALLOCATIONS = 6
"""Rows of the allocations, border included, that are always left to them."""


class MemoryScreen(RunScreen):
    """Memory by step and by category, the host's, and the largest allocations of a snapshot."""

    NAME = "memory"
    HELP = (
        "GPU memory at the end of each step: what tensors hold (allocated), and what PyTorch has "
        "taken from the driver (reserved). The peak is the most that was ever allocated. If "
        "allocations were recorded (--memory in profiled windows, --memory-snapshot for all GPU "
        "memory), memory is also shown by category over that time: parameters, gradients, "
        "optimizer state, activations (made by the forward pass, held for the backward pass), "
        "temporary (released in the same phase), memory held from before the recording, and other, "
        "whose purpose is unknown. Each column shows its highest moment. Retried allocations cost "
        "time: PyTorch empties its cache before each retry. A memory snapshot also shows which "
        "lines of the program hold the memory. For the host, the screen shows the processes by "
        "role, page cache, swap and /dev/shm."
    )
    CHART = "memory"
    BINDINGS = bindings("memory")

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text()

    def body(self) -> Iterable[Widget]:
        yield SnapshotPane(memory_now, id="memory-now")
        yield SnapshotPane(steps_line, id="steps-line", chart="memory")
        yield SnapshotPane(host_line, id="host-line", chart="rss")
        categories = SnapshotPane(
            # A legend where no table beside it has the figures.
            lambda *of: category_chart(*of, legend=self.has_class("-short")),
            id="memory-categories",
            chart="category",
        )
        steps = SnapshotPane(memory_chart, id="memory-chart", chart="memory")
        parts = SnapshotPane(peak_rows, id="memory-parts", title="At the peak")
        host = SnapshotPane(host_rows, id="memory-host", title="Host memory", chart="rss")
        beside = Container(parts, host, id="memory-beside")
        allocations = RowView(id="allocations", title=TITLE)
        yield Container(
            Container(categories, steps, id="memory-charts"),
            Container(beside, allocations, id="memory-tables"),
            id="memory-panes",
        )

    def charts(self) -> tuple[Chart, ...]:
        """All charts; without one by step those by category come first."""
        found = super().charts()
        if any(one.name == self.CHART for one in found):
            return found
        return tuple(sorted(found, key=lambda one: not one.name.startswith("category")))

    def show(self, snapshot: Snapshot) -> None:
        """Choose the panes, their heights and titles, and draw the allocations."""
        if not self.query("#memory-parts") or not self.query("#allocations"):
            # What lies in a container is there a moment later, and asks to be drawn then.
            return
        curves, is_short = memory_curves(snapshot), self.has_class("-short")
        has_run, has_host = snapshot.run is not None, table_of(snapshot) is not None
        self.set_class(bool(curves), "-curve")
        # A short screen has room for one chart: what else there is stands in the rows above it.
        only_curve = is_short and bool(curves)
        has_chart = has_run and not only_curve and not (curves and memory_is_level(snapshot))
        shown = {
            "#memory-categories": bool(curves),
            "#memory-chart": has_chart,
            "#memory-charts": has_chart or bool(curves),
            "#memory-parts": bool(curves) and not is_short,
            "#memory-host": has_host and not only_curve,
            "#memory-beside": (bool(curves) and not is_short) or (has_host and not only_curve),
            "#host-line": has_host and only_curve,
            "#steps-line": only_curve and snapshot.ask(gpu_memory) is not None,
        }
        for name, is_shown in shown.items():
            self.query_one(name).display = is_shown
        self.query_one("#memory-chart", SnapshotPane).entitle(memory_title(snapshot))
        if curves:
            short = f"{curves[0].device} memory by category"
            whole = f"{short} over {curves[0].source}"
            fits = len(whole) + 4 <= self.size.width
            self.query_one("#memory-categories", SnapshotPane).entitle(whole if fits else short)
        pane = self.query_one("#allocations", RowView)
        cells = pane.scrollable_content_region.width
        if cells:
            problem = next((one for one in snapshot.problems if one.startswith(UNREADABLE)), "")
            damage = wrap(problem, cells, "warn")
            pane.rows = damage or allocation_rows(snapshot, cells)
        source = f" ({snapshot.allocations.path.name})" if snapshot.allocations else ""
        pane.entitle(f"{TITLE}{source}")
        if self.size.width:
            self._set_heights(snapshot, shown)

    def _set_heights(self, snapshot: Snapshot, shown: dict[str, bool]) -> None:
        """Give tables the rows that they need; charts have the rest, and some rows at least."""
        now = memory_now(snapshot, self.size.width, 2)
        self.query_one("#memory-now").styles.height = min(2, len(now))
        is_beside = all(map(self.has_class, ("-curve", "-tall", "-wide")))
        allocations = self.query_one("#allocations", RowView)
        room = self.query_one("#memory-panes").size.height
        own = len(allocations.rows) + FRAME
        if snapshot.allocations is not None:
            share = room * 2 // (7 if shown["#memory-beside"] else 5)
            own = max(FEWEST_ALLOCATIONS, min(own, share))
        charts = shown["#memory-categories"] + shown["#memory-chart"]
        width = self.size.width
        if is_beside:
            width = width * 2 // 5
        elif shown["#memory-parts"] and shown["#memory-host"]:
            width //= 2
        drawn = {"#memory-parts": peak_rows, "#memory-host": host_rows}
        heights = {
            name: len(draw(snapshot, width - FRAME, ENOUGH)) + FRAME
            for name, draw in drawn.items()
            if shown[name]
        }
        if not is_beside:
            most = max(FEWEST_TABLE, room - own - charts * LOWEST_CHART)
            heights = {name: min(max(heights.values()), most) for name in heights}
        for name, rows in heights.items():
            self.query_one(name).styles.height = rows
        fills = snapshot.allocations is not None and (is_beside or not charts)
        allocations.styles.height = "1fr" if fills else own

    def action_scroll_sites(self, rows: int) -> None:
        self.query_one("#allocations", RowView).scroll_relative(y=rows, animate=False)
