"""The verdict in one row, for the head of every screen but the Overview, which says it whole."""

from __future__ import annotations

from perftui.diagnosis.model import Finding, Severity
from perftui_tui.look.rows import Row, Span, crop, row
from perftui_tui.reading.snapshot import Snapshot

LABEL_WIDTH = 12


def label(text: str, style: str) -> Span:
    """A word on a coloured ground, as wide as all others."""
    return (f" {text} ".ljust(LABEL_WIDTH), style)


READING = "the profiled window is being read; what it shows is judged then"


def waits_for_window(snapshot: Snapshot) -> bool:
    """Whether a window that is being read may yet say what the steps do not: nothing was found, or
    all seems well."""
    top = snapshot.diagnosis.top
    return snapshot.is_reading and (top is None or top.severity is Severity.HEALTHY)


def verdict_label(finding: Finding) -> Span:
    """How bad the finding is, in a word."""
    if finding.severity is Severity.HEALTHY:
        return label("HEALTHY", "good")
    if finding.severity is Severity.INFO:
        return label("NOTE", "warn")
    return label("BOTTLENECK", "bad")


def verdict_line(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """The first finding, or what is being waited for."""
    top = snapshot.diagnosis.top
    if waits_for_window(snapshot):
        return [crop(row(label("READING", "accent"), f" {READING}"), cells)]
    if top is not None:
        return [crop(row(verdict_label(top), f" {top.sentence}"), cells)]
    progress = snapshot.diagnosis.progress or "no verdict"
    return [crop(row(label("VERDICT", "dim"), (f" {progress}", "dim")), cells)]
