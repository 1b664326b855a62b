"""The live overview's parts: headline, idle time, dashboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.reactive import reactive

from perftui.diagnosis.model import COMPUTE_BOUND_ID, Finding, Severity
from perftui.fixes.option import Risk
from perftui.run.layout import without_time
from perftui.trace.text import printable
from perftui_tui.keys.own_keys import hint, shown_key
from perftui_tui.look.rows import Row, Span, behind, crop, row, width
from perftui_tui.panes.gpu import MOST_CARDS, gpu, gpu_cards, sampled_gpus
from perftui_tui.panes.machine import (
    busy_of_cores,
    cores,
    cpu,
    disk,
    loader,
    memory,
    network,
    step_time,
    worker_count,
    workers,
)
from perftui_tui.panes.meter import Draw, Meter, SnapshotPane, draw_chart, draw_line
from perftui_tui.panes.step_bar import cause_text, gap_text, last_step, last_step_title, operators
from perftui_tui.panes.verdict import failure, label, proof_style, verdict, waits_for_window
from perftui_tui.reading.snapshot import NextThing, Phase, Snapshot, Todo, next_thing, next_try
from perftui_tui.reading.telemetry import table_of
from perftui_tui.widgets.row_view import RowView

if TYPE_CHECKING:
    from perftui.analysis.model import Gap
    from perftui.facts.gpu.idle import IdleOfCause

MOST_CARDS_SHORT = 4
"""Rows that GPUs get on screens of at most 24 rows."""

MOST_CHARTS = METERS_OF_STRIP = 3
"""Charts beside each other, and meters on the smallest screen: of what there is to show."""

METERS: dict[str, tuple[Callable[[Snapshot], Meter], str]] = {
    "Step time": (step_time, "step"),
    "GPU": (gpu, "gpu"),
    "Data loader": (loader, "loader"),
    "CPU": (cpu, "cpu"),
    "Memory": (memory, "rss"),
    "Disk": (disk, "disk"),
    "Network": (network, "network"),
}
"""By name, in the order they are shown, each with the chart that a click on it opens."""


def draw_meter(read: Callable[[Snapshot], Meter]) -> Draw:
    """A drawing of the meter: one line where there is one row, else a chart."""
    return lambda snapshot, cells, height: draw_at(read(snapshot), snapshot, cells, height)


def draw_at(meter: Meter, snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """``meter`` as a line in up to two rows, else as a chart."""
    live = snapshot.phase.is_live
    if height < 3:
        return draw_line(meter, cells, live=live)
    return draw_chart(meter, cells, height, live=live)


class Dashboard(Vertical):
    """Charts where there is room for them, below them the meters, and the last profiled step.

    What the run does not have, a GPU or a data loader, gives its place to what it has."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text()

    _opens: tuple[str, ...] = ()
    """The chart that a click on each of those opens."""

    def compose(self) -> ComposeResult:
        with Container(id="charts"):
            for at in range(MOST_CHARTS):
                yield RowView(id=f"chart-{at}", classes="chart")
        with Vertical(id="meters"):
            yield self._meter("Step time")
            yield SnapshotPane(gpu_cards, id="meter-gpu", classes="meter", chart="gpu")
            yield self._meter("Data loader")
            yield SnapshotPane(workers, id="meter-workers", classes="meter", chart="loader")
            yield self._meter("CPU")
            yield SnapshotPane(cores, id="meter-cores", classes="meter", chart="cpu")
            for name in ("Memory", "Disk", "Network"):
                yield self._meter(name)
        yield SnapshotPane(last_step, id="last-step", title="Last profiled step")

    def _meter(self, name: str) -> SnapshotPane:
        read, chart = METERS[name]
        at = f"meter-{read.__name__}"
        return SnapshotPane(draw_meter(read), id=at, classes="meter", chart=chart)

    def show(self, snapshot: Snapshot) -> None:
        """Choose what is charted and which rows there are, and draw the charts."""
        is_strip = self.screen.has_class("-strip")
        is_tall = self.screen.has_class("-tall") and not is_strip
        most = 1 if is_strip else MOST_CARDS if is_tall else MOST_CARDS_SHORT
        cards = len(sampled_gpus(table_of(snapshot)))
        self._pane("#meter-gpu").styles.height = max(1, min(most, cards))
        meters = {name: read(snapshot) for name, (read, _) in METERS.items()}
        there = [name for name, meter in meters.items() if not meter.is_missing]
        if is_strip:
            rows = set(there[:METERS_OF_STRIP])
        else:
            rows = set(there) - (self._chart(snapshot, meters) if is_tall else set())
            rows |= {"GPU"} if cards else set()
            if not is_tall and {"GPU", "Data loader"} <= rows:
                rows.discard("Memory")
        for name, (read, _) in METERS.items():
            self._pane(f"#meter-{read.__name__}").display = name in rows
        self._pane("#meter-workers").display = is_tall and bool(worker_count(snapshot))
        self._pane("#meter-cores").display = is_tall and bool(busy_of_cores(snapshot))
        step = self._pane("#last-step")
        step.entitle(last_step_title(snapshot))
        analysis = snapshot.analysis
        # Its phases, a device or the host, and the gaps; or a row that says why there are none.
        step.styles.height = 3 if analysis is None else 5 if analysis.has_gpu else 4

    def _chart(self, snapshot: Snapshot, meters: dict[str, Meter]) -> set[str]:
        """Chart the first meters that there are; without a GPU also the operators, where no list
        of them stands below. Returns what is charted."""
        chosen = [
            (name, partial(draw_at, meters[name], snapshot), METERS[name][1])
            for name in ("Step time", "GPU", "Data loader", "CPU", "Memory")
            if not meters[name].is_missing
        ]
        is_listed = snapshot.analysis is not None and not self.screen.has_class("-wide")
        if meters["GPU"].is_missing and is_listed:
            at = next((at for at, (name, *_) in enumerate(chosen) if name == "CPU"), len(chosen))
            chosen.insert(at, ("Top operators", partial(operators, snapshot), ""))
        self._opens = tuple(opens for _, _, opens in chosen)
        for at in range(MOST_CHARTS):
            pane = self.query_one(f"#chart-{at}", RowView)
            pane.display = at < len(chosen)
            if pane.display:
                name, make, _ = chosen[at]
                pane.entitle(name)
                pane.draw(make)
        shown = chosen[:MOST_CHARTS]
        self.query_one("#charts").styles.grid_size_columns = max(1, len(shown))
        return {name for name, *_ in shown}

    @on(events.Click, ".chart")
    async def _open_chart(self, event: events.Click) -> None:
        at = int((event.control.id or "-").rpartition("-")[2]) if event.control else 0
        if self._opens[at]:
            await self.run_action(f"app.study('{self._opens[at]}')")

    @property
    def meter_rows(self) -> int:
        """Rows that the meters take, without a border."""
        panes = self.query_one("#meters").children
        heights = (pane.styles.height for pane in panes if pane.display)
        return sum(int(height.value) if height is not None else 1 for height in heights)

    def _pane(self, name: str) -> SnapshotPane:
        return self.query_one(name, SnapshotPane)


