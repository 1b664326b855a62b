"""Which time of a trace a finding is about, where it is to be seen, and which findings agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from perftui.analysis.intervals import EMPTY, Intervals, intersect, union
from perftui.analysis.model import TraceAnalysis
from perftui.diagnosis.model import Finding
from perftui.diagnosis.rule import Claim
from perftui.diagnosis.rules import BY_ID
from perftui.facts.gpu.gaps import gap_times
from perftui.trace.model import KERNEL

TimelinePlace = tuple[int, int, "int | None"]
"""Start and end in ns since the trace's start, and a trace row to select."""

PHASE_MARKS = {"input_wait": ("perftui::input_wait", "enumerate(DataLoader)")}
"""Beginnings of the ranges that stand for a phase, where that is not our own mark alone."""

MOSTLY = 0.8
"""Share of a finding's time from which on another finding about it is the same."""


def without_repeats(findings: Sequence[Finding], analysis: TraceAnalysis | None) -> list[Finding]:
    """Leave out a finding whose time a more specific one, earlier in ``findings``, claims already.

    The specific one takes over the worse of the two severities.
    """
    kept: list[Finding] = []
    for finding in findings:
        claim = BY_ID[finding.rule].claims
        claims = [BY_ID[one.rule].claims for one in kept]
        same = [at for at, one in enumerate(claims) if _covers(one, claim, analysis)]
        if not same:
            kept.append(_rest_of(finding, kept, analysis))
            continue
        worst = max(kept[same[0]].severity, finding.severity)
        kept[same[0]] = replace(kept[same[0]], severity=worst)
    return kept


def _rest_of(
    finding: Finding, specific: Sequence[Finding], analysis: TraceAnalysis | None
) -> Finding:
    """``finding`` at the cost that is left of it: what more specific ones claim a part of is theirs
    as far as their own cost goes."""
    whole = claimed(BY_ID[finding.rule].claims, analysis) if analysis else EMPTY
    if analysis is None or not whole.total:
        return finding
    left = finding.cost_ns
    for one in specific:
        both = intersect(claimed(BY_ID[one.rule].claims, analysis), whole).total
        left -= min(finding.cost_ns * both // whole.total, one.cost_ns)
    return replace(finding, cost_ns=max(left, 0))


def _covers(specific: Claim, general: Claim, analysis: TraceAnalysis | None) -> bool:
    """Whether ``specific`` claims most of the time that ``general`` claims."""
    if specific == general:
        return general != Claim()
    if analysis is None:
        return False
    mine, theirs = claimed(specific, analysis), claimed(general, analysis)
    return bool(theirs.total) and intersect(mine, theirs).total >= MOSTLY * theirs.total


def claimed(claim: Claim, analysis: TraceAnalysis) -> Intervals:
    """All time of a trace that is claimed: idle time of a device where a cause is named and there
    is any, else that of the phase's ranges or of the kernels. Worked out once for each trace."""
    known = analysis.worked_out.get(claim)
    if not isinstance(known, Intervals):
        known = analysis.worked_out[claim] = _intervals(claim, analysis)
    return known


def _intervals(claim: Claim, analysis: TraceAnalysis) -> Intervals:
    gaps = gap_times(analysis).get(claim.idle) if claim.idle else None
    if gaps:
        return union(gaps.start, gaps.end)
    rows = rows_of(claim, analysis)
    return union(analysis.trace.start[rows], analysis.trace.ends_of(rows)) if len(rows) else EMPTY


def rows_of(claim: Claim, analysis: TraceAnalysis) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Rows of the claimed phase's ranges, or of the claimed kernels."""
    trace = analysis.trace
    marks = PHASE_MARKS.get(claim.phase, (f"perftui::{claim.phase}",) if claim.phase else ())
    accepts = claim.kernels
    names = [
        at
        for at, name in enumerate(trace.names)
        if (marks and name.startswith(marks)) or (accepts and accepts(name))
    ]
    chosen = np.isin(trace.name, np.array(names, dtype=np.int64))
    if accepts:
        chosen &= trace.in_category(KERNEL)
    return np.flatnonzero(chosen).astype(np.int64)


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
