"""The Compare screen: the run or trace on screen beside another one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from textual import work
from textual.containers import Container, Vertical
from textual.reactive import reactive
from textual.widget import Widget

from perftui.experiments.comparison import Comparison, compare
from perftui.experiments.conditions import EDITED
from perftui.facts.fact import Facts
from perftui.fixes.option import FixOption
from perftui.run.layout import without_time
from perftui_tui.charts.run_charts import Chart, comparison_charts
from perftui_tui.dialogs.chart import ChartPlot
from perftui_tui.keys.own_keys import bindings, hint
from perftui_tui.look.format import format_ns
from perftui_tui.look.rows import Row, crop, row, wrap
from perftui_tui.look.rows import width as width_of
from perftui_tui.panes.experiments import newest, proof_rows
from perftui_tui.panes.step_bar import breakdown_bar, legend_of
from perftui_tui.reading.snapshot import DrawnStep, Snapshot
from perftui_tui.screens.compare.figures import TABLES, comparison, lacks_tables, work_rows
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.widgets.row_view import RowView

NOTHING = (
    "Nothing to compare with yet. Try a fix on the Diagnosis screen ({diagnosis.try_fix}): both "
    "runs are shown here once the new one has 20 steady steps. Or press {compare.baseline} to "
    "choose a recorded run as the baseline."
)

A_TRIAL_RUNS = (
    "A trial is running and compares runs with a fix and without it: {app.trial} shows it. Its "
    "result is shown here too. Or press {compare.baseline} to compare with a recorded run."
)

NOTHING_OF_A_TRACE = (
    "Nothing to compare with yet: press {compare.baseline} to choose another trace, or a recorded "
    "run, as the baseline."
)


class CompareScreen(RunScreen):
    """Step breakdowns, step times and a verdict, before and after."""

    NAME = "compare"
    HELP = (
        "The run or trace on screen (after) next to its baseline (before). A trace and a run are "
        "compared by the run's newest window. A verdict of faster or slower needs a larger "
        "difference than two runs of one program show by chance; where the runs are too short or "
        "the machine was too busy, {compare.prove_fix} proves the tried fix, or your own edit, "
        "with pairs of runs. {compare.baseline} chooses another baseline, {compare.swap} swaps "
        "the two, {app.study} opens the step times of both as charts."
    )
    CHART = "compare"
    BINDINGS = bindings("compare")

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text()

    swapped: reactive[bool] = reactive(False, init=False, repaint=False)
    """Whether before and after are exchanged."""
    watch_swapped = RunScreen.redraw

    _edit: FixOption | None = None
    """What a person changed in the source between both runs."""

    def body(self) -> Iterable[Widget]:
        yield RowView(id="breakdowns")
        figures = RowView(id="figures", title="Before and after")
        changed = RowView(id="changed", title="What changed most")
        beside = Vertical(ChartPlot(id="distribution"), changed, id="beside")
        yield Container(figures, beside, id="compare")

    def useless_actions(self) -> frozenset[str]:
        """Here the fix that was tried is proven and written, whatever is found now."""
        change, tried = self.session.trials.change, self.session.trials.tried
        useless = super().useless_actions() | (set() if self._pair else {"swap"})
        written = [row.option for row in self.session.source_fixes.written]
        if (change and change.is_written) or tried in written:
            return useless | {"prove_fix", "write_fix"}
        if tried is not None or self._edit is not None:
            useless -= {"prove_fix"}
        can_write = tried is not None and tried.patch is not None
        return useless - {"write_fix"} if can_write else useless | {"write_fix"}

    def show(self, snapshot: Snapshot) -> None:
        """Draw both runs, or how to get a second."""
        self.session.baseline.find()
        parts, figures = self.query_one("#breakdowns", RowView), self.query_one("#figures", RowView)
        cells = figures.scrollable_content_region.width - 1
        pair = self._pair
        known = [one.facts for one in pair or () if one.facts is not None]
        self.set_class(len(known) < 2, "-alone")
        if pair is None or len(known) < 2:
            parts.rows = []
            figures.rows = self._alone(snapshot, max(20, cells))
            return
        found = compare(*known)
        self._edit = None if self.swapped or None in found.steps else found.edit
        parts.rows = breakdown_rows(pair, found, parts.size.width)
        rows = comparison(found, cells)
        if (found.proof is None) == self.has_class("-proven"):
            figures.scroll_home(animate=False)
        self.set_class(found.proof is not None, "-proven")
        waits = any(map(lacks_tables, known))
        if waits:
            self._work_out(known)
        # Beside the figures stands what changed most, where both have room; all else below them.
        kernels, operators = ([], []) if waits else work_rows(found, cells)
        beside = (kernels or operators) if {"-tall", "-wide"} <= self.classes else []
        self.set_class(bool(beside), "-worked")
        self.query_one("#changed", RowView).rows = beside[1:]
        below = [*kernels, *operators] if not beside else operators if kernels else []
        figures.rows = [*rows, *below]
        is_cut = len(figures.rows) > figures.content_size.height
        scrolls = f"{len(figures.rows)} rows: down, pagedown and end show more" if is_cut else ""
        figures.entitle("Before and after", scrolls)
        spread = comparison_charts(*pair)[:1] if self.has_class("-tall") else ()
        plot = self.query_one(ChartPlot)
        plot.visible = bool(spread)
        for chart in spread:
            levels = (f"{name} {format_ns(level)}" for name, level in chart.levels)
            plot.border_title = f"Step times   {'   '.join(levels)}"
            plot.border_subtitle = chart.note
            plot.show(chart)

    def _alone(self, snapshot: Snapshot, cells: int) -> list[Row]:
        """What stands in place of a comparison: a trial, or how to get another run."""
        if snapshot.run is None:
            return wrap(hint(NOTHING_OF_A_TRACE), cells)
        if self.session.trials.running is not None:
            return wrap(hint(A_TRIAL_RUNS), cells)
        proof = newest(snapshot.proofs)
        if proof is not None:
            return proof_rows(proof, cells)
        return wrap(hint(NOTHING), cells)

    @work(thread=True, exclusive=True, exit_on_error=False, group="compare-tables")
    def _work_out(self, known: Sequence[Facts]) -> None:
        """The operators and kernels of both: of a million rows that takes seconds."""
        for one in known:
            for table in TABLES:
                table.or_none(one)
        self.app.call_from_thread(self.redraw)

    @property
    def _pair(self) -> tuple[Snapshot, Snapshot] | None:
        before, snapshot = self.session.baseline.snapshot, self.snapshot
        if before is None or snapshot is None or before.source == snapshot.source:
            return None
        return (snapshot, before) if self.swapped else (before, snapshot)

    def charts(self) -> tuple[Chart, ...]:
        """Both runs in one chart, before the charts of the run on screen."""
        return (*(comparison_charts(*self._pair) if self._pair else ()), *super().charts())

    def action_swap(self) -> None:
        self.swapped = not self.swapped

    def action_scroll_figures(self, rows: int) -> None:
        for pane in self.query("#figures, #changed").results(RowView):
            pane.scroll_relative(y=rows, animate=False)

    def action_prove_fix(self) -> None:
        """Prove the fix that was tried, or a person's own edit, on the run without it."""
        self.session.trials.prove(self._pair[self.swapped] if self._pair else None, self._edit)

    def action_write_fix(self) -> None:
        """Write the fix that was tried, with what pairs of runs measured of it."""
        tried, of = self.session.trials.tried, self._pair[self.swapped] if self._pair else None
        of = of or self.snapshot
        proof = self.session.trials.proofs.on(of).proof(tried) if of and tried else None
        self.session.source_fixes.write(tried, proof.headline if proof is not None else "")

    def action_baseline(self) -> None:
        self.session.baseline.choose()


