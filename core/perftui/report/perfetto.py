"""A trace for ui.perfetto.dev: the events of the original with the tracks of a report."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.timeline.tracks import track_label
from perftui.report.chrome_events import (
    Span,
    process_event,
    process_labels,
    process_order,
    span_event,
    thread_event,
)
from perftui.report.perfetto_tracks import SpanTrack, span_tracks
from perftui.report.report import Report
from perftui.run.files import replacing
from perftui.trace.kineto.arguments import ArgumentReader
from perftui.trace.kineto.copy_text import with_events
from perftui.trace.model import NONE, Trace

PROCESS = "perftui"

_FIRST_NUMBER = 2**22 + 1
"""Beyond the numbers that Linux gives to processes."""

_LEVEL = 6
"""zlib's own choice: Kineto traces shrink to a tenth, at 30 MB/s."""


class PerfettoError(ValueError):
    """The trace cannot be written; the message says why."""


@dataclass(frozen=True)
class Written:
    """What was added to the trace."""

    tracks: tuple[SpanTrack, ...]
    has_original: bool
    """Whether all events of the original are there, or only the kernels."""


def write_perfetto(report: Report, path: Path) -> Written:
    """Write the trace of ``report`` to ``path``, in gzip where it ends in ``.gz``.

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
    return Written(tracks, is_kineto)


def _check(report: Report, analysis: TraceAnalysis, path: Path) -> None:
    subject = report.subject
    read = (subject.path, analysis.trace.path, *(one for _, one in subject.beside))
    if not path.exists():
        return
    if any(one.exists() and path.samefile(one) for one in read):
        raise PerfettoError(f"{path} is the trace that is read: name another file")
    if subject.run is not None and path.resolve().is_relative_to(subject.run.root.resolve()):
        raise PerfettoError(f"{path} belongs to the run: name another file")


def _events(tracks: Iterable[SpanTrack], trace: Trace, labels: str) -> Iterator[bytes]:
    known = {track.process for track in trace.tracks}
    process = next(
        number
        for number in range(_FIRST_NUMBER, _FIRST_NUMBER + len(known) + 1)
        if str(number) not in known
    )
    yield process_event(process, PROCESS)
    yield process_order(process, -1)
    if labels:
        yield process_labels(process, labels)
    for thread, track in enumerate(tracks, 1):
        yield thread_event(process, thread, track.name)
        for span in track.spans:
            yield span_event(span, process, thread, trace.origin)


def _device_events(trace: Trace) -> Iterator[bytes]:
    """Kernels, copies and sets: a process for each device, a thread for each of its tracks."""
    rows = np.flatnonzero(kinds.device_activity(trace))
    tracks = {number: trace.tracks[number] for number in np.unique(trace.track[rows]).tolist()}
    for number, track in tracks.items():
        yield process_event(track.device, f"GPU {track.device}")
        yield thread_event(track.device, number, track_label(trace, number))
    for row in rows.tolist():
        number, start = int(trace.track[row]), int(trace.start[row])
        correlation, size = int(trace.correlation[row]), int(trace.bytes[row])
        args = {
            "device": tracks[number].device,
            "stream": _known(tracks[number].stream),
            "correlation": _known(correlation),
            "bytes": _known(size),
        }
        span = Span(trace.name_of(row), start, start + int(trace.duration[row]), args)
        category = trace.categories[int(trace.category[row])]
        yield span_event(span, tracks[number].device, number, trace.origin, category)


def _known(number: int) -> int | None:
    return None if number == NONE else number


def _document(trace: Trace, events: Iterable[bytes]) -> Iterator[bytes]:
    base = trace.wall_origin - trace.origin if trace.wall_origin is not None else None
    yield b"{" + (b'"baseTimeNanoseconds": %d, ' % base if base is not None else b"")
    yield b'"displayTimeUnit": "ms", "traceEvents": [\n'
    for number, event in enumerate(events):
        yield b",\n" + event if number else event
    yield b"\n]}\n"
