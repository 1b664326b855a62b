"""Traces of ranks merged into one, on one clock."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np

from perftui.analysis.analyse import without_tables
from perftui.analysis.model import DeviceActivity, Gap, Step, TraceAnalysis
from perftui.analysis.steps import find_phases
from perftui.analysis.timeline.track import PHASES, STEPS, TimelineTrack, TrackIndex
from perftui.analysis.timeline.tracks import rank_prefix, timeline_tracks, without_overlap
from perftui.trace.model import DERIVED, NONE, PHASE, STEP, Int64, Ints, Trace, Track


class Evidence(enum.Enum):
    """Evidence for the position of a rank's events in time."""

    REFERENCE = "its clock is the reference"
    CONFIRMED = "by its own wall clock, which agrees with the collectives"
    SHIFTED = "shifted so that its collectives coincide with those of the others"
    UNCHECKED = "by its own wall clock; no collective to check it against"
    CONTRADICTED = "by its own wall clock, though no shift makes the collectives coincide"
    NO_CLOCK = "by its first event: its trace has no wall clock"


@dataclass(frozen=True)
class RankClock:
    """Where to put a rank's events on the clock of another."""

    shift: int
    """Nanoseconds to add to the rank's wall clock; meaningless with ``NO_CLOCK``."""
    evidence: Evidence
    bounds: tuple[int, int] | None = None
    """Bounds of the true shift, if collectives show it."""
    collectives: int = 0
    """Number of collectives in both traces."""


def rank_overview(analysis: TraceAnalysis) -> TraceAnalysis:
    """The steps and ``find_phases`` of one rank, as a trace of one track on its own clock: a row
    for each step and each interval of a phase."""
    steps = analysis.steps
    phases = find_phases(analysis.trace)
    words = [*(f"step {step.index}" for step in steps), *phases]
    # One label for each step, and one for all intervals of a phase.
    lengths = [1 for _ in steps] + [len(part) for part in phases.values()]
    start = _column([[step.start for step in steps], *(part.start for part in phases.values())])
    end = _column([[step.end for step in steps], *(part.end for part in phases.values())])
    # The order of rows in every trace: by start, then the longest first.
    order = np.lexsort((-end, start))
    names = {word: number for number, word in enumerate(dict.fromkeys(words))}
    name = np.repeat(np.array([names[word] for word in words], dtype=np.int32), lengths)
    is_phase = np.arange(len(start)) >= len(steps)
    kind = np.where(is_phase, DERIVED.index(PHASE), DERIVED.index(STEP)).astype(np.int16)
    of, none = analysis.trace, np.full(len(start), NONE, dtype=np.int64)
    trace = Trace(
        path=of.path,
        start=start[order],
        duration=(end - start)[order],
        name=name[order],
        category=kind[order],
        track=np.zeros(len(start), dtype=np.int32),
        correlation=none,
        external_id=none,
        bytes=none,
        parent=none.astype(np.int32),
        depth=np.zeros(len(start), dtype=np.int16),
        names=tuple(names),
        categories=DERIVED,
        tracks=(Track("", "overview", "", "steps and phases"),) if len(start) else (),
        origin=of.origin,
        wall_origin=of.wall_origin,
    )
    place = np.argsort(order, kind="stable")
    moved = tuple(replace(step, row=int(place[at])) for at, step in enumerate(steps))
    rows = (np.flatnonzero(trace.in_category(category)) for category in (STEP, PHASE))
    return TraceAnalysis(trace, moved, timeline_tracks=overview_tracks(trace, 0, *rows))


def _column(parts: Sequence[Sequence[int] | Int64]) -> Int64:
    return np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])


def overview_tracks(
    trace: Trace, track: int, steps: Int64, phases: Int64
) -> tuple[TimelineTrack, ...]:
    """Timeline tracks of one trace track: its steps, then its phases; overlapping steps of several
    threads get further tracks."""
    levels = [(kind, rows) for kind, every in ((STEPS, steps), (PHASES, phases))
              for rows in without_overlap(trace, every)]  # fmt: skip
    prefix = rank_prefix(trace.tracks[track]) if levels else ""
    return tuple(
        TimelineTrack(f"{prefix}{kind}", kind, track, depth, TrackIndex.of(trace, rows))
        for depth, (kind, rows) in enumerate(levels)
    )


