"""What a run of a week writes stays small, and nothing of its sums is lost."""

import gc
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.recorder import rank_journals, spool
from perftui.recorder import sink as thinning
from perftui.recorder.rank_journals import ONE_BY_ONE, SHARED_ROW_NS, Pauses
from perftui.recorder.spool import Record
from perftui.run import reader
from perftui.run.columns import PHASES
from perftui.run.journal_table import Kept
from perftui.run.reader import RunReader
from perftui.run.table import Group, Table, aggregates_of
from tests.core.recorder.week import HOST, Week, size_of

SECOND = 1_000_000_000


def record(kind: str, start: int, duration: int, step: int = 0, value: int = -1) -> Record:
    return Record(0, start, duration, value, 0, step, kind, 0)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 10**6), st.integers(0, 2 * SHARED_ROW_NS)),
        max_size=50,
    )
)
def test_pauses_that_share_rows_keep_their_number_and_their_sum(
    pauses: list[tuple[int, int, int]],
) -> None:
    kept = Pauses()
    for _ in range(ONE_BY_ONE):
        assert len(kept.rows([record("gc", 0, 1, value=0)])) == 1
    assert kept.rows([record("forward", 0, 1)]) == []
    expected: Counter[tuple[int, str]] = Counter()
    rows, now = [], 0
    for generation, duration, later in pauses:
        now += later
        expected[generation, "count"] += 1
        expected[generation, "duration"] += duration
        rows += kept.rows([record("gc", now, duration, value=generation)])
    rows += kept.rest()
    found: Counter[tuple[int, str]] = Counter()
    for _, kind, duration, _, data in rows:
        assert kind == "gc"
        found[data["generation"], "count"] += data["count"]
        found[data["generation"], "duration"] += duration
    assert found == expected
    assert len(rows) <= 3 * (now // SHARED_ROW_NS + 1)
    assert kept.rest() == []


def keep(monkeypatch: pytest.MonkeyPatch, kept: Kept) -> None:
    """Have readers keep so many steps and samples."""
    monkeypatch.setitem(reader._JOURNALS["steps"].keywords, "kept", kept)
    monkeypatch.setattr(reader, "KEPT_SAMPLES", kept)


def everything(rows: Table) -> Group:
    return aggregates_of(rows).plus(rows.sums).of()


@pytest.mark.slow
def test_a_week_through_the_ring_takes_little_room_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pieces of a fiftieth of their size, and a step every half minute."""
    monkeypatch.setattr(thinning, "SEGMENT_BYTES", 160_000)
    monkeypatch.setattr(rank_journals, "SHARED_ROW_NS", 36_000 * SECOND)
    monkeypatch.setattr(spool, "MOST_BYTES", 4000)
    keep(monkeypatch, Kept(64, 1000))
    count = 20_000
    week = Week(tmp_path, count, sample_every=60)
    following = RunReader(week.layout.root)
    sizes, spools, rows = [], [], []
    while week.step < count:
        week.go_on(500)
        run = following.poll()
        sizes.append(size_of(week.layout.root))
        spools.append(size_of(week.spool.root))
        rows.append((len(run.ranks[0].steps), len(run.telemetry[HOST])))
    week.finish()

    pieces = 2 * 6 * 160_000
    assert max(sizes) < pieces + 200_000
    assert max(spools) - min(spools) < 3 * 4000
    assert max(max(pair) for pair in rows) <= 64 + 2 * 1000
    for late in (following, RunReader(week.layout.root)):
        run = late.poll()
        (rank,) = run.ranks
        found = everything(rank.steps)
        assert (found.rows, found.of("duration").total) == (count, week.duration)
        assert found.of("input_wait").total == week.waited
        assert sum(found.of(phase).total for phase in PHASES) == week.duration
        samples = everything(run.telemetry[HOST])
        assert samples.rows == week.sampled
        assert set(rank.events["kind"].tolist()) == {"gc"}
        assert int(rank.events["duration"].sum()) == week.paused
        assert sum(one.get("count", 1) for one in rank.events["data"]) == week.pauses
        assert len(rank.events) < ONE_BY_ONE + 100
    assert week.log.read_text() == ""


@pytest.mark.slow
def test_recorder_and_reader_of_a_long_run_take_no_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thinning, "SEGMENT_BYTES", 40_000)
    monkeypatch.setattr(thinning, "ROWS_AT_ONCE", 256)
    keep(monkeypatch, Kept(16, 100))
    monkeypatch.setattr(rank_journals, "ONE_BY_ONE", 100)
    monkeypatch.setattr(rank_journals, "SHARED_ROW_NS", 10**16)
    week = Week(tmp_path, 9000, sample_every=60)
    following = RunReader(week.layout.root)
    held = []
    week.go_on(4000)
    tracemalloc.start()
    try:
        for _ in range(10):
            week.go_on(500)
            following.poll()
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    week.finish()
    # The rows of a piece come and go. Eight bytes of each step would be 12,000.
    assert min(held[8:]) < min(held[5:7]) + 8_000
