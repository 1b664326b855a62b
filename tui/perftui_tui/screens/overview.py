"""The first screen: what the bottleneck is, what it costs, and what to press."""

from __future__ import annotations

from collections.abc import Iterable

from textual.containers import Container, Vertical
from textual.widget import Widget

from perftui_tui.keymap import bindings
from perftui_tui.output.tail import Output
from perftui_tui.panes.findings import findings
from perftui_tui.panes.meters import METERS, draw_meter
from perftui_tui.panes.snapshot_pane import SnapshotPane
from perftui_tui.panes.step_bar import step_bar
from perftui_tui.panes.top_ops import top_ops
from perftui_tui.panes.verdict import verdict
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.snapshot import Snapshot
from perftui_tui.widgets.log_tail import LogTail


class OverviewScreen(RunScreen):
    """Verdict, step budget, meters, findings, and the script's last words."""

    NAME = "overview"
    HELP = (
        "The first two lines name the bottleneck and the next thing to do. The bar is one step, "
        "split into parts that sum to it. Each meter shows now, history and a word: LOW, OK, HIGH, "
        "EMPTY or FULL. Findings are ordered by what they cost in each step; ≤1.61x is the best "
        "speed-up that removing one could give."
    )
    BINDINGS = bindings("overview")

    DEFAULT_CSS = """
    OverviewScreen {
        #verdict { height: 2; max-height: 5; overflow: hidden hidden; }
        #step-bar { height: 3; }
        #dashboard { height: 1fr; }
        #meters { height: 6; }
        .meter { height: 1; overflow: hidden hidden; }
        #findings { height: 1fr; min-height: 3; border: round $chart; }
        #top-ops { display: none; border: round $chart; }
        #log-tail { height: 1; }
    }
    OverviewScreen.-tall {
        #meters { height: 2fr; min-height: 14; layout: grid; grid-size: 3 2; }
        #dashboard.-vertical { layout: vertical; }
        .meter { height: 1fr; border: round $chart; }
        #findings { min-height: 6; }
        #log-tail { height: 5; border: round $chart; }
    }
    OverviewScreen.-tall.-narrow #meters { grid-size: 2 3; }
    OverviewScreen.-tall.-wide {
        #dashboard { layout: horizontal; }
        #meters { width: 3fr; height: 1fr; }
        #lists { width: 2fr; height: 1fr; }
        #top-ops { display: block; height: 1fr; }
    }
    """

    def body(self) -> Iterable[Widget]:
        """Everything between header and footer, top to bottom."""
        yield SnapshotPane(verdict, id="verdict")
        yield SnapshotPane(step_bar, id="step-bar")
        meters = [
            SnapshotPane(draw_meter(read), id=f"meter-{read.__name__}", title=name, classes="meter")
            for name, read in METERS.items()
        ]
        lists = Vertical(
            SnapshotPane(findings, id="findings", title="Findings"),
            SnapshotPane(top_ops, id="top-ops", title="Top ops"),
            id="lists",
        )
        yield Container(Vertical(*meters, id="meters"), lists, id="dashboard")
        yield LogTail(id="log-tail")

    def show(self, snapshot: Snapshot) -> None:
        """Titles and the log's end."""
        count = len(snapshot.diagnosis.findings)
        title = f"Findings ({count})" if count else "Findings"
        sentence = self.query_one("#verdict", SnapshotPane)
        sentence.styles.height = len(sentence.rows) or 2
        pane = self.query_one("#findings", SnapshotPane)
        if pane.border_title != title:
            pane.border_title = title
        if pane.border_subtitle != "4 opens Diagnosis":
            pane.border_subtitle = "4 opens Diagnosis"
        self.show_output(self.session.output)

    def show_output(self, output: Output) -> None:
        """The log's end."""
        self.query_one(LogTail).show(output)

    def action_why(self) -> None:
        """Open the evidence of the first finding."""
        self.session.action_show("diagnosis")

    def action_try_fix(self) -> None:
        """Offer the best fix of the first finding."""
        top = self.snapshot.diagnosis.top if self.snapshot else None
        self.session.offer_trial(top)
