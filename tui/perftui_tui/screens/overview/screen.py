"""The first screen: what the bottleneck is, what it costs, and what to press."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.containers import Container, Vertical
from textual.widget import Widget

from perftui.trace.text import printable
from perftui_tui.dialogs.too_small import NEEDED, NEEDED_FOR_STRIP, is_too_small
from perftui_tui.keys.own_keys import bindings, hint, shown_key
from perftui_tui.look.format import format_count, format_ns, percent
from perftui_tui.look.rows import Row, fit, row, width, with_fitting
from perftui_tui.panes.gpu import busy_word
from perftui_tui.panes.machine import step_time
from perftui_tui.panes.meter import NAME_WIDTH, READING_WIDTH, STYLES, SnapshotPane, draw_line
from perftui_tui.panes.step_bar import kernels, operators, step_bar, top_ops
from perftui_tui.panes.verdict import LABEL_WIDTH, findings, label
from perftui_tui.reading.output import Output
from perftui_tui.reading.snapshot import Phase, Snapshot, Todo, next_thing, next_try
from perftui_tui.screens.overview.dashboard import Dashboard, GapList, headline
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.widgets.log_view import nothing_printed, tail_rows
from perftui_tui.widgets.row_view import RowView

if TYPE_CHECKING:
    from perftui.analysis.model import DeviceActivity, Step
    from perftui.diagnosis.model import Finding
    from perftui.fixes.option import FixOption
    from perftui.trace.nsys.report import Exporting

LISTED = 4
"""Devices shown; the timeline has them all."""


def activity(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """A row for each device, then a chart of the steps where the trace marks 20 or more."""
    devices = snapshot.analysis.activity if snapshot.analysis else ()
    steps = snapshot.analysis.steps if snapshot.analysis else ()
    rows = [_device(one, steps, cells) for one in devices[:LISTED]]
    if len(devices) > LISTED:
        key = shown_key("app.show('timeline')")
        rows.append(row((f"and {len(devices) - LISTED} more devices: {key} shows all", "dim")))
    if snapshot.is_memory_alone:
        rows.append(row(("a memory snapshot has no timings", "dim")))
    elif not devices:
        rows.append(row(("no GPU activity in this trace; times are CPU times", "dim")))
    if len(snapshot.step_ms) >= 20:
        rows += draw_line(step_time(snapshot), cells)
    return rows


def _device(device: DeviceActivity, steps: Sequence[Step], cells: int) -> Row:
    """How busy the device was over all steps, which may begin before its work and end after it."""
    begin = min((device.start, *(step.start for step in steps)))
    span = max((device.end, *(step.end for step in steps))) - begin
    busy = 100 * device.busy / span if span else 0.0
    word = busy_word(busy)
    copied = device.memcpy_sum + device.memset_sum
    if word == "OK" and copied > device.kernel_sum:
        word = "COPIES"
    name = (f"GPU {device.device}".ljust(NAME_WIDTH), "bold")
    # The figures stand behind a gap of three cells.
    reading = fit(row(f"busy {percent(busy)} ", (word, STYLES[word])), READING_WIDTH - 3)
    copies = device.memcpy_count + device.memset_count
    figures = [
        (f"of {format_ns(span)}", ""),
        (f"{format_count(device.kernel_count)} kernels {format_ns(device.kernel_sum)}", ""),
        (f"{format_count(copies)} copies {format_ns(copied)}", ""),
        *([(printable(device.name), "dim")] if device.name else []),
    ]
    return with_fitting(row(name, *reading), figures, cells)


def loading_rows(text: str, done: float | Exporting, cells: int) -> list[Row]:
    """The progress with a bar, and what can be done meanwhile."""
    text = f" {text}"
    room = min(40, cells - LABEL_WIDTH - width(row(text)) - 2)
    bar: Row = ()
    # How far another program has come, or the analysis, is not known as a share.
    if isinstance(done, float) and done < 1 and room >= 4:
        filled = round(done * room)
        bar = (("━" * filled, "accent"), ("─" * (room - filled), "dim"))
    keys = [(shown_key(action), "key") for action in ("app.show('timeline')", "app.quit")]
    tracks = " shows the tracks read so far, "
    return [
        row(label("READING", "accent"), (text, "bold"), "  ", *bar),
        row(label("NEXT", "dim"), " ", keys[0], tracks, keys[1], " quits"),
    ]


MOST_FINDING_ROWS = 10
"""Rows of the findings of a trace, border included; the Diagnosis screen has all."""

MOST_METERS = 0.2
"""Rows of meters, as a share of the screen's, above which charts and the log give way: eight GPUs
with all that belongs to them fit on a screen of 40 rows."""

CRAMPED_BELOW = 20
"""Rows of the screen below which a finding needs that of the parts without names, and the log's."""

