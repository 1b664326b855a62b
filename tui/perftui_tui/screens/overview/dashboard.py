"""The machine and the training at this moment: charts, a row for each meter, the last step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widget import Widget

from perftui_tui.look.rows import Row
from perftui_tui.panes import gpu_cards
from perftui_tui.panes.gpu import gpu
from perftui_tui.panes.loader import worker_count, workers
from perftui_tui.panes.machine import busy_of_cores, cores, disk, moves, network
from perftui_tui.panes.meter import Meter
from perftui_tui.panes.meters import METERS, draw_at, draw_meter, gpu_place
from perftui_tui.panes.snapshot_pane import Draw, SnapshotPane
from perftui_tui.panes.step_bar import last_step, last_step_title
from perftui_tui.panes.top_ops import operators
from perftui_tui.reading.snapshot import Snapshot

MOST_CARDS = 8
"""Rows that GPUs get; those that the run uses come first."""

MOST_CARDS_SHORT = 4
"""Rows that GPUs get on screens of at most 24 rows."""


class Dashboard(Vertical):
    """Charts where there is room for them, below them the meters, and the last profiled step."""

    DEFAULT_CSS = """
    Dashboard {
        height: auto;
        #charts { display: none; layout: grid; grid-size: 3 1; height: 8; }
        .chart { border: round $chart; }
        #meters { height: auto; }
        .meter { height: 1; overflow: hidden hidden; }
        #last-step {
            display: none; height: 5; border: round $chart; overflow: hidden hidden;
        }
    }
    """

    def compose(self) -> ComposeResult:
        """Charts, meters, and the last step."""
        yield Container(
            self._chart("Step time"),
            self._chart("GPU", self._draw_gpu),
            self._chart("Data loader"),
            id="charts",
        )
        yield Vertical(*self._meters(), id="meters")
        yield SnapshotPane(last_step, id="last-step", title="Last profiled step")

    def _meters(self) -> Iterable[Widget]:
        """A row each, from the training to the machine's edges."""
        yield self._meter("Step time", "meter charted strip")
        yield SnapshotPane(gpu_cards.gpu_cards, id="meter-gpu", classes="meter strip", chart="gpu")
        yield self._meter("Data loader", "meter charted strip")
        yield SnapshotPane(workers, id="meter-workers", classes="meter", chart="loader")
        yield self._meter("CPU")
        yield SnapshotPane(cores, id="meter-cores", classes="meter", chart="cpu")
        for name in ("Memory", "Disk", "Network"):
            yield self._meter(name)

    def _meter(self, name: str, classes: str = "meter") -> SnapshotPane:
        read, chart = METERS[name]
        at = f"meter-{read.__name__}"
        return SnapshotPane(draw_meter(read), id=at, classes=classes, chart=chart)

    def _chart(self, name: str, draw: Draw | None = None) -> SnapshotPane:
        read, chart = METERS[name]
        at, drawing = f"chart-{read.__name__}", draw or draw_meter(read)
        return SnapshotPane(drawing, id=at, title=name, classes="chart", chart=chart)

    def _draw_gpu(self, snapshot: Snapshot, cells: int, height: int) -> Sequence[Row]:
        meter = self._gpu_place(snapshot, height)
        if meter is None:
            return operators(snapshot, cells, height)
        return draw_at(meter, snapshot, cells, height)

    def _gpu_place(self, snapshot: Snapshot, height: int) -> Meter | None:
        return gpu_place(snapshot, height, lists_below=self.screen.has_class("-wide"))

    def show(self, snapshot: Snapshot) -> None:
        """Show the rows that have something to say, and name what stands in the GPU's place."""
        is_strip = self.screen.has_class("-strip")
        is_tall = self.screen.has_class("-tall") and not is_strip
        most = 1 if is_strip else MOST_CARDS if is_tall else MOST_CARDS_SHORT
        cards = gpu_cards.count(snapshot)
        self._pane("#meter-gpu").styles.height = max(1, min(most, cards))
        for name, is_shown in (
            # Without a card the chart says so, and a strip has the processors instead.
            ("#meter-gpu", cards > 0 or not (is_tall or is_strip)),
            ("#meter-cpu", not is_strip or not cards),
            ("#meter-workers", is_tall and bool(worker_count(snapshot))),
            ("#meter-cores", is_tall and bool(busy_of_cores(snapshot))),
            ("#meter-memory", is_tall),
            ("#meter-disk", not is_strip and moves(disk(snapshot))),
            ("#meter-network", not is_strip and moves(network(snapshot))),
        ):
            self._pane(name).display = is_shown
        chart = self._pane("#chart-gpu")
        meter = self._gpu_place(snapshot, chart.content_size.height)
        why_absent = gpu(snapshot).absent if meter is None or meter.name != "GPU" else ""
        chart.entitle("Top operators" if meter is None else meter.name, why_absent)
        step = self._pane("#last-step")
        step.entitle(last_step_title(snapshot))
        analysis = snapshot.analysis
        # Its phases, a device or the host, and the gaps; or a row that says why there are none.
        step.styles.height = 3 if analysis is None else 5 if analysis.has_gpu else 4

    @property
    def meter_rows(self) -> int:
        """Rows that the meters take, without a border."""
        panes = self.query_one("#meters").children
        heights = (pane.styles.height for pane in panes if pane.display)
        return sum(int(height.value) if height is not None else 1 for height in heights)

    def _pane(self, name: str) -> SnapshotPane:
        return self.query_one(name, SnapshotPane)
