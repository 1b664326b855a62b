"""The traces of several ranks as one, on one clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from perftui.analysis.analyse import without_tables
from perftui.analysis.merged_ranks.clocks import Evidence, RankClock
from perftui.analysis.merged_ranks.overview import rank_overview
from perftui.analysis.model import DeviceActivity, Gap, Step, TraceAnalysis
from perftui.analysis.timeline.track import TimelineTrack
from perftui.analysis.timeline.track_index import TrackIndex
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui.trace.model import NONE, Int64, Ints, Trace, Track

_Timed = TypeVar("_Timed", Step, Gap, DeviceActivity)


@dataclass(frozen=True)
class RankAnalysis:
    """What one rank has recorded, and the place of its clock."""

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
    """One analysis of all: rows, steps, tracks and gaps of every rank, step parts of the first.

    Of each rank come first a track of its steps and one of its phases, whose rows are those of
    ``rank_overview``; they repeat other rows. Devices get numbers of their own, as
    ranks on several hosts use the same; what they are called stays. Ids of launches are kept apart.
    Tables of operators and kernels are left empty: they are those of one rank each.
    """
    offsets = _offsets(parts)
    origin = min(offsets)
    shifts = [offset - origin for offset in offsets]
    overviews = [rank_overview(part.analysis) for part in parts]
    segments = _segments(parts, overviews, shifts)
    tracks, devices = _tracks(segments)
    trace = _trace(segments, tracks, origin if _share_a_clock(parts) else None)
    first = parts[0].analysis
    # A rank has two segments: its overview, and what it recorded.
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
            _moved_track(track, segment) for segment in segments for track in segment.tracks
        ),
        gaps=tuple(sorted(gaps, key=lambda gap: (-gap.duration, gap.start))),
        idle=tuple(
            replace(each, device=devices[segment.rank, each.device])
            for part, segment in zip(parts, recorded, strict=True)
            for each in part.analysis.idle
        ),
        steps=tuple(
            _moved_in_time(step, segment.shift, row=step.row + segment.row)
            for overview, segment in zip(overviews, of_overviews, strict=True)
            for step in overview.steps
        ),
        activity=tuple(
            _moved_in_time(each, segment.shift, device=devices[segment.rank, each.device])
            for part, segment in zip(parts, recorded, strict=True)
            for each in part.analysis.activity
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
        for trace, its in (shown, (recorded, drawn)):
            segments.append(_Segment(part.rank, trace, its, shift, row, track))
            row, track = row + len(trace), track + len(trace.tracks)
    return segments


def _offsets(parts: Sequence[RankAnalysis]) -> list[int]:
    """The time of each rank's zero on the clock of the first; without clocks all begin together."""
    if not _share_a_clock(parts):
        return [0 for _ in parts]
    return [(part.analysis.trace.wall_origin or 0) + part.clock.shift for part in parts]


def _share_a_clock(parts: Sequence[RankAnalysis]) -> bool:
    return all(part.clock.evidence is not Evidence.NO_CLOCK for part in parts)


def _tracks(
    segments: Sequence[_Segment],
) -> tuple[tuple[Track, ...], dict[tuple[int, int], int]]:
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
    """``clock`` is the time of zero on the clock that all share, if they do."""
    traces = [segment.trace for segment in segments]
    names, name = _together([each.names for each in traces], [each.name for each in traces])
    categories, category = _together(
        [each.categories for each in traces], [each.category for each in traces]
    )
    rows = [segment.row for segment in segments]
    first = traces[0]
    return Trace(
        path=first.path,
        start=np.concatenate([segment.trace.start + segment.shift for segment in segments]),
        duration=np.concatenate([each.duration for each in traces]),
        name=name,
        category=category,
        track=_moved([each.track for each in traces], [segment.track for segment in segments]),
        correlation=_apart([each.correlation for each in traces]),
        external_id=_apart([each.external_id for each in traces]),
        bytes=np.concatenate([each.bytes for each in traces]),
        parent=_moved([each.parent for each in traces], rows).astype(np.int32),
        depth=np.concatenate([each.depth for each in traces]),
        names=names,
        categories=categories,
        tracks=tracks,
        origin=first.origin if clock is None else clock,
        wall_origin=clock if first.wall_origin is not None else None,
        read_arguments=_reader(traces, rows),
    )


def _together(
    words: Sequence[tuple[str, ...]], columns: Sequence[Ints]
) -> tuple[tuple[str, ...], Any]:
    numbers: dict[str, int] = {}
    tables = [
        np.array([numbers.setdefault(word, len(numbers)) for word in each], dtype=np.int32)
        for each in words
    ]
    column = np.concatenate([t[c] for t, c in zip(tables, columns, strict=True)])
    return tuple(numbers), column


def _moved(columns: Sequence[Ints], offsets: Sequence[int]) -> Int64:
    """Numbers of rows or tracks, which begin anew in each trace."""
    moved = [
        np.where(column == NONE, NONE, column.astype(np.int64) + offset)
        for column, offset in zip(columns, offsets, strict=True)
    ]
    return np.concatenate(moved)


def _apart(columns: Sequence[Ints]) -> Int64:
    """Ids, offset so that no two traces share one."""
    largest = [int(column.max(initial=0)) for column in columns]
    return _moved(columns, _begins([each + 1 for each in largest]))


def _begins(lengths: Sequence[int]) -> list[int]:
    """Start offsets of concatenated arrays."""
    return [sum(lengths[:at]) for at in range(len(lengths))]


def _reader(traces: Sequence[Trace], rows: Sequence[int]) -> Callable[[int], Mapping[str, Any]]:
    def read(row: int) -> Mapping[str, Any]:
        at = int(np.searchsorted(rows, row, side="right")) - 1
        return traces[at].read_arguments(row - rows[at])

    return read


def _moved_track(track: TimelineTrack, segment: _Segment) -> TimelineTrack:
    index, shift = track.index, segment.shift
    moved = TrackIndex(
        (index.rows + segment.row).astype(np.int32),
        index.start + shift,
        index.end + shift,
        index.known,
    )
    label = f"rank {segment.rank} {track.label}"
    return replace(track, label=label, track=track.track + segment.track, index=moved)


def _gap(gap: Gap, shift: int, rows: int, device: int) -> Gap:
    def moved(row: int) -> int:
        return NONE if row == NONE else row + rows

    return _moved_in_time(
        gap,
        shift,
        device=device,
        previous_row=moved(gap.previous_row),
        next_row=moved(gap.next_row),
        launch_row=moved(gap.launch_row),
        operator_row=moved(gap.operator_row),
        wait_row=moved(gap.wait_row),
    )


def _moved_in_time(what: _Timed, shift: int, **others: Any) -> _Timed:
    return replace(what, start=what.start + shift, end=what.end + shift, **others)
