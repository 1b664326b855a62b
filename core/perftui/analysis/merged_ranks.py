"""The traces of several ranks as one, on one clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perftui.analysis.analyse import without_tables
from perftui.analysis.lane_index import LaneIndex
from perftui.analysis.lanes import Lane, build_lanes
from perftui.analysis.model import Gap, Step, TraceAnalysis
from perftui.analysis.rank_clocks import Evidence, RankClock
from perftui.trace.model import NONE, Int64, Ints, Trace, Track


@dataclass(frozen=True)
class RankAnalysis:
    """What one rank has recorded, and the place of its clock."""

    rank: int
    analysis: TraceAnalysis
    clock: RankClock


def merge_ranks(parts: Sequence[RankAnalysis]) -> TraceAnalysis:
    """One analysis of all: rows, lanes and gaps of every rank, steps and budgets of the first.

    Devices get numbers of their own, as ranks on several hosts use the same; what they are called
    stays. Ids of launches are kept apart. Tables of operators and kernels are left empty: they are
    those of one rank each.
    """
    offsets = _offsets(parts)
    origin = min(offsets)
    shifts = [offset - origin for offset in offsets]
    rows = _begins([len(part.analysis.trace) for part in parts])
    tracks, devices = _tracks(parts)
    trace = _trace(parts, shifts, rows, tracks, origin)
    bases = _begins([len(part.analysis.trace.tracks) for part in parts])
    lanes = [
        _lane(lane, shift, first_row, base, part.rank)
        for part, shift, first_row, base in zip(parts, shifts, rows, bases, strict=True)
        for lane in part.analysis.lanes or build_lanes(part.analysis.trace)
    ]
    gaps = [
        _gap(gap, shift, first_row, devices[part.rank, gap.device])
        for part, shift, first_row in zip(parts, shifts, rows, strict=True)
        for gap in part.analysis.gaps
    ]
    first = parts[0].analysis
    return replace(
        without_tables(trace),
        budgets=first.budgets,
        notes=first.notes,
        lanes=tuple(lanes),
        gaps=tuple(sorted(gaps, key=lambda gap: (-gap.duration, gap.start))),
        steps=tuple(_step(step, shifts[0]) for step in first.steps),
        activity=tuple(
            replace(
                each,
                device=devices[part.rank, each.device],
                start=each.start + shifts[at],
                end=each.end + shifts[at],
            )
            for at, part in enumerate(parts)
            for each in part.analysis.activity
        ),
    )


def _offsets(parts: Sequence[RankAnalysis]) -> list[int]:
    """The time of each rank's zero on the clock of the first; without clocks all begin together."""
    if not _share_a_clock(parts):
        return [0 for _ in parts]
    return [(part.analysis.trace.wall_origin or 0) + part.clock.shift for part in parts]


def _share_a_clock(parts: Sequence[RankAnalysis]) -> bool:
    return all(part.clock.evidence is not Evidence.NO_CLOCK for part in parts)


def _tracks(
    parts: Sequence[RankAnalysis],
) -> tuple[tuple[Track, ...], dict[tuple[int, int], int]]:
    devices: dict[tuple[int, int], int] = {}
    tracks = []
    for part in parts:
        for track in part.analysis.trace.tracks:
            device = track.device
            if track.is_device:
                device = devices.setdefault((part.rank, track.device), len(devices))
            tracks.append(
                replace(
                    track,
                    process=f"rank {part.rank} {track.process}",
                    device=device,
                    rank=part.rank,
                    own_device=track.device,
                )
            )
    return tuple(tracks), devices


def _trace(
    parts: Sequence[RankAnalysis],
    shifts: Sequence[int],
    rows: Sequence[int],
    tracks: tuple[Track, ...],
    origin: int,
) -> Trace:
    traces = [part.analysis.trace for part in parts]
    names, name = _together([each.names for each in traces], [each.name for each in traces])
    categories, category = _together(
        [each.categories for each in traces], [each.category for each in traces]
    )
    bases = _begins([len(each.tracks) for each in traces])
    first = traces[0]
    has_clock = _share_a_clock(parts)
    return Trace(
        path=first.path,
        start=np.concatenate([t.start + s for t, s in zip(traces, shifts, strict=True)]),
        duration=np.concatenate([each.duration for each in traces]),
        name=name,
        category=category,
        track=_moved([each.track for each in traces], bases),
        correlation=_apart([each.correlation for each in traces]),
        external_id=_apart([each.external_id for each in traces]),
        bytes=np.concatenate([each.bytes for each in traces]),
        parent=_moved([each.parent for each in traces], rows).astype(np.int32),
        depth=np.concatenate([each.depth for each in traces]),
        names=names,
        categories=categories,
        tracks=tracks,
        origin=origin if has_clock else first.origin,
        wall_origin=origin if has_clock and first.wall_origin is not None else None,
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
    """Ids of which those of one trace are none of another's."""
    largest = [int(column.max(initial=0)) for column in columns]
    return _moved(columns, _begins([each + 1 for each in largest]))


def _begins(lengths: Sequence[int]) -> list[int]:
    """Where each begins of what follows each other."""
    return [sum(lengths[:at]) for at in range(len(lengths))]


def _reader(traces: Sequence[Trace], rows: Sequence[int]) -> Callable[[int], Mapping[str, Any]]:
    def read(row: int) -> Mapping[str, Any]:
        at = int(np.searchsorted(rows, row, side="right")) - 1
        return traces[at].read_arguments(row - rows[at])

    return read


def _lane(lane: Lane, shift: int, rows: int, tracks: int, rank: int) -> Lane:
    index = lane.index
    moved = LaneIndex(
        (index.rows + rows).astype(np.int32), index.start + shift, index.end + shift, index.known
    )
    label = f"rank {rank} {lane.label}"
    return replace(lane, label=label, track=lane.track + tracks, index=moved)


def _gap(gap: Gap, shift: int, rows: int, device: int) -> Gap:
    def moved(row: int) -> int:
        return NONE if row == NONE else row + rows

    return replace(
        gap,
        device=device,
        start=gap.start + shift,
        end=gap.end + shift,
        previous_row=moved(gap.previous_row),
        next_row=moved(gap.next_row),
        launch_row=moved(gap.launch_row),
        operator_row=moved(gap.operator_row),
        wait_row=moved(gap.wait_row),
    )


def _step(step: Step, shift: int) -> Step:
    return replace(step, start=step.start + shift, end=step.end + shift)
