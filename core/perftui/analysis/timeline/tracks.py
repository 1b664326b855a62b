"""Make the tracks of a timeline, and name the roles of its threads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.gpu_idle.causes import main_track
from perftui.analysis.kinds import once, track_bounds
from perftui.analysis.timeline.track import (
    DEVICE,
    HELPERS,
    MARKS,
    THREAD,
    WHOLE,
    TimelineTrack,
    TrackIndex,
)
from perftui.trace.model import NONE, PYTHON, Int64, Mask, Trace, Track

MAIN = "main thread"
AUTOGRAD = "autograd"
PIN_MEMORY = "pin memory thread"
WORKER = "data loader worker"

_GIVEN = re.compile(r"(?:thread -?\d+(?: \((?P<name>.*)\))?|(?P<alone>pt_\w+|python[\d.]*|))$")
"""A default name: the profiler's, with the system's name of the thread."""
_MAIN_NAME = re.compile(r"python[\d.]*|pt_main_thread|")
_BY_NAME = (
    (re.compile(r"pt_autograd_\d+"), AUTOGRAD),
    (re.compile(r"pt_data_pin"), PIN_MEMORY),
    (re.compile(r"pt_data_worker"), WORKER),
    (re.compile(r"pt_nccl_watchdg"), "NCCL watchdog"),
    (re.compile(r"pt_nccl_heartbt"), "NCCL heartbeat"),
)
_BY_CALL: tuple[tuple[str, Callable[[str], object]], ...] = (
    (PIN_MEMORY, re.compile(r"aten::pin_memory|torch/utils/data/_utils/pin_memory\.py\(").match),
    (WORKER, re.compile(r"torch/utils/data/_utils/worker\.py\(\d+\): _worker_loop").match),
    ("tqdm monitor", re.compile(r".*tqdm/_monitor\.py\(\d+\): run").match),
)


@once
def thread_roles(trace: Trace) -> Mapping[int, str]:
    """The role of threads, by index in ``Trace.tracks``, without threads with a name of their own
    or an unknown role. Several of one role are numbered in order of their first event."""
    mains, by_work = _mains(trace), _by_work(trace)
    first: dict[int, int] = {}
    for number, track in enumerate(trace.tracks):
        default = None if track.is_device else _GIVEN.match(track.thread_name or "")
        rows = slice(*np.searchsorted(trace.track, (number, number + 1)).tolist())
        if default is not None and len(trace.start[rows]):
            first[number] = int(trace.start[rows].min())
    roles: dict[int, str] = {}
    for number in sorted(first, key=lambda index: (first[index], index)):
        default = _GIVEN.match(trace.tracks[number].thread_name or "")
        name = ((default["name"] or default["alone"]) if default else None) or ""
        by_name = next((role for pattern, role in _BY_NAME if pattern.fullmatch(name)), None)
        if number in mains and _MAIN_NAME.fullmatch(name):
            roles[number] = MAIN
        elif role := by_name or by_work.get(number):
            roles[number] = role
    # Several threads of a rank that share a role are numbered.
    owners = {number: (trace.tracks[number].rank, role) for number, role in roles.items()}
    counts, seen = Counter(owners.values()), Counter[tuple[int, str]]()
    for number, owner in owners.items():
        seen[owner] += 1
        if counts[owner] > 1:
            roles[number] += f" {seen[owner]}"
    return roles


def _mains(trace: Trace) -> set[int]:
    """The training thread; for merged ranks, each rank's thread with most work."""
    of_rank = np.array([track.rank for track in trace.tracks], dtype=np.int64)
    if np.all(of_rank == NONE):
        return {main_track(trace)}
    rows = np.flatnonzero(kinds.operators(trace) | kinds.launches(trace))
    work = np.bincount(trace.track[rows], trace.duration[rows] + 1.0, len(trace.tracks))
    return {int(np.argmax(np.where(of_rank == rank, work, -1))) for rank in np.unique(of_rank)}


