"""The list of findings, costliest first, as the overview shows it."""

from __future__ import annotations

from perftui.diagnosis.model import Finding, Severity
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


def headlines(finding: Finding, cells: int) -> list[Row]:
    """One finding: mark, gain, confidence, and its whole sentence, wrapped under itself."""
    confidence = (f"{finding.confidence.value:<7}", "dim")
    before = (MARKS[finding.severity], (f" {finding.gain_mark:>7} ", "bold"), confidence)
    first, *rest = wrap(finding.headline, cells, "", " " * width(before)) or [row("", "")]
    return [(*before, *first[1:]), *rest]


def findings(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """Two rows for each finding: the sentence, and the best fix."""
    rows: list[Row] = []
    for finding in snapshot.diagnosis.findings:
        rows += headlines(finding, cells)
        options = snapshot.fixes(finding)
        if options:
            best = next((option for option in options if option.is_possible), options[0])
            text = best.title if best.is_possible else f"{best.title} is not possible here"
            rows.append(crop(row((" " * 18 + "fix: ", "dim"), text), cells))
    if not rows:
        rows = [row((_nothing_yet(snapshot), "dim"))]
    notes = _notes(snapshot)
    for problem in snapshot.problems:
        rows += wrap(problem, cells, "dim" if problem in notes else "warn")
    return rows[:height] if height else rows


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
