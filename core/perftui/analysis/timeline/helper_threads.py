"""Threads with next to no work, which one track can stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import union
from perftui.analysis.timeline.thread_roles import MAIN, thread_roles
from perftui.analysis.timeline.track import HELPERS, THREAD, TimelineTrack
from perftui.analysis.timeline.tracks import rank_prefix, united
from perftui.trace.model import Trace

NEXT_TO_NOTHING = 0.01
"""Share of the time of the trace that is covered by the events of such a thread, at most."""

FEWEST = 2
"""Threads that are worth a track for all of them: one has its own."""


@dataclass(frozen=True, eq=False)
class HelperThreads:
    """Threads of one rank (NONE where there is only one) that do next to nothing."""

    rank: int
    threads: frozenset[int]
    """Their numbers in ``Trace.tracks``."""
    track: TimelineTrack
    """What any of them does."""


def helper_threads(trace: Trace, tracks: Sequence[TimelineTrack]) -> tuple[HelperThreads, ...]:
    """The helper threads of each rank that has several; never the one that trains.

    A thread is one whose events cover less than ``NEXT_TO_NOTHING`` of the trace, from the first
    start to the last end.
    """
    by_thread: dict[int, list[TimelineTrack]] = {}
    for track in tracks:
        if track.kind == THREAD:
            by_thread.setdefault(track.track, []).append(track)
    if len(by_thread) <= FEWEST:
        return ()
    span = int(trace.ends_of(slice(None)).max() - trace.start.min())
    roles, found = thread_roles(trace), dict[int, list[int]]()
    for thread, own in by_thread.items():
        is_main = roles.get(thread, "").startswith(MAIN)
        if not is_main and _covered(own, NEXT_TO_NOTHING * span) < NEXT_TO_NOTHING * span:
            found.setdefault(trace.tracks[thread].rank, []).append(thread)
    return tuple(_together(trace, by_thread, found))


def _covered(tracks: Sequence[TimelineTrack], enough: float) -> float:
    """Time that the events of a thread cover; or of some of them, where that is ``enough``."""
    for track in tracks:
        alone = float(np.sum(track.index.end - track.index.start))
        if alone >= enough:
            return alone
    starts = np.concatenate([track.index.start for track in tracks])
    return float(union(starts, np.concatenate([track.index.end for track in tracks])).total)


def _together(
    trace: Trace, by_thread: dict[int, list[TimelineTrack]], found: dict[int, list[int]]
) -> Iterator[HelperThreads]:
    for rank, threads in found.items():
        if len(threads) >= FEWEST:
            rows = [each.index.rows.astype(np.int64) for t in threads for each in by_thread[t]]
            first = threads[0]
            label = f"{rank_prefix(trace.tracks[first])}{len(threads)} threads under 1 %"
            index = united(trace, np.concatenate(rows))
            track = TimelineTrack(label, HELPERS, first, 0, index)
            yield HelperThreads(rank, frozenset(threads), track)
