"""The list of findings, costliest first, as the overview shows it."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.diagnosis.model import Finding, Severity
from perftui.fixes.model import FixOption
from perftui_tui.keys.keymap import hint
from perftui_tui.look.rows import Row, Span, crop, row, width, wrap
from perftui_tui.panes.verdict import JUDGING, READING
from perftui_tui.reading.snapshot import Phase, Snapshot

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
        gain, style = f"{proof.ratio:.2f}x", "good" if proof.is_faster else "warn"
    before = (MARKS[finding.severity], (f" {gain:>7} ", style), confidence)
    first, *rest = wrap(finding.headline, cells, "", " " * width(before)) or [row("", "")]
    return [(*before, *first[1:]), *rest]


def findings(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """Two rows for each finding: the sentence, and the best fix."""
    rows: list[Row] = []
    for finding in snapshot.diagnosis.findings:
        rows += headlines(finding, snapshot, cells)
        options = snapshot.fixes(finding)
        if options:
            rows.append(crop(row(" " * FIX_INDENT, *_best_fix(options, snapshot)), cells))
    if not rows:
        rows = [row((_nothing_yet(snapshot), "dim"))]
    notes = _notes(snapshot)
    for problem in snapshot.problems:
        rows += wrap(problem, cells, "dim" if problem in notes else "warn")
    return rows[:height] if height else rows


def _best_fix(options: Sequence[FixOption], snapshot: Snapshot) -> list[Span]:
    """The fix that was written, or is proven to gain, or else the best that is possible here."""
    proofs = {option.fix: snapshot.proof(option) for option in options}
    written = (option for option in options if option.is_written)
    faster = (one for one in options if (found := proofs[one.fix]) and found.is_faster)
    possible = (option for option in options if option.is_possible)
    best = next(iter([*written, *faster, *possible]), options[0])
    if not best.is_written and not best.is_possible:
        return [("fix: ", "dim"), (f"{best.title} is not possible here", "")]
    found = proofs[best.fix]
    gain = [(f"   {found.headline}", "good" if found.is_faster else "warn")] if found else []
    return [("written: " if best.is_written else "fix: ", "dim"), (best.title, ""), *gain]


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