NOT_PLAYED = "script output has no timestamps, so it is not played: {app.show('log')} shows it"

ALL_OUTPUT = "{app.show('log')} shows what the script printed"


class OverviewScreen(RunScreen):
    """Headline, step breakdown, meters, findings, and the script's last lines."""

    NAME = "overview"
    SAYS_VERDICT = False
    NEEDED = NEEDED_FOR_STRIP
    HELP = (
        "The first two lines name the bottleneck and what to do next. The bar is the mean step, "
        "split into parts that sum to it; parts too small for their name are listed below it. "
        "Each meter shows the current value, its history and a rating: LOW, OK, HIGH or FULL; "
        "steps are EVEN, or UNEVEN if one in twenty takes 1.5 times as long. What else was found "
        "is listed below by cost: !! marks critical findings, ! warnings, 38 % is the cost as a "
        "share of the step, and ≤1.61x means 1.61x faster at most if this were fixed."
    )
    BINDINGS = bindings("overview")

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text()

    def body(self) -> Iterable[Widget]:
        yield SnapshotPane(headline, id="headline")
        yield SnapshotPane(step_bar, id="step-bar", chart="parts")
        yield SnapshotPane(lambda *of: step_bar(*of)[1:3], id="bar-alone", chart="parts")
        with Container(id="live"):
            yield Dashboard(id="dashboard")
            with Vertical(id="lists"):
                yield SnapshotPane(findings, id="findings", title="Findings")
                yield SnapshotPane(top_ops, id="top-ops", title="Top ops")
        yield RowView(id="log-tail", title="Log")
        # What a trace has in place of meters and output.
        with Vertical(id="trace"):
            yield SnapshotPane(activity, id="activity")
            with Container(id="trace-panes"):
                with Vertical():
                    yield SnapshotPane(findings, id="trace-findings", title="Findings")
                    yield GapList(id="gaps")
                with Vertical():
                    yield SnapshotPane(kernels, id="kernels", title="Top kernels")
                    yield SnapshotPane(operators, id="operators", title="Top operators")

    def useless_actions(self) -> frozenset[str]:
        """Only a fix that is written is run and undone from here."""
        found = next_thing(self.snapshot) if self.snapshot is not None else None
        is_written = found is not None and found.todo is Todo.RUN
        useless = super().useless_actions()
        return useless if is_written else useless | {"undo_fix", "rerun"}

    def show(self, snapshot: Snapshot) -> None:
        """Titles and the log's end."""
        self._choose_panes(snapshot)
        self._fit_rows()
        self._title_findings(snapshot)
        dashboard = self.query_one(Dashboard)
        dashboard.show(snapshot)
        self.set_class(dashboard.meter_rows > MOST_METERS * self.size.height, "-crowded")
        self.show_output(self.session.output)

    def _fit_rows(self) -> None:
        self.set_class(is_too_small(self.size, NEEDED), "-strip")
        is_cramped = self.size.height < CRAMPED_BELOW
        self.set_class(is_cramped, "-cramped")
        sentence, bar = (self.query_one(n, SnapshotPane) for n in ("#headline", "#step-bar"))
        sentence.styles.height = len(sentence.rows) or 2
        bar.styles.height = 3 if is_cramped else len(bar.rows) or 3

    def loading_progress(self, text: str, done: float | Exporting) -> None:
        """Show the progress in place of the headline too, where there is none yet."""
        super().loading_progress(text, done)
        if self.snapshot is None:
            self.set_class(True, "-trace")
            sentence = self.query_one("#headline", SnapshotPane)
            sentence.rows = loading_rows(text, done, sentence.content_size.width)

    def _choose_panes(self, snapshot: Snapshot) -> None:
        """A trace has no meters and no output, but devices, gaps and kernels."""
        is_trace = snapshot.phase is Phase.TRACE
        has_gpu = snapshot.analysis is not None and snapshot.analysis.has_gpu
        self.set_class(is_trace, "-trace")
        self.set_class(is_trace and has_gpu, "-gpu")
        self.set_class(is_trace and not has_gpu, "-cpu")
        if is_trace:
            rows = activity(snapshot, self.size.width, 0)
            self.query_one("#activity").styles.height = len(rows)
        if is_trace and has_gpu:
            # As high as it is long: what is left shows more gaps.
            pane = self.query_one("#trace-findings", SnapshotPane)
            rows = findings(snapshot, pane.content_size.width or self.size.width, 0)
            pane.styles.height = min(MOST_FINDING_ROWS, len(rows) + 2)

    def _title_findings(self, snapshot: Snapshot) -> None:
        count = len(snapshot.diagnosis.findings) - 1
        self.set_class(count < 1 and snapshot.phase is not Phase.TRACE, "-alone")
        title = f"Other findings ({count}), by cost" if count > 0 else "Other findings"
        for name in ("#findings", "#trace-findings"):
            pane = self.query_one(name, SnapshotPane)
            pane.entitle(title, hint("{app.show('diagnosis')} opens Diagnosis"))
        gaps = self.query_one(GapList)
        text = hint("{overview.show_gap} shows it on the timeline") if gaps.gap is not None else ""
        gaps.entitle("GPU idle", text)

    def show_output(self, output: Output) -> None:
        """The end of the log; empty while a run is played, since output has no times."""
        shown = self.snapshot
        is_played = shown is not None and shown.as_of is not None
        lines = (hint(NOT_PLAYED),) if is_played else output.lines
        stopped = shown.manifest.stopped if shown and shown.manifest and not is_played else None
        # A script ends with a traceback when it is stopped, which looks like a failure.
        end = f"perftui: {stopped}; {hint(ALL_OUTPUT)}" if stopped else ""
        goes_on = shown is not None and shown.goes_on
        # A strip has no header.
        is_alone = shown is not None and self.has_class("-strip")
        name = f"{printable(shown.name)} " if shown is not None and is_alone else ""

        def make(cells: int, height: int) -> list[Row]:
            rest = cells - len(name)
            rows = tail_rows(lines, nothing_printed(goes_on), end, rest, height)
            return [row((name, "accent"), *line) for line in rows]

        self.query_one("#log-tail", RowView).draw(make)

    def action_why(self) -> None:
        """Open what the second line is about: a fix and its finding, or the first finding."""
        found = next_thing(self.snapshot) if self.snapshot is not None else None
        if found is not None:
            self.session.fix = (found.finding.rule, found.option.fix)
        self.session.follow("diagnosis")

    def action_select_gap(self, step: int) -> None:
        self.query_one(GapList).move(step)

    def action_show_gap(self) -> None:
        gap = self.query_one(GapList).gap
        if gap is None:
            self.notify("no gap between GPU activities has been recorded", severity="warning")
        else:
            self.session.go_to_place(gap.start, gap.end)

    def action_try_fix(self, proves: bool = False) -> None:
        self.session.trials.offer(*self._next_try, proves=proves)

    def action_prove_fix(self) -> None:
        self.action_try_fix(proves=True)

    def action_write_fix(self) -> None:
        finding, option = self._next_try
        proof = self.snapshot.proof(option) if option and self.snapshot else None
        self.session.source_fixes.write(option, proof.headline if proof else "", finding)

    @property
    def _next_try(self) -> tuple[Finding | None, FixOption | None]:
        """The first finding with a fix that can be tried, and that fix."""
        found = next_try(self.snapshot) if self.snapshot is not None else None
        return (found.finding, found.option) if found else (None, None)
