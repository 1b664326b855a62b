"""The list of findings, costliest first, as the overview shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui.diagnosis.model import Finding, Severity
from perftui_tui.keys.keymap import hint
from perftui_tui.look.rows import Row, Span, crop, row, width, wrap
from perftui_tui.panes.verdict import JUDGING, READING
from perftui_tui.reading.next_thing import NextThing, Todo, best_of
from perftui_tui.reading.snapshot import Phase, Snapshot

if TYPE_CHECKING:
    from perftui.experiments.proof import Proof

MARKS: dict[Severity, Span] = {
    Severity.CRITICAL: ("!!", "bad"),
    Severity.WARNING: ("! ", "warn"),
    Severity.INFO: ("· ", "dim"),
    Severity.HEALTHY: ("ok", "good"),
}

LEGEND = "  ".join(f"{MARKS[each][0].strip()} {each.name.lower()}" for each in Severity if each)
"""What the marks mean; that of a healthy run speaks for itself."""


FIX_INDENT = 18
"""Cells before the fix of a finding: as far in as its sentence."""


def headlines(finding: Finding, snapshot: Snapshot, cells: int) -> list[Row]:
    """One finding: mark, gain, confidence, and its whole sentence, wrapped under itself.

    The gain is the one that a fix of it was measured to have, where that is known."""
    confidence = (f"{finding.confidence.value:<7}", "dim")
    gain, style = finding.gain_mark, "bold"
    proof = snapshot.proof_of(finding)
    if proof is not None and proof.ratio is not None:
        gain, style = f"{proof.ratio:.2f}x", proof_style(proof)
    before = (MARKS[finding.severity], (f" {gain:>7} ", style), confidence)
    first, *rest = wrap(finding.headline, cells, "", " " * width(before)) or [row("", "")]
    return [(*before, *first[1:]), *rest]


def findings(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """Two rows for each finding: the sentence, and the best fix."""
    rows: list[Row] = []
    for finding in snapshot.diagnosis.findings:
        rows += headlines(finding, snapshot, cells)
        best = best_of(finding, snapshot)
        if best is not None:
            rows.append(crop(row(" " * FIX_INDENT, *_fix(best)), cells))
    if not rows:
        rows = [row((_nothing_yet(snapshot), "dim"))]
    notes = _notes(snapshot)
    for problem in snapshot.problems:
        rows += wrap(problem, cells, "dim" if problem in notes else "warn")
    return rows[:height] if height else rows


def _fix(best: NextThing) -> list[Span]:
    """The fix that is named below its finding, with what was measured of it."""
    if best.todo is Todo.NOTHING:
        return [("fix: ", "dim"), (f"{best.option.title} is not possible here", "")]
    word = "written: " if best.todo is Todo.RUN else "fix: "
    proof = best.proof
    gain = [(f"   {proof.headline}", proof_style(proof))] if proof is not None else []
    return [(word, "dim"), (best.option.title, ""), *gain]


def proof_style(proof: Proof) -> str:
    """How the result of a trial is drawn."""
    return "good" if proof.is_faster else "warn"


def _notes(snapshot: Snapshot) -> set[str]:
    """Problems about what a trace was recorded without, not about reading it."""
    if snapshot.phase is not Phase.TRACE or snapshot.analysis is None:
        return set()
    damage = {warning.message for warning in snapshot.analysis.trace.warnings}
    return set(snapshot.analysis.notes) - damage


def _nothing_yet(snapshot: Snapshot) -> str:
    if snapshot.is_memory_alone:
        return "no findings: a memory snapshot alone is not judged"
    if not snapshot.is_judged:
        return JUDGING
    if snapshot.is_reading:
        return READING
    if snapshot.phase.is_live:
        return snapshot.diagnosis.progress or "nothing to judge yet"
    not_judged = hint("{app.show('diagnosis')} shows what was not judged and why")
    return f"no finding: {snapshot.diagnosis.progress or not_judged}"