def _by_work(trace: Trace) -> Mapping[int, str]:
    """The first role shown by an event of each thread."""
    roles: dict[int, str] = {}
    host = kinds.operators(trace) | trace.in_category(PYTHON)
    rows = {AUTOGRAD: kinds.of_autograd(trace)}
    rows |= {role: host & kinds.named(trace, matches) for role, matches in _BY_CALL}
    for role, mask in rows.items():
        for number in np.unique(trace.track[mask]).tolist():
            roles.setdefault(number, role)
    return roles


def timeline_tracks(trace: Trace) -> tuple[TimelineTrack, ...]:
    """All tracks with rows: devices by stream, the main thread, other threads by their first start.

    A device with several streams has a track of its own before them. A thread has a track for each
    depth of its call stack; if rows of one depth overlap, as on some streams, further tracks take
    them.
    """
    main = main_track(trace)
    activity = kinds.device_activity(trace)
    bounds = track_bounds(trace)
    tracks: list[TimelineTrack] = []
    order = _drawing_order(trace, bounds, main)
    leading = _leading(trace, order, bounds, activity)
    for number in order:
        if number in leading:
            index, device = (
                united(trace, np.concatenate(leading[number])),
                trace.tracks[number].device,
            )
            tracks.append(TimelineTrack(f"GPU {device}", WHOLE, number, 0, index))
        tracks += _tracks_of(trace, number, np.arange(bounds[number], bounds[number + 1]), activity)
    return tuple(tracks)


def _drawing_order(trace: Trace, bounds: Int64, main: int) -> list[int]:
    def place(number: int) -> tuple[int, int, int, int]:
        track = trace.tracks[number]
        if track.is_device:
            return 0, track.device, track.stream, number
        return (1 if number == main else 2), int(trace.start[bounds[number]]), 0, number

    return sorted(np.flatnonzero(bounds[1:] > bounds[:-1]).tolist(), key=place)


def _leading(
    trace: Trace, order: list[int], bounds: Int64, activity: Mask
) -> dict[int, list[Int64]]:
    """For each device with several streams, by its first one: the rows of work on each."""
    streams: dict[int, dict[int, Int64]] = {}
    for number in order:
        rows = np.arange(bounds[number], bounds[number + 1])
        works = rows[activity[rows]]
        if trace.duration[works].any() and trace.tracks[number].is_device:
            streams.setdefault(trace.tracks[number].device, {})[number] = works
    return {next(iter(works)): list(works.values()) for works in streams.values() if len(works) > 1}


def united(trace: Trace, rows: Int64) -> TrackIndex:
    """Rows of several tracks, each cut to the part in which no earlier row still runs."""
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    end = trace.ends_of(rows)
    reach = np.maximum.accumulate(end)
    start = trace.start[rows].copy()
    start[1:] = np.maximum(start[1:], reach[:-1])
    visible = end > start
    return TrackIndex(rows[visible].astype(np.int32), start[visible], end[visible])


def _tracks_of(trace: Trace, number: int, rows: Int64, activity: Mask) -> Iterator[TimelineTrack]:
    track = trace.tracks[number]
    label = track_label(trace, number)
    numbered = {other.device for other in trace.tracks if other.stream != NONE}
    if track.is_device and track.stream == NONE and track.device in numbered:
        # The device's name alone is the label of the track of all its streams.
        label += " no stream"
    if track.is_device:
        works = activity[rows]
        yield from _stack(trace, number, label, DEVICE, [rows[works]])
        yield from _stack(trace, number, label, MARKS, [rows[~works]])
    else:
        depths = trace.depth[rows]
        levels = [rows[depths == depth] for depth in range(int(depths.max()) + 1)]
        yield from _stack(trace, number, label, THREAD, levels)


def _stack(
    trace: Trace, number: int, label: str, kind: str, levels: list[Int64]
) -> Iterator[TimelineTrack]:
    lists = (rows for level in levels for rows in without_overlap(trace, level))
    for depth, rows in enumerate(lists):
        yield TimelineTrack(label, kind, number, depth, TrackIndex.of(trace, rows))


