"""Where on the timeline a finding is to be seen."""

from __future__ import annotations

import numpy as np

from perftui.analysis.model import TraceAnalysis
from perftui.diagnosis.claims import rows_of
from perftui.diagnosis.model import Finding
from perftui.diagnosis.rules import BY_ID

TimelinePlace = tuple[int, int, "int | None"]
"""Start and end in ns since the trace's start, and a trace row to select."""


def place_of(finding: Finding, analysis: TraceAnalysis | None) -> TimelinePlace | None:
    """The place that a figure of ``finding`` names, else the longest interval that its rule claims,
    or None. Of idle time only the listed gaps are looked at, the longest ones."""
    for figure in finding.facts:
        place = figure.place
        if place is not None and place.start is not None and place.end is not None:
            return place.start, place.end, place.trace_row
    rule = BY_ID.get(finding.rule)
    if analysis is None or rule is None:
        return None
    gap = next((gap for gap in analysis.gaps if gap.cause is rule.claims.idle), None)
    if gap is not None:
        return gap.start, gap.end, None
    rows = rows_of(rule.claims, analysis)
    if not len(rows):
        return None
    row = int(rows[np.argmax(analysis.trace.duration[rows])])
    start = int(analysis.trace.start[row])
    return start, start + int(analysis.trace.duration[row]), row
