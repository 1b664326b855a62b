"""A trace for ui.perfetto.dev: the events of the original with the tracks of a report."""

from __future__ import annotations

import gzip
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import StepParts, TraceAnalysis
from perftui.analysis.steps import OPERATORS, find_phases
from perftui.analysis.timeline.tracks import device_label, track_label
from perftui.diagnosis.diagnose import timeline_place
from perftui.diagnosis.model import Finding
from perftui.diagnosis.rules import answer_to
from perftui.facts.gpu.idle import trace_span
from perftui.facts.step.trace_steps import trace_steps
from perftui.report.csv_tables import GapSources
from perftui.report.findings_as_json import severity_name
from perftui.report.output_text import encodable, map_texts
from perftui.report.report import Report
from perftui.run.columns import phase_name
from perftui.run.files import replacing
from perftui.trace.kineto.arguments import ArgumentReader
from perftui.trace.kineto.load import with_events
from perftui.trace.model import NONE, Trace

_ENCODER = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True)
class Span:
    """Something that lasts; times in ns since the trace's start 0."""

    name: str
    start: int
    end: int
    args: Mapping[str, Any] = field(default_factory=dict)
    """Figures and texts; None values are left out."""


def span_event(
    span: Span, process: int | str, thread: int | str, origin: int, category: str = "perftui"
) -> bytes:
    """A complete event in microseconds with three decimals, on the clock of the file."""
    return _encoded(
        ph="X",
        cat=category,
        name=span.name,
        pid=process,
        tid=thread,
        ts=Decimal(origin + span.start).scaleb(-3),
        dur=Decimal(span.end - span.start).scaleb(-3),
        args={name: value for name, value in span.args.items() if value is not None},
    )


def metadata_event(what: str, process: int | str, thread: int | str = 0, **args: Any) -> bytes:
    """An event about a process or a thread: its name, the text beside it, or its place."""
    return _encoded(ph="M", name=what, pid=process, tid=thread, args=args)


def without_crossing(spans: Iterable[Span]) -> Iterator[Sequence[Span]]:
    """Spread spans, by start and the longest first, greedily over few rows in which none cross: a
    thread draws spans within others, but none that outlast them."""
    lists: list[list[Span]] = []
    opened: list[list[int]] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        for ends in opened:
            while ends and ends[-1] <= span.start:
                ends.pop()
        at = next((at for at, ends in enumerate(opened) if not ends or span.end <= ends[-1]), None)
        if at is None:
            at = len(lists)
            lists.append([])
            opened.append([])
        lists[at].append(span)
        opened[at].append(span.end)
    return iter(lists)


def _encoded(**fields: Any) -> bytes:
    return _ENCODER.encode(map_texts(fields, encodable, encodable))


@dataclass(frozen=True)
class SpanTrack:
    """Spans of one thread, by start; each lies within an earlier one or behind it."""

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
    parts: dict[int, StepParts] = {row.step.row: row for row in analysis.step_parts}
    for step in analysis.steps:
        part = parts.get(step.row)
        args = {f"{phase_name(name)} (ns)": time for name, time in part.parts} if part else {}
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
    spans: dict[int, list[Span]] = {}
    sources = GapSources(report.facts)
    for gap in analysis.gaps:
        step, operator, line = sources.of(gap)
        args = {"line": line, "operator": operator, "phase": phase_name(gap.phase) or None}
        span = Span(gap.cause.value, gap.start, gap.end, {**args, "step": step})
        spans.setdefault(gap.device, []).append(span)
    return spans


def _findings(report: Report, analysis: TraceAnalysis) -> Iterator[Span]:
    """Each finding as a span over the place that it names or claims, else over the judged steps."""
    steps = trace_steps.or_none(report.facts)
    whole = trace_span(report.facts)
    if steps is not None and steps.steps:
        whole = steps.each[0].step.start, steps.each[-1].step.end
    for finding in report.diagnosis.findings:
        place = timeline_place(finding, analysis)
        start, end = place[:2] if place else whole
        yield Span(finding.rule, start, end, _args_of(finding))


def _args_of(finding: Finding) -> dict[str, Any]:
    place = finding.place
    return {
        "severity": severity_name(finding.severity),
        "sentence": finding.headline,
        "cost per step (ns)": finding.cost_ns or None,
        "share of the step": finding.share or None,
        "confidence": finding.confidence.value,
        "line": place.source if place else None,
        "operator": place.operator if place else None,
        "what to do": answer_to(finding) or None,
    }


PROCESS = "perftui"

_FIRST_NUMBER = 2**22 + 1
"""Beyond the numbers that Linux gives to processes."""