def without_overlap(trace: Trace, rows: Int64) -> Iterator[Int64]:
    """Split rows, ordered by start, into as few lists as their overlaps allow: each row goes into
    the first list that has room for it."""
    while len(rows):
        start, end = trace.start[rows], trace.ends_of(rows)
        if np.all(start[1:] >= end[:-1]):
            yield rows
            return
        fits, free = np.zeros(len(rows), dtype=bool), int(start[0])
        for index, (begin, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
            if begin >= free:
                fits[index], free = True, stop
        yield rows[fits]
        rows = rows[~fits]


def track_label(trace: Trace, number: int) -> str:
    """Name of a track on screen: a thread's role if known. The text is the file's and may contain
    control codes."""
    track = trace.tracks[number]
    if track.is_device:
        stream = "" if track.stream == NONE else f" stream {track.stream}"
        return f"{_device_label(track)}{stream}"
    name = thread_roles(trace).get(number) or track.thread_name or f"thread {track.thread}"
    return f"{rank_prefix(track)}{name}"


def device_label(trace: Trace, device: int) -> str:
    """Name of a device; for merged ranks with its rank."""
    tracks = (track for track in trace.tracks if track.device == device)
    return next(map(_device_label, tracks), f"GPU {device}")


def _device_label(track: Track) -> str:
    number = track.device if track.rank == NONE else track.own_device
    return f"{rank_prefix(track)}GPU {number}"


def rank_prefix(track: Track) -> str:
    """The rank of a track, for merged ranks: ``rank 3 ``."""
    return "" if track.rank == NONE else f"rank {track.rank} "


NEXT_TO_NOTHING = 0.01
"""Largest share of the trace's time covered by events of such a thread."""

_WAITS = re.compile(r"threading\.py\(\d+\): (wait|join)$")
"""A Python call in which a thread does nothing, in traces with stacks."""


@dataclass(frozen=True, eq=False)
class HelperThreads:
    """Threads of one rank (NONE with a single rank) that do next to nothing."""

    rank: int
    threads: frozenset[int]
    """Their indices in ``Trace.tracks``."""
    track: TimelineTrack
    """Work of any of them."""


def helper_threads(trace: Trace, tracks: Sequence[TimelineTrack]) -> tuple[HelperThreads, ...]:
    """The helper threads of each rank; never the training thread.

    Helper threads have events that cover less than ``NEXT_TO_NOTHING`` of the trace, from the first
    start to the last end, without those in which they wait.
    """
    by_thread: dict[int, list[TimelineTrack]] = {}
    for track in tracks:
        if track.kind == THREAD:
            by_thread.setdefault(track.track, []).append(track)
    if len(by_thread) < 2:
        return ()
    span = int(trace.ends_of(slice(None)).max() - trace.start.min())
    roles, by_rank = thread_roles(trace), dict[int, list[int]]()
    waits = kinds.named(trace, _WAITS.search)
    for thread, own in by_thread.items():
        is_main = roles.get(thread, "").startswith(MAIN)
        if not is_main and _does_less(trace, own, waits, NEXT_TO_NOTHING * span):
            by_rank.setdefault(trace.tracks[thread].rank, []).append(thread)
    helpers = []
    for rank, threads in by_rank.items():
        rows = [track.index.rows.astype(np.int64) for t in threads for track in by_thread[t]]
        label = f"{rank_prefix(trace.tracks[threads[0]])}{len(threads)} threads under 1 %"
        label = label if len(threads) > 1 else track_label(trace, threads[0])
        track = TimelineTrack(label, HELPERS, threads[0], 0, united(trace, np.concatenate(rows)))
        helpers.append(HelperThreads(rank, frozenset(threads), track))
    return tuple(helpers)


def _does_less(trace: Trace, tracks: Sequence[TimelineTrack], waits: Mask, most: float) -> bool:
    """Whether the events of a thread, without the calls in which it waits, cover less than
    ``most`` ns; often one of its tracks alone tells."""
    rows = np.concatenate([track.index.rows.astype(np.int64) for track in tracks])
    most += kinds.busy(trace, rows[waits[rows]]).total
    alone = max(int(np.sum(track.index.end - track.index.start)) for track in tracks)
    return alone < most and kinds.busy(trace, rows).total < most
