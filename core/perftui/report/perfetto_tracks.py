"""What a report adds to a trace: steps with their phases, idle time by cause, and findings."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from perftui.analysis.model import StepParts, TraceAnalysis
from perftui.analysis.steps import OPERATORS, find_phases
from perftui.analysis.timeline.tracks import device_label
from perftui.diagnosis.catalogue import answer_to
from perftui.diagnosis.claims import place_of
from perftui.diagnosis.model import Finding
from perftui.facts.gpu.gap_times import recorded
from perftui.facts.step.trace_steps import trace_steps
from perftui.report.chrome_events import Span, without_crossing
from perftui.report.finding_json import severity_name
from perftui.report.gap_sources import GapSources
from perftui.report.report import Report
from perftui.run.columns import phase_name


@dataclass(frozen=True)
class SpanTrack:
    """Spans of one thread, by start; each lies within the ones before it or behind them."""

    name: str
    spans: Sequence[Span]


def span_tracks(report: Report, analysis: TraceAnalysis) -> Iterator[SpanTrack]:
    """The tracks that have spans, in drawing order."""
    yield from _tracks("steps", [*_steps(analysis), *_phases(analysis)])
    gaps = _gaps(report, analysis)
    for device in sorted(gaps):
        yield from _tracks(f"{device_label(analysis.trace, device)} idle", gaps[device])
    yield from _tracks("findings", list(_findings(report, analysis)))


def _tracks(name: str, spans: Sequence[Span]) -> Iterator[SpanTrack]:
    for number, fitting in enumerate(without_crossing(spans), 1):
        yield SpanTrack(name if number == 1 else f"{name} {number}", fitting)


def _steps(analysis: TraceAnalysis) -> Iterator[Span]:
    """Steps as the host takes them, with the parts of each as the judged device takes it."""
    parts: dict[int, StepParts] = {one.step.row: one for one in analysis.step_parts}
    for step in analysis.steps:
        known = parts.get(step.row)
        args = {f"{phase_name(name)} (ns)": time for name, time in known.parts} if known else {}
        yield Span(f"step {step.index}", step.start, step.end, args)


def _phases(analysis: TraceAnalysis) -> Iterator[Span]:
    """Phases of the main thread, cut where a step begins or ends, so that they lie within it."""
    edges = sorted({time for step in analysis.steps for time in (step.start, step.end)})
    for name, times in find_phases(analysis.trace).items():
        if name == OPERATORS:
            continue
        for start, end in zip(times.start.tolist(), times.end.tolist(), strict=True):
            inner = edges[bisect_right(edges, start) : bisect_right(edges, end - 1)]
            for begin, stop in pairwise((start, *inner, end)):
                yield Span(phase_name(name), begin, stop)


def _gaps(report: Report, analysis: TraceAnalysis) -> Mapping[int, Sequence[Span]]:
    """Gaps by device, each named by its cause."""
    found: dict[int, list[Span]] = {}
    sources = GapSources(report.facts)
    for gap in analysis.gaps:
        at = sources.of(gap)
        args = {"line": at.line, "operator": at.operator, "phase": phase_name(gap.phase) or None}
        span = Span(gap.cause.value, gap.start, gap.end, {**args, "step": at.step})
        found.setdefault(gap.device, []).append(span)
    return found


def _findings(report: Report, analysis: TraceAnalysis) -> Iterator[Span]:
    """Each finding over the place that it names or claims, else over the judged steps."""
    steps = trace_steps.or_none(report.facts)
    whole = recorded(report.facts)
    if steps is not None and steps.steps:
        whole = steps.each[0].step.start, steps.each[-1].step.end
    for finding in report.diagnosis.findings:
        place = place_of(finding, analysis)
        start, end = place[:2] if place else whole
        yield Span(finding.rule, start, end, _about(finding))


def _about(finding: Finding) -> dict[str, Any]:
    place = finding.place
    return {
        "severity": severity_name(finding),
        "sentence": finding.headline,
        "cost per step (ns)": finding.cost_ns or None,
        "share of the step": finding.share or None,
        "confidence": finding.confidence.value,
        "line": place.source if place else None,
        "operator": place.operator if place else None,
        "what to do": answer_to(finding.rule) or None,
    }
