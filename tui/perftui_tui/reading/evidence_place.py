"""Where on the timeline the evidence of a finding is to be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui.analysis.model import GapCause
from perftui.diagnosis.model import Finding

if TYPE_CHECKING:
    from perftui.analysis.model import TraceAnalysis

CAUSES = {
    "input-bound": GapCause.INPUT_WAIT,
    "input-in-main-thread": GapCause.INPUT_WAIT,
    "sync-bound": GapCause.SYNCHRONISATION,
    "launch-bound": GapCause.LAUNCH,
}
"""The gaps that a rule is about."""

INPUT_MARKS = ("perftui::input_wait", "enumerate(DataLoader)")
"""Beginnings of the ranges that stand for a wait for data, ours and the profiler's."""

Place = tuple[int, int, "int | None"]
"""Start and end in ns since the trace's start, and a trace row to select."""


def place_of(finding: Finding, analysis: TraceAnalysis | None) -> Place | None:
    """The place that a fact names, else the longest gap or wait of the kind, else None."""
    for fact in finding.facts:
        place = fact.place
        if place is not None and place.start is not None and place.end is not None:
            return place.start, place.end, place.trace_row
    cause = CAUSES.get(finding.rule)
    if analysis is None or cause is None:
        return None
    gap = next((gap for gap in analysis.gaps if gap.cause is cause), None)
    if gap is not None:
        return gap.start, gap.end, None
    return _longest_wait(analysis) if cause is GapCause.INPUT_WAIT else None


def _longest_wait(analysis: TraceAnalysis) -> Place | None:
    """The longest marked wait for data: on a machine without GPU there are no gaps."""
    import numpy as np

    trace = analysis.trace
    marks = [at for at, name in enumerate(trace.names) if name.startswith(INPUT_MARKS)]
    rows = np.flatnonzero(np.isin(trace.name, marks))
    if not len(rows):
        return None
    row = int(rows[np.argmax(trace.duration[rows])])
    start = int(trace.start[row])
    return start, start + int(trace.duration[row]), row
