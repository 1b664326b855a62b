"""The lanes of a timeline: rows of one track that do not overlap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.host import Host
from perftui.analysis.kinds import Mask
from perftui.analysis.lane import DEVICE, MARKS, THREAD, Lane
from perftui.analysis.lane_index import LaneIndex
from perftui.trace.model import NONE, Int64, Trace, Track

__all__ = ["DEVICE", "MARKS", "THREAD", "Lane", "build_lanes", "lane_label"]


def build_lanes(trace: Trace) -> tuple[Lane, ...]:
    """All lanes with a row: devices by stream, the main thread, other threads by when they start.

    A thread has a lane for each depth of its call stack; where rows of one depth overlap, as they
    do on some streams, further lanes take them.
    """
    main = Host(trace).main_track
    activity = kinds.device_activity(trace)
    bounds = np.searchsorted(trace.track, np.arange(len(trace.tracks) + 1))
    lanes: list[Lane] = []
    for number in _drawing_order(trace, bounds, main):
        rows = np.arange(bounds[number], bounds[number + 1])
        lanes += _lanes_of(trace, number, rows, activity)
    return tuple(lanes)


def _drawing_order(trace: Trace, bounds: Int64, main: int) -> list[int]:
    def place(number: int) -> tuple[int, int, int, int]:
        track = trace.tracks[number]
        if track.is_device:
            return 0, track.device, track.stream, number
        return (1 if number == main else 2), int(trace.start[bounds[number]]), 0, number

    filled = np.flatnonzero(bounds[1:] > bounds[:-1]).tolist()
    return sorted(filled, key=place)


def _lanes_of(trace: Trace, number: int, rows: Int64, activity: Mask) -> Iterator[Lane]:
    track = trace.tracks[number]
    label = lane_label(track)
    if track.is_device:
        works = activity[rows]
        yield from _stack(trace, number, label, DEVICE, [rows[works]])
        yield from _stack(trace, number, label, MARKS, [rows[~works]])
    else:
        depths = trace.depth[rows]
        levels = [rows[depths == depth] for depth in range(int(depths.max()) + 1)]
        yield from _stack(trace, number, label, THREAD, levels)


def _stack(trace: Trace, number: int, label: str, kind: str, levels: list[Int64]) -> Iterator[Lane]:
    depth = 0
    for level in levels:
        for rows in _without_overlap(trace, level):
            start = trace.start[rows]
            index = LaneIndex(rows.astype(np.int32), start, start + trace.duration[rows])
            yield Lane(label, kind, number, depth, index)
            depth += 1


def _without_overlap(trace: Trace, rows: Int64) -> Iterator[Int64]:
    """Split rows, ordered by start, into as few lists as their overlaps allow: each row goes into
    the first list that has room for it."""
    while len(rows):
        start = trace.start[rows]
        end = start + trace.duration[rows]
        if np.all(start[1:] >= end[:-1]):
            yield rows
            return
        fits = _greedy(start.tolist(), end.tolist())
        yield rows[fits]
        rows = rows[~fits]


def _greedy(start: list[int], end: list[int]) -> Mask:
    fits = np.zeros(len(start), dtype=bool)
    free = start[0]
    for index, begin in enumerate(start):
        if begin >= free:
            fits[index] = True
            free = end[index]
    return fits


def lane_label(track: Track) -> str:
    """How a track is called on screen; the text is the file's and may hold control codes."""
    if track.is_device:
        stream = "" if track.stream == NONE else f" stream {track.stream}"
        return f"GPU {track.device}{stream}"
    return track.thread_name or f"thread {track.thread}"
