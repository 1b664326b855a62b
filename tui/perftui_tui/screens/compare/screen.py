"""The Compare screen: the run on screen beside the one it repeats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.containers import Container
from textual.reactive import reactive
from textual.widget import Widget

from perftui.experiments.comparison import compare
from perftui_tui.keys.keymap import bindings, hint
from perftui_tui.look.rows import Row, row, wrap
from perftui_tui.panes.step_bar import breakdown_bar
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.screens.compare.figures import comparison
from perftui_tui.screens.compare.step_histogram import StepHistogram
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.widgets.row_view import RowView

if TYPE_CHECKING:
    from perftui_tui.charts.run_charts import Chart

NOTHING = (
    "Nothing to compare with yet. Try a fix on the Diagnosis screen ({diagnosis.try_fix}), and "
    "when the new run has 20 steady steps both are shown here; or press {compare.baseline} to "
    "choose a recorded run as the baseline."
)

NOTHING_OF_A_TRACE = (
    "A trace cannot be compared: only recorded runs can. Record the training itself with "
    "`perftui train.py`."
)


class CompareScreen(RunScreen):
    """Step breakdowns, step times and a verdict, before and after."""

    NAME = "compare"
    HELP = (
        "The run on screen (after) beside its baseline (before): step breakdown, step times, the "
        "parts of a step, and a verdict. The verdict asks for more than two runs of one program "
        "differ by, and says so when the runs are too short or the machine was too busy. "
        "{compare.baseline} chooses another baseline, {compare.swap} exchanges the two, "
        "{app.study} opens the step times of both as charts."
    )
    CHART = "compare"
    BINDINGS = bindings("compare")

    DEFAULT_CSS = """
    CompareScreen {
        #compare { height: 1fr; }
        #breakdowns { height: 8; }
        #figures { height: 1fr; border: round $chart; padding: 0 1; }
        #distribution { height: 1fr; border: round $chart; display: none; }
    }
    CompareScreen.-alone #breakdowns { display: none; }
    CompareScreen.-tall #distribution { display: block; }
    CompareScreen.-tall.-alone #distribution { display: none; }
    CompareScreen.-tall.-wide #compare { layout: horizontal; }
    CompareScreen.-tall.-wide #figures, CompareScreen.-tall.-wide #distribution { width: 1fr; }
    """

    swapped: reactive[bool] = reactive(False, init=False, repaint=False)
    """Whether before and after are exchanged."""
    watch_swapped = RunScreen.redraw

    def body(self) -> Iterable[Widget]:
        """Both breakdowns, the figures, the distribution."""
        yield RowView(id="breakdowns")
        figures = RowView(id="figures", title="Before and after")
        yield Container(figures, StepHistogram(id="distribution"), id="compare")

    def useless_actions(self) -> frozenset[str]:
        """Here the fix that was tried is written, whatever is found now."""
        change = self.session.trials.change
        can_write = change and change.option and change.option.patch
        useless = super().useless_actions()
        return useless - {"write_fix"} if can_write else useless | {"write_fix"}

    def show(self, snapshot: Snapshot) -> None:
        """Draw both runs, or how to get a second."""
        self.session.baseline.find()
        parts, figures = self.query_one("#breakdowns", RowView), self.query_one("#figures", RowView)
        cells = figures.scrollable_content_region.width - 1
        pair = self._pair(snapshot)
        known = [one.facts for one in pair or () if one.run is not None and one.facts is not None]
        self.set_class(len(known) < 2, "-alone")
        if pair is None or len(known) < 2:
            parts.rows = []
            text = NOTHING_OF_A_TRACE if snapshot.run is None else hint(NOTHING)
            figures.rows = wrap(text, max(20, cells))
            return
        before, after = pair
        parts.rows = breakdown_rows(before, after, parts.size.width)
        figures.rows = comparison(compare(*known), cells)
        self.query_one(StepHistogram).show(before.step_ms, after.step_ms)

    def _pair(self, snapshot: Snapshot) -> tuple[Snapshot, Snapshot] | None:
        before = self.session.baseline.snapshot
        if before is None or before.source == snapshot.source:
            return None
        return (snapshot, before) if self.swapped else (before, snapshot)

    def charts(self) -> tuple[Chart, ...]:
        """Both runs in one chart, before the charts of the run on screen."""
        from perftui_tui.charts.comparison import comparison_charts

        pair = self._pair(self.snapshot) if self.snapshot is not None else None
        return (*(comparison_charts(*pair) if pair else ()), *super().charts())

    def action_swap(self) -> None:
        """Exchange before and after."""
        self.swapped = not self.swapped

    def action_scroll_figures(self, rows: int) -> None:
        """Scroll the figures."""
        self.query_one("#figures", RowView).scroll_relative(y=rows, animate=False)

    def action_write_fix(self) -> None:
        """Write the fix that was tried."""
        change = self.session.trials.change
        self.session.source_fixes.write(change.option if change else None)

    def action_baseline(self) -> None:
        """Choose the run to compare with."""
        self.session.baseline.choose()


def breakdown_rows(before: Snapshot, after: Snapshot, cells: int) -> list[Row]:
    """Both steps on one scale of time: the slower one takes the whole width."""
    longest = max(one.breakdown.mean.mean if one.breakdown else 0 for one in (before, after))
    return [*_titled("BEFORE", before, cells, longest), *_titled("AFTER", after, cells, longest)]


def _titled(label: str, snapshot: Snapshot, cells: int, longest: int) -> list[Row]:
    manifest, breakdown = snapshot.manifest, snapshot.breakdown
    width = max(1, cells * breakdown.mean.mean // longest) if breakdown and longest else cells
    name = manifest.name if manifest and manifest.name else "as it is"
    run_id = manifest.run_id if manifest else ""
    title = row((f" {label:<7}", "accent"), f" {name}  ", (run_id, "dim"))
    return [title, *breakdown_bar(snapshot.breakdown, width, cells)]
