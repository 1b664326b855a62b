"""Ordering, nesting, the operator table and one screen of the timeline, of ten million events.

    python tests/verify/benchmarks/bench_ten_million.py [--events 10000000] [--python]

Twenty threads of nested calls in the order of time, as a profiler writes them. ``--python`` does
without the compiled loops. Prints CPU seconds, and for the timeline the median and the worst of
some drawings of 200 columns of every track, at several zooms."""

import argparse
import resource
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from perftui.analysis.ops.calls import op_calls
from perftui.analysis.timeline.track import TimelineTrack
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui.trace.columns import native
from perftui.trace.columns.arrays import downcast, nest, order
from perftui.trace.model import NONE, Int32, Int64, Trace, Track

THREADS = 20
COLUMNS = 200
DRAWINGS = 15
NAMES = ("aten::linear", "aten::addmm", "cudaLaunchKernel")


@contextmanager
def measured(what: str) -> Iterator[None]:
    """Print the CPU time of a block."""
    began = time.process_time()
    yield
    print(f"{what:28} {time.process_time() - began:8.3f} s")


def events(count: int) -> tuple[Int32, Int64, Int64]:
    """Track, start and duration of operators in operators, with a launch in each."""
    each = count // THREADS // 3
    begins = np.arange(each, dtype=np.int64) * 27_000
    start = np.stack([begins, begins + 1_000, begins + 4_000], axis=1).ravel()
    duration = np.tile(np.array([20_251, 17_251, 5_017], dtype=np.int64), each)
    starts = np.concatenate([start + 13 * thread for thread in range(THREADS)])
    tracks = np.repeat(np.arange(THREADS, dtype=np.int32), len(start))
    by_time = np.argsort(starts, kind="stable")
    return tracks[by_time], starts[by_time], np.tile(duration, THREADS)[by_time]


def trace_of(count: int) -> Trace:
    """The events ordered and nested, as loading does it."""
    track, start, duration = events(count)
    with measured("order"):
        rows = order(track, start, duration)
    track, start, duration = track[rows], start[rows], duration[rows]
    with measured("nest"):
        nesting = nest(track, start, duration, np.zeros(len(start), dtype=bool))
    name = np.minimum(nesting.depth, 2).astype(np.int32)
    none = downcast(np.full(len(start), NONE, dtype=np.int64))
    return Trace(
        path=Path("synthetic"), start=start, duration=duration, name=name,
        category=(name == 2).astype(np.int16), track=downcast(track), correlation=none,
        external_id=none, bytes=none, parent=nesting.parent, depth=nesting.depth, names=NAMES,
        categories=("cpu_op", "cuda_runtime"),
        tracks=tuple(Track("1", str(number)) for number in range(THREADS)),
        origin=0, wall_origin=None,
    )  # fmt: skip


def draw(tracks: list[TimelineTrack], begin: int, end: int) -> float:
    """Milliseconds of CPU to find what fills each column of every track."""
    began = time.process_time()
    for track in tracks:
        track.index.busy(begin, end, COLUMNS)
        track.index.dominant(begin, end, COLUMNS)
    return 1000 * (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--python", action="store_true", help="without the compiled loops")
    options = parser.parse_args()
    if options.python:
        native.compiled = lambda: None  # type: ignore[assignment]  # stands for an installation without
    trace = trace_of(options.events)
    with measured("self time and operator table"):
        op_calls(trace).table()
    with measured("tracks"):
        tracks = list(timeline_tracks(trace))
    shown, last = tracks[:THREADS], int(trace.end.max())
    for zoom in (1, 100, 10_000, 1_000_000):
        span = max(last // zoom, COLUMNS)
        begins = np.linspace(0, last - span, DRAWINGS).astype(np.int64).tolist()
        draw(shown, begins[0], begins[0] + span)
        found = [draw(shown, begin, begin + span) for begin in begins]
        print(
            f"draw {len(shown)} tracks, 1/{zoom:<14,} {statistics.median(found):8.2f} ms"
            f"   (worst {max(found):.2f} ms)"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(trace):,} events, peak {peak:.0f} MiB")


if __name__ == "__main__":
    main()