_Timed = TypeVar("_Timed", Step, Gap, DeviceActivity)


@dataclass(frozen=True)
class RankAnalysis:
    """The analysis of one rank, and its clock."""

    rank: int
    analysis: TraceAnalysis
    clock: RankClock


@dataclass(frozen=True, eq=False)
class _Segment:
    """A trace whose rows become part of the merged ones, and its timeline tracks."""

    rank: int
    trace: Trace
    tracks: Sequence[TimelineTrack]
    shift: int
    """Nanoseconds to add to the rank's times."""
    row: int
    """The rank's first row."""
    track: int
    """The rank's first track."""


def merge_ranks(parts: Sequence[RankAnalysis]) -> TraceAnalysis:
    """One analysis of all ranks: rows, steps, tracks and gaps of each, step parts of the first.

    Each rank starts with a track of its steps and one of its phases, with the rows of
    ``rank_overview``; they repeat other rows. Devices get new numbers, as ranks on several hosts
    use the same ones; their names stay. Launch ids are kept apart. Tables of operators and kernels
    are left empty: each is of one rank.
    """
    # Each rank's zero on the first one's clock; without clocks all begin together.
    share_a_clock = all(part.clock.evidence is not Evidence.NO_CLOCK for part in parts)
    offsets = [(part.analysis.trace.wall_origin or 0) + part.clock.shift if share_a_clock else 0
               for part in parts]  # fmt: skip
    origin = min(offsets)
    shifts = [offset - origin for offset in offsets]
    overviews = [rank_overview(part.analysis) for part in parts]
    segments = _segments(parts, overviews, shifts)
    tracks, devices = _tracks(segments)
    trace = _trace(segments, tracks, origin if share_a_clock else None)
    first = parts[0].analysis
    # A rank has two segments: its overview, and its own trace.
    of_overviews, recorded = segments[::2], segments[1::2]
    gaps = [
        _gap(gap, segment.shift, segment.row, devices[segment.rank, gap.device])
        for part, segment in zip(parts, recorded, strict=True)
        for gap in part.analysis.gaps
    ]
    return replace(
        without_tables(trace),
        step_parts=first.step_parts,
        notes=first.notes,
        timeline_tracks=tuple(
            _shift_track(track, segment) for segment in segments for track in segment.tracks
        ),
        gaps=tuple(sorted(gaps, key=lambda gap: (-gap.duration, gap.start))),
        idle=tuple(
            replace(time, device=devices[segment.rank, time.device])
            for part, segment in zip(parts, recorded, strict=True)
            for time in part.analysis.idle
        ),
        steps=tuple(
            _shift(step, segment.shift, row=step.row + segment.row)
            for overview, segment in zip(overviews, of_overviews, strict=True)
            for step in overview.steps
        ),
        activity=tuple(
            _shift(device, segment.shift, device=devices[segment.rank, device.device])
            for part, segment in zip(parts, recorded, strict=True)
            for device in part.analysis.activity
        ),
    )


def _segments(
    parts: Sequence[RankAnalysis], overviews: Sequence[TraceAnalysis], shifts: Sequence[int]
) -> list[_Segment]:
    segments, row, track = [], 0, 0
    for part, overview, shift in zip(parts, overviews, shifts, strict=True):
        recorded = part.analysis.trace
        drawn = part.analysis.timeline_tracks or timeline_tracks(recorded)
        shown = overview.trace, overview.timeline_tracks
        for trace, drawn_tracks in (shown, (recorded, drawn)):
            segments.append(_Segment(part.rank, trace, drawn_tracks, shift, row, track))
            row, track = row + len(trace), track + len(trace.tracks)
    return segments


