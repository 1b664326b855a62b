"""Every column of every real trace, against a slow and obvious reading with exact decimals, with
and without the compiled scanner, and opened again from what was kept of it."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from perftui.analysis import open_trace as opening
from perftui.analysis.open_trace import never, open_trace
from perftui.trace.columns import native
from perftui.trace.formats import load_trace
from perftui.trace.model import MEMORY_COLUMNS, NONE, Trace
from tests.core.analysis.sameness import assert_equals
from tests.core.trace.test_scanner import COLUMNS
from tests.verify.corpus.collection import ROOT, oracles
from tests.verify.corpus.exact_reading import ACTIVITY, ExactReading, Row, runs_on_host
from tests.verify.corpus.opened import opened

pytestmark = [pytest.mark.corpus, pytest.mark.slow]


Both = tuple[Trace, ExactReading]


@pytest.fixture(scope="module", params=oracles())
def both(request: pytest.FixtureRequest) -> Both:
    """One trace after the other: read as text they are large."""
    path = ROOT / request.param
    return load_trace(path), ExactReading(path)


def rows_of(trace: Trace) -> Counter[Row]:
    tracks = [trace.tracks[index] for index in trace.track.tolist()]
    categories = [trace.categories[index] for index in trace.category.tolist()]
    places = [
        (track.device, track.stream) if category in ACTIVITY or runs_on_host(category) else None
        for track, category in zip(tracks, categories, strict=True)
    ]
    columns = (
        (trace.start + trace.origin).tolist(),
        trace.duration.tolist(),
        [trace.names[index] for index in trace.name.tolist()],
        categories,
        [track.process for track in tracks],
        [track.thread for track in tracks],
        [track.process_name for track in tracks],
        [track.thread_name for track in tracks],
        trace.correlation.tolist(),
        trace.external_id.tolist(),
        trace.bytes.tolist(),
        places,
    )
    return Counter(zip(*columns, strict=True))


def test_every_row_is_there_to_the_nanosecond_with_memory_and_what_is_around(both: Both) -> None:
    trace, reading = both
    wanted, found = reading.columns(), rows_of(trace)
    assert wanted.total() == found.total()
    assert not wanted - found
    assert trace.origin == reading.origin
    *columns, tracks = (getattr(trace.memory, column).tolist() for column in MEMORY_COLUMNS)
    threads = [(trace.tracks[each].process, trace.tracks[each].thread) for each in tracks]
    assert list(zip(*columns, threads, strict=True)) == reading.memory()
    assert trace.metadata == json.loads(json.dumps(reading.around, default=float))
    base = reading.around.get("baseTimeNanoseconds")
    if base is not None:
        assert trace.wall_origin == int(base) + reading.origin


def test_rows_are_in_order_and_lie_in_their_parents(both: Both) -> None:
    trace, _ = both
    track, start, duration = (
        each.astype(np.int64) for each in (trace.track, trace.start, trace.duration)
    )
    assert np.array_equal(np.lexsort((-duration, start, track)), np.arange(len(trace)))
    rows = np.flatnonzero(trace.parent != NONE)
    parents = trace.parent[rows]
    assert np.all(trace.depth[trace.parent == NONE] == 0)
    assert np.array_equal(trace.depth[rows], trace.depth[parents] + 1)
    assert np.all(parents < rows)
    assert np.array_equal(track[rows], track[parents])
    assert np.all(start[rows] >= start[parents])
    assert np.all(start[rows] <= trace.end[parents])


@pytest.mark.parametrize("name", oracles())
def test_a_real_trace_comes_back_as_it_was(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path))
    monkeypatch.setattr(opening, "FEWEST_ROWS", 1)
    open_trace(ROOT / name, later=lambda work: work())
    again = open_trace(ROOT / name, later=never)
    assert again.timeline_tracks
    assert_equals(again, opened(name).analysis, rows=40)


@pytest.mark.skipif(native.compiled() is None, reason="installed without a C compiler")
@pytest.mark.parametrize("name", oracles())
def test_both_ways_of_reading_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scanned = load_trace(ROOT / name)
    monkeypatch.setattr(native, "compiled", lambda: None)
    plain = load_trace(ROOT / name)
    for column in COLUMNS:
        assert np.array_equal(getattr(scanned, column), getattr(plain, column)), column
    for column in MEMORY_COLUMNS:
        ours, theirs = getattr(scanned.memory, column), getattr(plain.memory, column)
        assert np.array_equal(ours, theirs), column
    for field in ("names", "categories", "tracks", "origin", "warnings", "metadata"):
        assert getattr(scanned, field) == getattr(plain, field), field