_LEVEL = 6
"""zlib's own choice: Kineto traces shrink to a tenth, at 30 MB/s."""


class PerfettoError(ValueError):
    """The trace cannot be written; the message says why."""


def write_perfetto(report: Report, path: Path) -> tuple[tuple[SpanTrack, ...], bool]:
    """Write the trace of ``report`` to ``path``, in gzip where it ends in ``.gz``. The tracks that
    were added to it, and whether all events of the original are there, not only the kernels.

    A Kineto trace is copied as it is, any other one gives its kernels, copies and sets. In a
    redacted report each text of a Kineto trace is redacted, and numbers keep all of their digits.

    Raises:
        RedactionError: something private would be left in it.
        PerfettoError: there is no trace, or ``path`` is a file that the report is made from.
        TraceError: the trace has changed since it was read.
        OSError: it cannot be written; a file of that name is then as it was.
    """
    analysis = report.subject.analysis
    if analysis is None:
        notes = "; ".join(report.subject.notes)
        raise PerfettoError(f"{report.subject.name} has no trace to write: {notes}")
    _check(report, analysis, path)
    trace, reader = analysis.trace, analysis.trace.read_arguments
    tracks = tuple(span_tracks(report, analysis))
    events = _events(tracks, trace, report.redaction.head if report.redaction else "")
    is_kineto = isinstance(reader, ArgumentReader)
    redaction = report.redaction
    if isinstance(reader, ArgumentReader):
        text = with_events(reader.source, events, redaction.plain if redaction else None)
    else:
        text = _document(trace, chain(events, _device_events(trace)))
    if redaction is not None:
        text = redaction.pieces(text)
    with replacing(path) as file:
        if path.name.lower().endswith(".gz"):
            with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
                packed.writelines(text)
        else:
            file.writelines(text)
    return tracks, is_kineto


def _check(report: Report, analysis: TraceAnalysis, path: Path) -> None:
    subject = report.subject
    read = (subject.path, analysis.trace.path, *(file for _, file in subject.beside))
    if not path.exists():
        return
    if any(file.exists() and path.samefile(file) for file in read):
        raise PerfettoError(f"{path} is the trace that is read: name another file")
    if subject.run is not None and path.resolve().is_relative_to(subject.run.root.resolve()):
        raise PerfettoError(f"{path} belongs to the run: name another file")


def _events(tracks: Iterable[SpanTrack], trace: Trace, labels: str) -> Iterator[bytes]:
    used = {track.process for track in trace.tracks}
    process = next(number for number in count(_FIRST_NUMBER) if str(number) not in used)
    yield metadata_event("process_name", process, name=PROCESS)
    # On top of all others.
    yield metadata_event("process_sort_index", process, sort_index=-1)
    if labels:
        yield metadata_event("process_labels", process, labels=labels)
    for thread, track in enumerate(tracks, 1):
        yield metadata_event("thread_name", process, thread, name=track.name)
        for span in track.spans:
            yield span_event(span, process, thread, trace.origin)


def _device_events(trace: Trace) -> Iterator[bytes]:
    """Kernels, copies and sets: a process for each device, a thread for each of its tracks."""
    rows = np.flatnonzero(kinds.device_activity(trace))
    tracks = {number: trace.tracks[number] for number in np.unique(trace.track[rows]).tolist()}
    for number, track in tracks.items():
        yield metadata_event("process_name", track.device, name=f"GPU {track.device}")
        yield metadata_event("thread_name", track.device, number, name=track_label(trace, number))
    for row in rows.tolist():
        number, start = int(trace.track[row]), int(trace.start[row])
        correlation, size = int(trace.correlation[row]), int(trace.bytes[row])
        args = {
            "device": tracks[number].device,
            "stream": _or_none(tracks[number].stream),
            "correlation": _or_none(correlation),
            "bytes": _or_none(size),
        }
        span = Span(trace.name_of(row), start, start + int(trace.duration[row]), args)
        category = trace.categories[int(trace.category[row])]
        yield span_event(span, tracks[number].device, number, trace.origin, category)


def _or_none(number: int) -> int | None:
    return None if number == NONE else number


def _document(trace: Trace, events: Iterable[bytes]) -> Iterator[bytes]:
    base = trace.wall_origin - trace.origin if trace.wall_origin is not None else None
    yield b"{" + (b'"baseTimeNanoseconds": %d, ' % base if base is not None else b"")
    yield b'"displayTimeUnit": "ms", "traceEvents": [\n'
    for number, event in enumerate(events):
        yield b",\n" + event if number else event
    yield b"\n]}\n"
