"""The steps and the phases of one rank as events of a track of their own, to be drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps.phases import find_phases
from perftui.analysis.timeline.track import PHASES, STEPS, TimelineTrack
from perftui.analysis.timeline.track_index import TrackIndex
from perftui.analysis.timeline.tracks import rank_prefix, without_overlap
from perftui.trace.categories import DERIVED, PHASE, STEP
from perftui.trace.model import NONE, Int32, Int64, Ints, Trace, Track

_TRACK = Track("", "overview", "", "steps and phases")


def rank_overview(analysis: TraceAnalysis) -> TraceAnalysis:
    """The steps and ``find_phases`` of one rank, as a trace of one track on its own clock:
    a row for each step and each interval of a phase."""
    steps = analysis.steps
    phases = find_phases(analysis.trace)
    words = [*(f"step {step.index}" for step in steps), *phases]
    # One label for each step, and one for all intervals of a phase.
    lengths = [1 for _ in steps] + [len(each) for each in phases.values()]
    start = _column([[step.start for step in steps], *(each.start for each in phases.values())])
    end = _column([[step.end for step in steps], *(each.end for each in phases.values())])
    # The order of rows in every trace: by start, of those the longest first.
    order = np.lexsort((-end, start))
    names = {word: number for number, word in enumerate(dict.fromkeys(words))}
    name = np.repeat(np.array([names[word] for word in words], dtype=np.int32), lengths)
    is_phase = np.arange(len(start)) >= len(steps)
    kind = np.where(is_phase, DERIVED.index(PHASE), DERIVED.index(STEP)).astype(np.int16)
    trace = _trace(analysis.trace, start[order], end[order], name[order], kind[order], names)
    place = np.argsort(order, kind="stable")
    moved = tuple(replace(step, row=int(place[at])) for at, step in enumerate(steps))
    return TraceAnalysis(trace, moved, timeline_tracks=_tracks(trace))


def _column(parts: Sequence[Sequence[int] | Int64]) -> Int64:
    return np.concatenate([np.asarray(part, dtype=np.int64) for part in parts])


def _trace(
    of: Trace, start: Int64, end: Int64, name: Int32, kind: Ints, names: Iterable[str]
) -> Trace:
    none = np.full(len(start), NONE, dtype=np.int64)
    return Trace(
        path=of.path,
        start=start,
        duration=end - start,
        name=name,
        category=kind,
        track=np.zeros(len(start), dtype=np.int32),
        correlation=none,
        external_id=none,
        bytes=none,
        parent=none.astype(np.int32),
        depth=np.zeros(len(start), dtype=np.int16),
        names=tuple(names),
        categories=DERIVED,
        tracks=(_TRACK,) if len(start) else (),
        origin=of.origin,
        wall_origin=of.wall_origin,
    )


def _tracks(trace: Trace) -> tuple[TimelineTrack, ...]:
    steps, phases = (np.flatnonzero(trace.in_category(each)) for each in (STEP, PHASE))
    return overview_tracks(trace, 0, steps, phases)


def overview_tracks(
    trace: Trace, track: int, steps: Int64, phases: Int64
) -> tuple[TimelineTrack, ...]:
    """The steps of one track of the trace, then its phases; steps of several threads may overlap,
    and get further tracks."""
    levels = [(kind, rows) for kind, every in ((STEPS, steps), (PHASES, phases))
              for rows in without_overlap(trace, every)]  # fmt: skip
    return tuple(
        TimelineTrack(
            f"{rank_prefix(trace.tracks[track])}{kind}", kind, track, depth, _index(trace, rows)
        )
        for depth, (kind, rows) in enumerate(levels)
    )


def _index(trace: Trace, rows: Int64) -> TrackIndex:
    return TrackIndex(rows.astype(np.int32), trace.start[rows], trace.ends_of(rows))