def breakdown_rows(pair: tuple[Snapshot, Snapshot], found: Comparison, cells: int) -> list[Row]:
    """Both steps on one scale of time: the slower one takes the whole width."""
    steps = [DrawnStep(step, f"{step.count} steps") if step else None for step in found.steps]
    longest = max(one.mean.mean if one else 0 for one in steps)
    began = [one.manifest.started_ns if one.manifest else 0 for one in pair]
    is_edited = any(row.after == EDITED for row in found.differences)
    names = ["edited" if is_edited and one == max(began) else "as it is" for one in began]
    rows: list[Row] = []
    for label, usual_name, run, step in zip(("BEFORE", "AFTER"), names, pair, steps, strict=True):
        width = max(1, cells * step.mean.mean // longest) if step and longest else cells
        title = row((f" {label:<7}", "accent"), f" {run.title}   ")
        if run.manifest is not None:
            run_id = (f"{without_time(run.manifest.run_id)}   ", "dim")
            title = row(title[0], f" {run.manifest.name or usual_name}  ", run_id)
        heading, names_in_bar, figures = breakdown_bar(step, width, cells - width_of(title))
        legend = legend_of(step, width, cells - width - 2)
        figures = (*figures, ("  " * bool(legend), ""), *legend)
        rows += [crop((*title, *heading), cells), names_in_bar, figures]
    return rows