LONGEST = 3
"""Rows that the sentence may take, beside two of what to do; Diagnosis has the whole of it."""

NARROW = 70
"""Cells below which it takes one less: screens as narrow are mostly low as well."""


def headline(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """The state of affairs in one to three rows, then the next thing to do."""
    top = snapshot.diagnosis.top
    waits = waits_for_window(snapshot)
    name, text = verdict(snapshot)
    longest, most = (LONGEST, LONGEST + 2) if cells >= NARROW else (LONGEST - 1, LONGEST)
    rows = [*failure(snapshot, cells), *behind(row(name, " "), text, cells, "bold")][:longest]
    room = most - len(rows) - len(trial := _of_trial(snapshot, cells))
    last = [_hint(snapshot)] if top is None or waits else _answer(top, snapshot, cells, room)
    return [*rows, *last, *trial]


def _of_trial(snapshot: Snapshot, cells: int) -> list[Row]:
    """What is tried, and against which run; nothing where the run is no trial."""
    manifest = snapshot.manifest
    if manifest is None or not manifest.overrides or not manifest.parent:
        return []
    text = f", one run, against {printable(without_time(manifest.parent))}"
    text += hint("; {app.show('compare')} compares, and {compare.prove_fix} there proves it")
    tried = (printable(manifest.name or "a change"), "bold")
    return [crop(row(label("TRIAL", "accent"), " ", tried, text), cells)]


def _answer(top: Finding, snapshot: Snapshot, cells: int, room: int) -> list[Row]:
    found = next_thing(snapshot)
    advice = found.by_hand if found and found.todo is Todo.NOTHING else top.advice
    if advice and (found is None or found.todo in (Todo.TRY, Todo.NOTHING)):
        keys = row("  ", _key("overview.why"), " why")
        is_own = found is not None and found.finding is top and found.option.is_triable
        if is_own:
            keys = (*row("  ", _key("overview.try_fix"), " try the fix"), *keys)
        *rows, line = _advice(advice, keys, cells, room)
        return [*rows, line if is_own else _with_other_fix(line, snapshot, cells)]
    if found is not None:
        return [_of_fix(found, top, snapshot, cells)]
    if top.severity is Severity.HEALTHY or top.rule == COMPUTE_BOUND_ID:
        shows = (" nothing stands out; ", _screen("ops"), " shows the ops")
        return [row(label("NEXT", "dim"), *shows)]
    line = row(label("DO THIS", "accent"), " ", _key("overview.why"), " shows why, and what to do")
    return [_with_other_fix(line, snapshot, cells)]


def _advice(text: str, keys: Row, cells: int, room: int) -> list[Row]:
    """The advice with its keys in up to ``room`` rows, cut to one where it needs more."""
    before = row(label("DO THIS", "accent"), " ")
    *rows, last = behind(before, text, cells, "bold")
    if width(last) + width(keys) > cells:
        rows, last = [*rows, last], row(" " * (width(before) - 2))
    if len(rows) < room:
        return [*rows, (*last, *keys)]
    return [(*crop((*before, (text, "bold")), cells - width(keys)), *keys)]


def _with_other_fix(line: Row, snapshot: Snapshot, cells: int) -> Row:
    """The row with the fix of another finding that can be tried, where it fits whole."""
    found = next_try(snapshot)
    if found is None or not found.option.is_triable:
        return line
    tries = row("   ", _key("overview.try_fix"), f" tries {found.option.title}")
    ways = [(*line, *tries, *of) for of in _for(found.finding, snapshot)]
    return _longest(ways, cells) or line


def _of_fix(found: NextThing, top: Finding, snapshot: Snapshot, cells: int) -> Row:
    """What is known of the fix, and the keys to go on with it, as far as they fit."""
    option, proof, why = found.option, found.proof, _key("overview.why")
    line = row(label(found.todo.value, "accent"), " ", (option.title, "bold"))
    gain, style = found.finding.gain, "good"
    if proof is not None:
        gain, style = proof.headline, proof_style(proof)
    elif gain and Risk.CORES in option.risks:
        gain = f"{found.finding.gain_mark}, few idle cores"
    # A wide interval gives way to the keys.
    short, line = line, (*line, (f"   {gain}" if gain else "", style))
    if found.todo is not Todo.TRY:
        lines = (line, (*short, (f"   {gain.partition(',')[0]}", style)))
        endings = [row("  ", why, hint(text)) for text in _THEN[found.todo]]
        return _longest([(*one, *ending) for one in lines for ending in endings], cells) or line
    others: list[Row] = _for(found.finding, snapshot) if found.finding is not top else [()]
    tries = row("  ", _key("overview.try_fix"), " try it") if option.is_triable else ()
    ways = [(*line, *of, *tries, *row("  ", why, " why")) for of in others]
    return _longest([*ways, (*line, *tries)], cells) or line


_THEN = {
    Todo.RUN: (" shows it  {overview.rerun} runs it  {overview.undo_fix} undoes it", " shows it"),
    Todo.WRITE: (" then {diagnosis.write_fix} writes it", " shows it"),
    Todo.LOOK: (" shows what else there is", " shows more"),
}
"""What the key that opens Diagnosis leads to; the shorter one where there is less room."""


def _for(finding: Finding, snapshot: Snapshot) -> list[Row]:
    """What a fix is for, and nothing where there is no room for it."""
    number = snapshot.diagnosis.findings.index(finding) + 1
    return [row(f" for finding {number}"), ()]


def _longest(ways: Sequence[Row], cells: int) -> Row | None:
    """The first that fits whole."""
    return next((line for line in ways if width(line) <= cells), None)


def _hint(snapshot: Snapshot) -> Row:
    if snapshot.is_memory_alone:
        return row(label("DO THIS", "accent"), " ", _screen("memory"), " allocations by call site")
    if snapshot.phase is Phase.TRACE:
        screens = (_screen("timeline"), " the timeline  ", _screen("ops"), " the ops")
        return row(label("DO THIS", "accent"), " ", *screens)
    if snapshot.phase.is_live or waits_for_window(snapshot):
        return row(label("MEANWHILE", "dim"), " ", _screen("log"), " the script's output")
    if snapshot.manifest is not None and snapshot.manifest.message:
        return row(label("REASON", "warn"), " ", snapshot.manifest.message)
    return row(label("DO THIS", "accent"), " ", _screen("log"), " the script's last output")


def _key(action: str) -> Span:
    return (shown_key(action), "key")


def _screen(name: str) -> Span:
    return _key(f"app.show('{name}')")


LISTED = 50
"""Gaps that can be reached from the list; the timeline has them all."""


class GapList(SnapshotPane):
    """Sums by cause, then the gaps, of which one is selected; a click on one opens it."""

    selected: reactive[int] = reactive(0, init=False, repaint=False)
    """Which gap, from 0, the longest."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(self._draw_gaps, id=id, title="GPU idle")

    @property
    def gap(self) -> Gap | None:
        """The selected gap; None where the trace has none."""
        gaps = self._gaps()
        return gaps[min(self.selected, len(gaps) - 1)] if gaps else None

    def move(self, step: int) -> None:
        """Select the next gap (1) or the one before (-1)."""
        self.selected = max(0, min(len(self._gaps()) - 1, self.selected + step))

    def watch_selected(self) -> None:
        """Mark another gap, and keep it in sight."""
        self._redraw()
        top, height = self.scroll_offset.y, self.content_size.height
        at = self.selected + len(self._causes()) if self.selected else 0
        if not top <= at < top + height:
            self.scroll_to(y=max(0, at - height + 1), animate=False)

    async def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        at = self.scroll_offset.y + place.y - len(self._causes()) if place is not None else -1
        if 0 <= at < len(self._gaps()):
            self.selected = at
            await self.run_action("screen.show_gap")

    def _gaps(self) -> tuple[Gap, ...]:
        snapshot = self._snapshot
        return snapshot.analysis.gaps[:LISTED] if snapshot and snapshot.analysis else ()

    def _causes(self) -> tuple[IdleOfCause, ...]:
        from perftui.facts.gpu.idle import idle_by_cause

        return (self._snapshot.ask(idle_by_cause) or ()) if self._snapshot else ()

    def _draw_gaps(self, snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG002
        """A row for each cause, then one for each gap, longest first."""
        analysis, gaps = snapshot.analysis, self._gaps()
        if analysis is None or not gaps:
            return [row(("no gap between GPU activities in this trace", "dim"))]
        many = len({gap.device for gap in gaps}) > 1
        rows = [
            row(" ", cause_text(idle, f"GPU {idle.device}" if many else ""))
            for idle in self._causes()
        ]
        for at, gap in enumerate(gaps):
            mark = (">", "accent") if at == self.selected else (" ", "")
            device = f"GPU {gap.device}" if many else ""
            rows.append(row(mark, gap_text(gap, analysis.trace, device)))
        return [crop(one, cells - 1) for one in rows]
