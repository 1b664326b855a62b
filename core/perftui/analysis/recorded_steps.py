"""The steps of a run as a trace, before any window was profiled."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from perftui.analysis.analyse import without_tables
from perftui.analysis.kinds import OWN_MARK
from perftui.analysis.merged_ranks import overview_tracks
from perftui.analysis.model import Step, TraceAnalysis
from perftui.analysis.timeline.track import TimelineTrack
from perftui.run.columns import PHASES
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table, consistent_rows
from perftui.trace.model import ANNOTATION, NONE, Trace, Track

ONLY_STEPS = "perftui.onlySteps"
"""Metadata key of such a trace: the number of steps."""

_STEP = "step"
"""Name of a training step; other kinds of steps prefix it with their kind."""


def recorded_steps(run: RunSnapshot) -> TraceAnalysis | None:
    """A track for each rank with its steps, and the phases in each; None before the first step.

    Only the sum of each phase of a step is recorded: phases are drawn one after the other, in the
    order of ``PHASES``, so their lengths are exact and their places are not. Steps whose phases do
    not sum to them have none.
    """
    ranks = [rank for rank in run.ranks if len(rank.steps)]
    if not ranks:
        return None
    origin = min(int(rank.steps["start"].min()) for rank in ranks)
    rows: list[_Row] = []
    for track, rank in enumerate(ranks):
        rows += _rows(rank.steps, origin, track, len(rows))
    names: dict[str, int] = {}
    label = np.array([names.setdefault(row.name, len(names)) for row in rows], np.int32)
    start, duration, of_track, parent = (
        np.array(column, dtype=np.int64) for column in list(zip(*rows, strict=True))[:-1]
    )
    none = np.full(len(rows), NONE, dtype=np.int64)
    trace = Trace(
        path=run.root,
        start=start,
        duration=duration,
        name=label,
        category=np.zeros(len(rows), dtype=np.int16),
        track=of_track.astype(np.int32),
        correlation=none,
        external_id=none,
        bytes=none,
        parent=parent.astype(np.int32),
        depth=(parent != NONE).astype(np.int16),
        names=tuple(names),
        categories=(ANNOTATION,),
        tracks=tuple(
            Track(str(rank.rank), "0", "", "steps", rank=rank.place if len(ranks) > 1 else NONE)
            for rank in ranks
        ),
        origin=origin,
        wall_origin=origin,
        metadata={ONLY_STEPS: sum(len(rank.steps) for rank in ranks)},
    )
    is_step, steps, tracks = trace.parent == NONE, [], list[TimelineTrack]()
    # Training steps of all ranks, rank by rank.
    for row in np.flatnonzero(is_step).tolist():
        word, _, number = trace.name_of(row).partition(" ")
        if word == _STEP:
            begin = int(trace.start[row])
            steps.append(Step(int(number), begin, begin + int(trace.duration[row]), row))
    for track in range(len(ranks)):
        here = trace.track == track
        kinds = np.flatnonzero(here & is_step), np.flatnonzero(here & ~is_step)
        tracks += overview_tracks(trace, track, *kinds)
    return replace(without_tables(trace), steps=tuple(steps), timeline_tracks=tuple(tracks))


class _Row(NamedTuple):
    start: int
    duration: int
    track: int
    parent: int
    name: str


def _rows(steps: Table, origin: int, track: int, first: int) -> list[_Row]:
    """The rows of one rank, starting at row ``first``, in the trace's order."""
    starts = (steps["start"] - origin).tolist()
    numbers, lengths = steps["index"].tolist(), steps["duration"].tolist()
    whole = consistent_rows(steps).tolist()
    phases = [steps[phase].tolist() for phase in PHASES]
    rows: list[_Row] = []
    for at in np.argsort(steps["start"], kind="stable").tolist():
        step, begin = first + len(rows), starts[at]
        kind = "" if steps["kind"][at] == "train" else f"{steps['kind'][at]} "
        rows.append(_Row(begin, lengths[at], track, NONE, f"{kind}{_STEP} {numbers[at]}"))
        for phase, times in zip(PHASES, phases, strict=True):
            if whole[at] and times[at] > 0:
                rows.append(_Row(begin, times[at], track, step, f"{OWN_MARK}{phase}"))
                begin += times[at]
    return rows
