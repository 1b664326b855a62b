"""The Diagnosis screen: each finding in full, with its evidence, and what can be done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from textual.containers import Container, Vertical
from textual.geometry import Region
from textual.reactive import reactive
from textual.widget import Widget

from perftui import format as fmt
from perftui.diagnosis.diagnose import timeline_place
from perftui.diagnosis.model import Figure, Finding
from perftui.diagnosis.rules import answer_to
from perftui.experiments.journal import Proof
from perftui.experiments.trial_verdict import CONFIDENCE, is_tested
from perftui.facts.data_loader.batch_place import loader_lines
from perftui.facts.gpu.host_waits import syncs
from perftui.facts.gpu.idle import gap_lines
from perftui.facts.source.lines import LinesByTime, main_thread, window_thread
from perftui.fixes.option import FixOption
from perftui_tui.actions.clipboard import copy_text
from perftui_tui.dialogs.choice import Prose, labelled
from perftui_tui.dialogs.experiment import diff_rows, risk
from perftui_tui.keys.own_keys import bindings, hint, shown_key
from perftui_tui.look.format import date_and_time, format_ns, quantity, share
from perftui_tui.look.rows import Row, Span, crop, fold, row, with_fitting, wrap
from perftui_tui.panes.meter import SnapshotPane
from perftui_tui.panes.step_bar import step_parts, top_ops
from perftui_tui.panes.verdict import LEGEND, headlines, proof_style
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.widgets.row_view import RowView

INDENT = "     "


def fix_rows(
    snapshot: Snapshot, finding: Finding, options: Sequence[FixOption], chosen: int, cells: int
) -> list[Row]:
    """Each fix with its gain, the chosen one in full."""
    if not options:
        return [row(("Fix", "bold")), row(("  no known fix for this", "dim"))]
    chosen = min(chosen, len(options) - 1)
    several = hint("Fixes ({diagnosis.choose_fix(-1)} and {diagnosis.choose_fix(1)} choose)")
    rows = [row(("Fix" if len(options) == 1 else several, "bold"))]
    for at, option in enumerate(options):
        proof = snapshot.proof(option)
        mark, style = (">", "accent") if at == chosen else (" ", "")
        title = crop(row((f" {mark} {option.title}", style)), cells)
        rows.append(with_fitting(title, _figures(finding, option, proof, at == chosen), cells))
        if at == chosen:
            rows += _option(option, proof, cells)
    return rows


def _figures(
    finding: Finding, option: FixOption, proof: Proof | None, is_chosen: bool
) -> list[Span]:
    """What stands behind the title of a fix: its gain, of those not chosen its risk, its place."""
    figures: list[Span] = [("written", "good")] if option.is_written else []
    if proof is not None:
        figures.append((proof.headline, proof_style(proof)))
    elif option.is_possible and finding.gain:
        figures.append((finding.gain, ""))
    if option.risks and not is_chosen:
        figures.append((f"risk: {', '.join(each.value for each in option.risks)}", "warn"))
    if option.file and option.line:
        figures.append((f"{option.file}:{option.line}", "dim"))
    return figures


def _option(option: FixOption, proof: Proof | None, cells: int) -> list[Row]:
    rows = wrap(option.explanation, cells, "", INDENT)
    if option.is_possible:
        rows += labelled(risk(option.risks, INDENT), cells)
    if proof is not None:
        rows += _proof(proof, cells)
    elif option.is_triable:
        rows += labelled(Prose("none yet", "dim", label=f"{INDENT}Proof "), cells)
    tries = ["{diagnosis.try_fix} tries it", "{diagnosis.prove_fix} proves it"]
    can = tries if option.is_triable else []
    if option.patch and not option.is_written:
        can.append("{diagnosis.write_fix} writes it")
    if can:
        rows.append(row(INDENT, (hint("  ".join(can)), "accent")))
    if option.is_written:
        text = "written to the source: {diagnosis.undo_fix} undoes it, {diagnosis.rerun} runs it"
        rows.append(row(INDENT, (hint(text), "good")))
    elif option.why_not:
        rows += wrap(option.why_not, cells, "warn", INDENT)
    lines = [row(line) for line in option.advice.splitlines()]
    lines += diff_rows(option.patch) if option.patch is not None else []
    return rows + [row(INDENT, *folded) for line in lines for folded in fold(line, cells - 5)]


def _proof(proof: Proof, cells: int) -> list[Row]:
    """On how many pairs the result rests, from when it is, and what disturbed it."""
    when = date_and_time(proof.measured_ns)
    label = f"{INDENT}Proof "
    has_interval = proof.ratio is not None and is_tested(len(proof.pairs))
    sure = f", {fmt.percent(CONFIDENCE)} confidence" if has_interval else ""
    pairs = fmt.several(len(proof.pairs), "pair")
    text = f"{proof.headline}{sure}, by {pairs} of runs, {when}"
    rows = labelled(Prose(text, proof_style(proof), label=label), cells)
    for note in proof.notes:
        rows += wrap(note, cells, "warn", " " * len(label))
    return rows


LABEL_WIDTH = 24
"""Cells for the names of rules, and of facts where none is longer."""

NO_FIX_FOR_A_TRACE = (
    "A trace shows what was slow, not which code caused it. Record the training itself with "
    "`perftui train.py` to try and measure fixes here."
)


def listing(snapshot: Snapshot, selected: int, cells: int) -> list[Row]:
    """Each finding, the selected one marked at its left edge, then how much is unknown."""
    found = snapshot.diagnosis.findings
    selected = min(selected, len(found) - 1)
    rows: list[Row] = []
    for at, finding in enumerate(found):
        blank = (" ", "")
        first, *rest = headlines(finding, snapshot, cells - 1)
        mark = (">", "accent") if at == selected else blank
        rows += [(mark, *first), *((blank, *line) for line in rest)]
    if not rows:
        rows.append(row((snapshot.diagnosis.progress or "nothing was found", "dim")))
    if snapshot.diagnosis.asking:
        rows += [(), *wrap(snapshot.diagnosis.asking, cells - 1, "dim", " ")]
    count = snapshot.diagnosis.rules_not_judged
    if count:
        text = f" {fmt.several(count, 'rule')} could not judge: see the end of the details"
        rows += [(), row((text, "dim"))]
    return rows


def details(
    snapshot: Snapshot,
    finding: Finding | None,
    options: Sequence[FixOption],
    chosen: int,
    cells: int,
) -> list[Row]:
    """Everything about ``finding``, to be scrolled."""
    rows: list[Row] = []
    if finding is not None:
        rows += wrap(finding.headline, cells, "bold")
        rows += [row(("Cost", "bold")), *_cost(finding, snapshot.proof_of(finding), cells)]
        answer = answer_to(finding)
        if answer:
            rows += [row(("What to do", "bold")), *wrap(f"{answer}.", cells, "", "  ")]
        if snapshot.run is None:
            rows += [row(("Fix", "bold")), *wrap(NO_FIX_FOR_A_TRACE, cells, "dim", "  ")]
        else:
            rows += fix_rows(snapshot, finding, options, chosen, cells)
        rows += _evidence(finding.facts, cells)
    more = [*_main_thread(snapshot, cells), *_syncs(snapshot, cells), *_not_judged(snapshot, cells)]
    # Each of these begins with a blank row.
    return [*rows, *more] if rows else more[1:]


def _main_thread(snapshot: Snapshot, cells: int) -> list[Row]:
    rows: list[Row] = []
    for fact, when in ((main_thread, "in the steady steps"), (window_thread, "in profiled steps")):
        thread = snapshot.ask(fact)
        if thread is not None:
            samples = f"about {fmt.several(thread.samples, 'sample')} {when}"
            rows += _lines("Where the main thread is", samples, thread, cells)
    found = snapshot.ask(loader_lines)
    if found is not None:
        samples = f"about {fmt.several(found.making.samples, 'sample')}"
        samples = f"{fmt.percent(found.busy)} of their time, {samples}"
        rows += _lines("Where the workers make batches", samples, found.making, cells)
    for gaps in snapshot.ask(gap_lines) or ():
        samples = f"{fmt.several(gaps.thread.samples, 'sample')}, of {format_ns(gaps.idle)}"
        title = f"Where the main thread was while the GPU idled, {gaps.cause.value}"
        rows += _lines(title, samples, gaps.thread, cells)
    return rows


def _lines(title: str, samples: str, thread: LinesByTime, cells: int) -> list[Row]:
    rows: list[Row] = [(), crop(row((title, "bold"), (f"   {samples}", "dim")), cells)]
    for line in thread.listed:
        part = f"  {share(line.held, thread.covered):>6}  "
        inside = f"  {line.function}" if line.function else ""
        rows.append(crop(row(part, line.source, (inside, "dim")), cells))
    return rows


def _syncs(snapshot: Snapshot, cells: int) -> list[Row]:
    found = snapshot.ask(syncs)
    if found is None:
        return []
    over = f"   over {fmt.several(found.steps, 'profiled step')}"
    rows: list[Row] = [(), crop(row((found.title, "bold"), (over, "dim")), cells)]
    if not found.on_gpu:
        rows.append(row(("  this training used no GPU, so nothing waited", "dim")))
    for call in found.calls:
        often = f"  {call.count / found.steps:>6.1f} a step  "
        time = f"{format_ns(call.time // found.steps) if call.time >= 0 else '?':>7}  "
        rows.append(crop(row(often, time, f"{call.call}  ", (call.source, "dim")), cells))
    return rows if found.calls else [*rows, row(("  none", "dim"))]


def _cost(finding: Finding, proof: Proof | None, cells: int) -> list[Row]:
    rows = []
    if finding.cost_ns:
        step = format_ns(finding.step_ns)
        whole = f"each {step} step" if finding.steps else f"the recorded {step}"
        part = share(finding.cost_ns, finding.step_ns)
        rows.append(row(f"  {format_ns(finding.cost_ns)} of {whole} ({part})"))
    if finding.gain:
        estimated = "" if proof is None else " (estimated)"
        style = "good" if proof is None else "dim"
        rows.append(row((f"  {finding.gain} if this were fixed{estimated}", style)))
    rows.append(row(f"  confidence {finding.confidence.value}", (_basis(finding), "dim")))
    if finding.would_raise_confidence:
        rows += wrap(f"more certain with: {finding.would_raise_confidence}", cells, "dim", "  ")
    return rows


def _basis(finding: Finding) -> str:
    """What the confidence rests on; the memory of a device is sampled, not timed by steps."""
    if finding.steps:
        return f"  (from {fmt.several(finding.steps, 'steady step')})"
    return "  (from the whole trace)" if finding.step_ns else ""


def _evidence(facts: Sequence[Figure], cells: int) -> Iterator[Row]:
    """A row for each, under a heading; of several with one label only the first has it."""
    if facts:
        yield row(("Evidence", "bold"))
    labels = max((LABEL_WIDTH, *(len(fact.shown_label) for fact in facts)))
    before = ""
    for fact in facts:
        label, value = fact.shown_label, quantity(fact.shown_value, fact.unit)
        threshold = fact.threshold
        limit = "" if threshold is None else f"   limit {quantity(threshold, fact.unit)}"
        source = fact.place.source if fact.place else None
        place = f"   {source}" if source and source != value else ""
        name = f"  {'' if label == before else label:<{labels}} "
        yield crop(row((name, "dim"), value, (limit, "warn"), (place, "dim")), cells)
        before = label


def _not_judged(snapshot: Snapshot, cells: int) -> list[Row]:
    not_judged = snapshot.diagnosis.not_judged
    if not not_judged:
        return []
    rows: list[Row] = [(), row(("Not judged, and why", "bold"))]
    for reason, rules in not_judged.items():
        rows += wrap(reason, cells, indent="  ")
        rows += wrap(", ".join(rules), cells, "dim", indent="    ")
    return rows


FIX_KEYS = {
    "try_fix": "try",
    "prove_fix": "prove",
    "tune": "tune",
    "write_fix": "write",
    "undo_fix": "undo",
    "rerun": "run again",
}

FRAME_ROWS = 2
"""The border around a pane."""


class DiagnosisScreen(RunScreen):
    """A list of findings, and the selected one in full."""

    NAME = "diagnosis"
    HELP = (
        "Every finding with its numbers, the limits they exceed, its cost per step, and the best "
        "possible speed-up from removing it (Amdahl: step / (step - cost)). Below are its fixes, "
        "each with its gain, risk and proof. {diagnosis.try_fix} tries one without touching the "
        "source: in a single run, or with pairs of runs, with it and without, until the gain is "
        "certain; {app.trial} shows the progress of a trial, and the result stays with the fix. "
        "{diagnosis.tune} tries all fixes one by one and writes those that are proven. "
        "{diagnosis.write_fix} shows a fix as a diff and writes it; {diagnosis.undo_fix} restores "
        "the source byte for byte. At the end are the rules that could not judge, and why."
    )
    BINDINGS = bindings("diagnosis")

    DEFAULT_CSS = """
    DiagnosisScreen {
        #diagnosis { height: 1fr; }
        #finding-list { height: auto; max-height: 8; border: round $chart; }
        #finding-side { height: auto; }
        #finding-step, #finding-ops { border: round $chart; display: none; }
        #finding-ops { height: 1fr; }
        #finding-details {
            height: 1fr; border: round $chart; scrollbar-gutter: stable; padding: 0 1;
        }
    }
    DiagnosisScreen.-tall #finding-list { max-height: 10; }
    DiagnosisScreen.-wide {
        #diagnosis { layout: horizontal; }
        #finding-side { width: 80; height: 1fr; }
        #finding-list { height: 1fr; max-height: 100%; }
        #finding-details { width: 1fr; }
    }
    DiagnosisScreen.-tall.-wide {
        #finding-list { height: auto; max-height: 50%; }
        #finding-step, #finding-ops { display: block; }
    }
    """

    selected: reactive[str] = reactive("", init=False, repaint=False)
    """The rule of the selected finding; what is not there (any more) stands for the first. Each
    picture is ranked anew: a place in the list may be that of another finding a second later."""
    chosen: reactive[str] = reactive("", init=False, repaint=False)
    """Which of its fixes, by its name as well."""
    watch_chosen = RunScreen.redraw

    def body(self) -> Iterable[Widget]:
        """The list and the details; on a large screen where the time goes, below the list."""
        side = Vertical(
            RowView(id="finding-list"),
            SnapshotPane(step_parts, id="finding-step", title="Mean step"),
            SnapshotPane(top_ops, id="finding-ops", title="Top ops"),
            id="finding-side",
        )
        yield Container(side, RowView(id="finding-details"), id="diagnosis")

    @property
    def finding(self) -> Finding | None:
        return self._findings[self._at] if self._findings else None

    @property
    def option(self) -> FixOption | None:
        return self._options[self._chosen_at] if self._options else None

    @property
    def _findings(self) -> tuple[Finding, ...]:
        return self.snapshot.diagnosis.findings if self.snapshot else ()

    def useless_actions(self) -> frozenset[str]:
        """Without a finding there is no evidence to go to."""
        useless = super().useless_actions()
        return useless if self._findings else useless | {"show_evidence"}

    @property
    def _options(self) -> tuple[FixOption, ...]:
        return self.snapshot.fixes(self.finding) if self.snapshot and self.finding else ()

    @property
    def _at(self) -> int:
        return _place(self.selected, [finding.rule for finding in self._findings])

    @property
    def _chosen_at(self) -> int:
        return _place(self.chosen, [option.fix for option in self._options])

    def refresh_state(self) -> None:
        """Select what somebody was led here for."""
        super().refresh_state()
        if self.is_composed and self.session.fix is not None:
            self.selected, self.chosen = self.session.fix
            self.session.fix = None

    def show(self, snapshot: Snapshot) -> None:
        listed = self.query_one("#finding-list", RowView)
        detailed = self.query_one("#finding-details", RowView)
        listed.rows = listing(snapshot, self._at, listed.content_size.width)
        listed.entitle("Findings, by what they cost", LEGEND if self._findings else "")
        cells = detailed.content_size.width - 1
        detailed.rows = details(snapshot, self.finding, self._options, self._chosen_at, cells)
        useless = self.useless_actions()
        fixes = "   ".join(
            f"{shown_key(f'diagnosis.{action}')} {label}"
            for action, label in FIX_KEYS.items()
            if action not in useless
        )
        if {"-tall", "-wide"} <= self.classes:
            for pane in self.walk_children(SnapshotPane):
                pane.show(snapshot)
            needed = len(step_parts(snapshot, self.size.width, self.size.height))
            self.query_one("#finding-step").styles.height = needed + FRAME_ROWS
        count = len(snapshot.diagnosis.findings)
        title = f"{self._at + 1}/{count}  {self.finding.rule}" if self.finding else "No finding"
        detailed.entitle(title, fixes)

    def watch_selected(self) -> None:
        """Show another finding from its beginning."""
        self.chosen = ""
        self.query_one("#finding-details", RowView).scroll_home(animate=False)
        self.redraw()
        self.call_after_refresh(self._show_selected)

    def _show_selected(self) -> None:
        """Scroll the list to the selected finding."""
        if self.snapshot is None:
            return
        listed = self.query_one("#finding-list", RowView)
        cells, shown = listed.content_size.width - 1, self.snapshot
        heights = [len(headlines(finding, shown, cells)) for finding in self._findings] or [1]
        region = Region(0, sum(heights[: self._at]), 1, heights[self._at])
        listed.scroll_to_region(region, animate=False)

    def action_select(self, step: int) -> None:
        if self._findings:
            at = max(0, min(len(self._findings) - 1, self._at + step))
            self.selected = self._findings[at].rule

    def action_choose_fix(self, step: int) -> None:
        if self._options:
            self.chosen = self._options[(self._chosen_at + step) % len(self._options)].fix

    def action_scroll_details(self, pages: int) -> None:
        pane = self.query_one("#finding-details", RowView)
        pane.scroll_relative(y=pages * max(1, pane.size.height - 2), animate=False)

    def action_try_fix(self) -> None:
        self.session.trials.offer(self.finding, self.option)

    def action_prove_fix(self) -> None:
        self.session.trials.offer(self.finding, self.option, proves=True)

    def action_tune(self) -> None:
        self.session.trials.offer_tuning()

    def action_write_fix(self) -> None:
        option, snapshot = self.option, self.snapshot
        proof = snapshot.proof(option) if option and snapshot else None
        self.session.source_fixes.write(option, proof.headline if proof is not None else "")

    def action_show_evidence(self) -> None:
        finding, snapshot = self.finding, self.snapshot
        place = timeline_place(finding, snapshot.analysis) if finding and snapshot else None
        if place is None:
            self.notify("this evidence is not in a profiled window", severity="warning")
        else:
            self.session.go_to_place(*place)

    def action_copy_fix(self) -> None:
        if self.option is None or self.option.patch is None:
            self.notify("no patch to copy", severity="warning")
        else:
            copy_text(self.app, self.option.patch.diff(), "the patch")


def _place(name: str, names: Sequence[str]) -> int:
    """Where ``name`` is among ``names``, 0 where it is not there."""
    return names.index(name) if name in names else 0
