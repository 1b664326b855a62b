"""The Diagnosis screen: each finding in full, with its evidence, and what can be done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from textual import events, on
from textual.containers import Container, Vertical
from textual.geometry import Region
from textual.reactive import reactive
from textual.widget import Widget

from perftui import format as fmt
from perftui.diagnosis.diagnose import TimelinePlace, timeline_place
from perftui.diagnosis.model import Finding, Severity
from perftui.diagnosis.rules import answer_to
from perftui.experiments.journal import Proof
from perftui.facts.gpu.host_waits import syncs
from perftui.fixes.option import FixOption
from perftui.report.wording import main_thread, sync_calls
from perftui_tui.actions.clipboard import copy_text
from perftui_tui.dialogs.choice import Prose, labelled
from perftui_tui.dialogs.experiment import diff_rows, risk
from perftui_tui.keys.own_keys import bindings, hint, shown_key
from perftui_tui.look.format import date_and_time, quantity
from perftui_tui.look.rows import Row, Span, crop, fold, row, with_fitting, wrap
from perftui_tui.panes.meter import SnapshotPane
from perftui_tui.panes.step_bar import step_bar, top_ops
from perftui_tui.panes.verdict import LEGEND, headlines, proof_style, verdict, waits_for_window
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.widgets.row_view import RowView

INDENT = " " * 8
"""Before what stands behind a label, ``Cost`` or ``Write``."""


def _told(label: str, text: str, cells: int) -> list[Row]:
    return labelled(Prose(text, label=f"{label:<{len(INDENT)}}"), cells)


def _fixes(snapshot: Snapshot, options: Sequence[FixOption], chosen: int, cells: int) -> list[Row]:
    """Each fix, the chosen one with what to write, its risk and its proof."""
    chosen = min(chosen, len(options) - 1)
    rows: list[Row] = []
    for at, option in enumerate(options):
        proof = snapshot.proof(option)
        mark, style = (">", "accent") if at == chosen else (" ", "")
        label = f"{'' if at else 'Write':<{len(INDENT) - 2}}"
        title = crop(row((label, "dim"), (f"{mark} {option.title}", style)), cells)
        rows.append(with_fitting(title, _figures(option, proof, at == chosen), cells))
        if at == chosen:
            rows += _option(option, proof, cells)
    if len(options) > 1:
        keys = hint("{diagnosis.choose_fix(-1)} and {diagnosis.choose_fix(1)} choose among these")
        rows.append(row((INDENT + keys, "dim")))
    return rows


def _figures(option: FixOption, proof: Proof | None, is_chosen: bool) -> list[Span]:
    """What stands behind the title of a fix: what was measured of it, of those not chosen its risk,
    its place."""
    figures: list[Span] = [("written", "good")] if option.is_written else []
    if proof is not None and not is_chosen:
        figures.append((proof.headline, proof_style(proof)))
    if option.risks and not is_chosen:
        figures.append((f"risk: {', '.join(each.value for each in option.risks)}", "warn"))
    if option.file and option.line:
        figures.append((f"{option.file}:{option.line}", "dim"))
    return figures


def _option(option: FixOption, proof: Proof | None, cells: int) -> list[Row]:
    # Of a diff, which is shown in full before it is written, the place stands in the title.
    lines = (
        [row(line) for line in option.advice.splitlines()]
        if option.patch is None
        else [each for each in diff_rows(option.patch)[2:] if each[0][1] in ("insert", "delete")]
    )
    rows = [row(INDENT, *folded) for line in lines for folded in fold(line, cells - len(INDENT))]
    if option.is_written:
        text = "written to the source: {diagnosis.undo_fix} undoes it, {diagnosis.rerun} runs it"
        rows.append(row(INDENT, (hint(text), "good")))
    elif option.why_not:
        rows += wrap(option.why_not, cells, "warn", INDENT)
    tries = ["{diagnosis.try_fix} tries it", "{diagnosis.prove_fix} proves it"]
    can = tries if option.is_triable else []
    if option.patch and not option.is_written:
        can.append("{diagnosis.write_fix} writes it")
    if can:
        rows.append(row(INDENT, (hint("  ".join(can)), "accent")))
    if option.is_possible:
        rows += labelled(risk(option.risks, INDENT), cells)
    return rows if proof is None else [*rows, *_proof(proof, cells)]


def _proof(proof: Proof, cells: int) -> list[Row]:
    """On how many pairs the result rests, from when it is, and what disturbed it."""
    when = date_and_time(proof.measured_ns)
    label = f"{INDENT}Proof "
    text = f"{proof.headline}, by {fmt.several(len(proof.pairs), 'pair')} of runs, {when}"
    rows = labelled(Prose(text, proof_style(proof), label=label), cells)
    for note in proof.notes:
        rows += wrap(note, cells, "warn", " " * len(label))
    return rows


LABEL_WIDTH = 24
"""Cells for the names of rules, and of facts where none is longer."""


def listing(snapshot: Snapshot, selected: int, cells: int) -> list[Row]:
    """A row for each finding, the selected one marked, then how much is unknown."""
    found = snapshot.diagnosis.findings
    selected = min(selected, len(found) - 1)
    rows: list[Row] = []
    for at, finding in enumerate(found):
        mark = (">", "accent") if at == selected else (" ", "")
        (whole,) = headlines(finding, snapshot, ANY_ROOM)
        rows.append(crop((mark, *whole), cells))
    if not rows:
        rows += wrap(verdict(snapshot)[1], cells, "dim")
    if found and waits_for_window(snapshot):
        rows += [(), *wrap(verdict(snapshot)[1], cells - 1, "accent", " ")]
    if snapshot.diagnosis.asking:
        rows += [(), *wrap(snapshot.diagnosis.asking, cells - 1, "dim", " ")]
    count = snapshot.diagnosis.rules_not_judged
    # Without a finding nothing is folded away.
    if count and found:
        why = f"could not judge: {shown_key('diagnosis.unfold')} shows why"
        rows += [(), row((f" {fmt.several(count, 'rule')} {why}", "dim"))]
    return rows


ANY_ROOM = 10_000
"""More rows than there ever are, and cells that hold any sentence in one row."""


def details(
    snapshot: Snapshot,
    finding: Finding | None,
    options: Sequence[FixOption],
    chosen: int,
    cells: int,
    room: int = ANY_ROOM,
    unfolded: bool | None = None,
    wrote: str = "",
) -> list[Row]:
    """What happens, what it costs, who ``wrote`` its line, and what to write; below that
    the evidence, folded away where ``unfolded`` says so, or where ``room`` rows are too few."""
    option = options[min(chosen, len(options) - 1)] if options else None
    evidence = list(_evidence(finding, option, cells)) if finding is not None else []
    evidence += [*_samples(snapshot, cells), *_not_judged(snapshot, cells)]
    if finding is None:
        # Each part begins with a blank row.
        return evidence[1:]
    rows = wrap(finding.headline, cells, "bold")
    rows += _told("Cost", _cost(finding, snapshot.proof_of(finding)), cells)
    rows += _told("Note", wrote, cells)
    if answer := answer_to(finding):
        rows += _told("Do", f"{answer}.", cells)
    rows += _fixes(snapshot, options, chosen, cells)
    if unfolded is None:
        unfolded = room - len(rows) - 2 >= min(EVIDENCE_ROWS, len(evidence))
    sign, does = (OPEN, "folds it") if unfolded else (FOLDED, "unfolds it")
    head = row((f"{sign} Evidence", "bold"), (f"   {shown_key('diagnosis.unfold')} {does}", "dim"))
    return [*rows, (), head, *(evidence if unfolded else ())]


OPEN, FOLDED = "▾", "▸"

EVIDENCE_ROWS = 5
"""With as many to spare, evidence is shown as far as it fits: the figures come first."""


def _samples(snapshot: Snapshot, cells: int) -> Iterator[Row]:
    """Where the main thread and the workers were, and the calls that wait, as in a report."""
    if snapshot.facts is not None:
        lists = (*main_thread(snapshot.facts), tuple(sync_calls(snapshot.ask(syncs))))
        for title, *lines in filter(None, lists):
            yield from ((), *wrap(title, cells, "bold"))
            yield from (crop(row(line), cells) for line in lines)


def _cost(finding: Finding, proof: Proof | None) -> str:
    """The time that is lost, what is gained without that, as measured if it was, and how sure it
    is."""
    parts = []
    if finding.cost_ns:
        # The same figures as in the sentence, with the same digits.
        told = fmt.part_of_step if finding.steps else fmt.part_of_trace
        parts.append(told(finding.cost_ns, finding.step_ns))
    if proof is not None:
        parts.append(f"{proof.headline} with a fix of it, measured")
    elif finding.gain:
        parts.append(f"{finding.gain} if this were fixed")
    # The memory of a device is sampled, not timed by steps.
    basis = " from the whole trace" if finding.step_ns else ""
    basis = f" from {fmt.several(finding.steps, 'steady step')}" if finding.steps else basis
    return "; ".join([*parts, f"{finding.confidence.value} confidence{basis}"])


def _evidence(finding: Finding, option: FixOption | None, cells: int) -> Iterator[Row]:
    """A row for each figure, of several with one label only the first has it; then what would make
    it more certain, and what the fix does."""
    labels = max((LABEL_WIDTH, *(len(fact.shown_label) for fact in finding.facts)))
    before = ""
    for fact in finding.facts:
        label, value = fact.shown_label, quantity(fact.shown_value, fact.unit)
        threshold = fact.threshold
        limit = "" if threshold is None else f"   limit {quantity(threshold, fact.unit)}"
        below = threshold and not isinstance(fact.value, str) and fact.value < threshold
        if below and finding.severity is Severity.INFO:
            limit = limit.replace("limit", "a warning from")
        source = fact.place.source if fact.place else None
        place = f"   {source}" if source and source != value else ""
        name = f"  {'' if label == before else label:<{labels}} "
        told = row(value, (limit, "warn"), (place, "dim"))
        first, *more = fold(told, cells - len(name))
        yield from (((name, "dim"), *first), *((("".ljust(len(name)), ""), *one) for one in more))
        before = label
    if finding.would_raise_confidence:
        yield from wrap(f"more certain with: {finding.would_raise_confidence}", cells, "dim", "  ")
    if option is not None and option.explanation:
        yield from ((), row(("The fix", "bold")), *wrap(option.explanation, cells, "", "  "))


def _not_judged(snapshot: Snapshot, cells: int) -> list[Row]:
    not_judged = snapshot.diagnosis.not_judged
    if not not_judged:
        return []
    rows: list[Row] = [(), row(("Not judged, and why", "bold"))]
    # Before steady steps nearly all of them wait for some.
    is_named = snapshot.run is None or snapshot.diagnosis.steady_steps
    for reason, rules in not_judged.items():
        rows += wrap(reason, cells, indent="  ")
        names = ", ".join(rules) if is_named else fmt.several(len(rules), "rule")
        rows += wrap(names, cells, "dim", indent="    ")
    return rows


class DiagnosisScreen(RunScreen):
    """A list of findings, and the selected one in full."""

    NAME = "diagnosis"
    SAYS_VERDICT = False
    HELP = (
        "Of each finding what happens and where, what it costs each step and what that gains at "
        "most (Amdahl: step / (step - cost)), and what to write there. {diagnosis.unfold} unfolds "
        "the evidence: its numbers with the limits they exceed, and the rules that could not "
        "judge. {diagnosis.try_fix} tries a fix without touching the source: in a single run, or "
        "with pairs of runs until the gain is certain; {app.trial} shows a trial. "
        "{diagnosis.tune} tries all fixes one by one and writes those that are proven. "
        "{diagnosis.write_fix} shows a diff and writes it; {diagnosis.undo_fix} undoes it."
    )
    BINDINGS = bindings("diagnosis")

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text()

    selected: reactive[str] = reactive("", init=False, repaint=False)
    """The rule of the selected finding; what is not there (any more) stands for the first. Each
    picture is ranked anew: a place in the list may be that of another finding a second later."""
    chosen: reactive[str] = reactive("", init=False, repaint=False)
    """Which of its fixes, by its name as well."""
    unfolded: reactive[bool | None] = reactive(None, init=False, repaint=False)
    """Whether the evidence is shown; None where that is left to the room there is."""
    watch_chosen = watch_unfolded = RunScreen.redraw
    _shown_at: TimelinePlace | None = None
    """Where the evidence of the selected finding is on the timeline."""

    def body(self) -> Iterable[Widget]:
        """The list and the details; on a large screen where the time goes, below the list."""
        side = Vertical(
            RowView(id="finding-list"),
            SnapshotPane(step_bar, id="finding-step", title="Mean step"),
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
        """Also what can do nothing with the selected finding and its chosen fix."""
        useless, option = super().useless_actions(), self.option
        if option is None or not option.is_triable:
            useless |= {"try_fix", "prove_fix"}
        if option is None or option.patch is None or option.is_written:
            useless |= {"write_fix"}
        return useless if self._shown_at else useless | {"show_evidence"}

    @property
    def _options(self) -> tuple[FixOption, ...]:
        return self.snapshot.fixes(self.finding) if self.snapshot and self.finding else ()

    @property
    def _names(self) -> list[str]:
        """The rule of each finding, numbered where it has several."""
        rules = [finding.rule for finding in self._findings]
        return [f"{rule}{rules[:at].count(rule) or ''}" for at, rule in enumerate(rules)]

    @property
    def _at(self) -> int:
        return _place(self.selected, self._names)

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
        listed.entitle("Findings", LEGEND if self._findings else "")
        cells, room = detailed.content_size.width - 1, detailed.content_size.height
        chosen = self._options, self._chosen_at
        wrote = self.session.source_fixes.wrote(snapshot.run, self.finding)
        detailed.rows = details(snapshot, self.finding, *chosen, cells, room, self.unfolded, wrote)
        if {"-tall", "-wide"} <= self.classes:
            for pane in self.walk_children(SnapshotPane):
                pane.show(snapshot)
        count = len(snapshot.diagnosis.findings)
        title = f"{self._at + 1}/{count}  {self.finding.rule}" if self.finding else "No finding"
        detailed.entitle(title)
        self._shown_at = timeline_place(one, snapshot.analysis) if (one := self.finding) else None
        self.refresh_keys()

    def watch_selected(self) -> None:
        """Show another finding from its beginning."""
        self.chosen = ""
        self.query_one("#finding-details", RowView).scroll_home(animate=False)
        self.redraw()
        listed = self.query_one("#finding-list", RowView)
        self.call_after_refresh(listed.scroll_to_region, Region(0, self._at, 1, 1), animate=False)

    def action_select(self, step: int) -> None:
        if self._findings:
            at = max(0, min(len(self._findings) - 1, self._at + step))
            self.selected = self._names[at]

    def action_choose_fix(self, step: int) -> None:
        if self._options:
            self.chosen = self._options[(self._chosen_at + step) % len(self._options)].fix

    @on(events.Click, "#finding-details")
    def action_unfold(self) -> None:
        """Show the evidence, from its first row on, or fold it away."""
        pane = self.query_one("#finding-details", RowView)
        heads = {line[0][0][:1]: at for at, line in enumerate(pane.rows) if line}
        self.unfolded = OPEN not in heads
        to = heads.get(FOLDED, 0)
        self.call_after_refresh(pane.scroll_to, y=to, animate=False)

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
        gain = proof.headline if proof is not None else ""
        self.session.source_fixes.write(option, gain, self.finding)

    def action_show_evidence(self) -> None:
        if self._shown_at is None:
            self.notify("no place on the timeline shows this evidence", severity="warning")
        else:
            self.session.go_to_place(*self._shown_at)

    def action_copy_fix(self) -> None:
        if self.option is None or self.option.patch is None:
            self.notify("no patch to copy", severity="warning")
        else:
            copy_text(self.app, self.option.patch.diff(), "the patch")


def _place(name: str, names: Sequence[str]) -> int:
    """Where ``name`` is among ``names``, 0 where it is not there."""
    return names.index(name) if name in names else 0