def _tracks(segments: Sequence[_Segment]) -> tuple[tuple[Track, ...], dict[tuple[int, int], int]]:
    devices: dict[tuple[int, int], int] = {}
    tracks = []
    for segment in segments:
        for track in segment.trace.tracks:
            device = track.device
            if track.is_device:
                device = devices.setdefault((segment.rank, track.device), len(devices))
            tracks.append(
                replace(
                    track,
                    process=f"rank {segment.rank} {track.process}",
                    device=device,
                    rank=segment.rank,
                    own_device=track.device,
                )
            )
    return tuple(tracks), devices


def _trace(segments: Sequence[_Segment], tracks: tuple[Track, ...], clock: int | None) -> Trace:
    """The merged trace; ``clock`` is the time of zero on a clock shared by all, if there is one."""
    traces = [segment.trace for segment in segments]
    names, name = _together([trace.names for trace in traces], [trace.name for trace in traces])
    categories, category = _together(
        [trace.categories for trace in traces], [trace.category for trace in traces]
    )
    rows = [segment.row for segment in segments]
    first = traces[0]

    def read(row: int) -> Mapping[str, Any]:
        at = int(np.searchsorted(rows, row, side="right")) - 1
        return traces[at].read_arguments(row - rows[at])

    return Trace(
        path=first.path,
        start=np.concatenate([segment.trace.start + segment.shift for segment in segments]),
        duration=np.concatenate([trace.duration for trace in traces]),
        name=name,
        category=category,
        track=_offset([trace.track for trace in traces], [segment.track for segment in segments]),
        correlation=_offset_ids([trace.correlation for trace in traces]),
        external_id=_offset_ids([trace.external_id for trace in traces]),
        bytes=np.concatenate([trace.bytes for trace in traces]),
        parent=_offset([trace.parent for trace in traces], rows).astype(np.int32),
        depth=np.concatenate([trace.depth for trace in traces]),
        names=names,
        categories=categories,
        tracks=tracks,
        origin=first.origin if clock is None else clock,
        wall_origin=clock if first.wall_origin is not None else None,
        read_arguments=read,
    )


def _together(
    words: Sequence[tuple[str, ...]], columns: Sequence[Ints]
) -> tuple[tuple[str, ...], Any]:
    numbers: dict[str, int] = {}
    tables = [
        np.array([numbers.setdefault(word, len(numbers)) for word in names], dtype=np.int32)
        for names in words
    ]
    return tuple(numbers), np.concatenate([t[c] for t, c in zip(tables, columns, strict=True)])


def _offset(columns: Sequence[Ints], offsets: Sequence[int]) -> Int64:
    """Row or track numbers, which restart at 0 in each trace, offset; NONE stays."""
    moved = [
        np.where(column == NONE, NONE, column.astype(np.int64) + offset)
        for column, offset in zip(columns, offsets, strict=True)
    ]
    return np.concatenate(moved)


def _offset_ids(columns: Sequence[Ints]) -> Int64:
    """Offset ids so that no two traces share one."""
    rooms = [int(column.max(initial=0)) + 1 for column in columns]
    return _offset(columns, [0, *accumulate(rooms[:-1])])


def _shift_track(track: TimelineTrack, segment: _Segment) -> TimelineTrack:
    index, shift = track.index, segment.shift
    rows = (index.rows + segment.row).astype(np.int32)
    moved = TrackIndex(rows, index.start + shift, index.end + shift)
    label = f"rank {segment.rank} {track.label}"
    return replace(track, label=label, track=track.track + segment.track, index=moved)


def _gap(gap: Gap, shift: int, rows: int, device: int) -> Gap:
    def moved(row: int) -> int:
        return NONE if row == NONE else row + rows

    return _shift(
        gap,
        shift,
        device=device,
        previous_row=moved(gap.previous_row),
        next_row=moved(gap.next_row),
        launch_row=moved(gap.launch_row),
        operator_row=moved(gap.operator_row),
        wait_row=moved(gap.wait_row),
    )


def _shift(what: _Timed, shift: int, **others: Any) -> _Timed:
    return replace(what, start=what.start + shift, end=what.end + shift, **others)
