"""Journals that are downsampled out: sums stay exact, quantiles close, readers keep their place."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.facts.step.steps import run_breakdown
from perftui.recorder.sink import KEPT_SEGMENTS, DownsamplingSink, FaultLog
from perftui.run.columns import PHASES, STEP_COLUMNS
from perftui.run.files import NewerError
from perftui.run.journal import Column, JournalWriter
from perftui.run.journal_table import JournalTable, Kept, Segments
from perftui.run.table import Aggregates, Group, Table, Weighed, aggregates_of, histogram
from tests.step_rows import table_of

VALUES = st.lists(st.integers(0, 10**13), max_size=60)
NAMES = [column.name for column in STEP_COLUMNS]


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(VALUES, VALUES, st.integers(0, 100))
def test_quantiles_of_values_and_a_histogram_are_within_a_bucket(
    values: list[int], counted: list[int], percent: int
) -> None:
    known = Weighed(ints(values), histogram(ints(counted)))
    every = np.sort(ints(values + counted))
    assert len(known) == len(every)
    if len(every):
        exact = Weighed(every).nearest_rank(percent)
        assert abs(known.nearest_rank(percent) - exact) <= exact / 256


def middle(values: list[int]) -> list[int]:
    """All but a tenth at each end."""
    tenth = len(values) // 10
    return sorted(values)[tenth : len(values) - tenth]


@given(VALUES.filter(bool))
def test_without_a_histogram_everything_is_exact(values: list[int]) -> None:
    kept = middle(values)
    assert Weighed(ints(values)).trimmed_mean(10) == sum(kept) // len(kept)


@given(VALUES.filter(bool), VALUES)
def test_a_trimmed_mean_of_both_is_within_a_bucket(values: list[int], counted: list[int]) -> None:
    kept = middle(values + counted)
    exact = sum(kept) / len(kept)
    found = Weighed(ints(values), histogram(ints(counted))).trimmed_mean(10)
    assert abs(found - exact) <= exact / 256 + 1


@given(VALUES, VALUES)
def test_histograms_add_up(one: list[int], other: list[int]) -> None:
    sums = [Aggregates((Group(histograms={"x": histogram(ints(v))}),)) for v in (one, other)]
    both = sums[0].plus(sums[1]).of().histograms["x"]
    assert both == histogram(ints(one + other))
    assert sum(count for count, _ in both.values()) == len(one) + len(other)
    assert sum(total for _, total in both.values()) == sum(one) + sum(other)


@given(st.lists(st.integers(0, 511)))
def test_small_values_keep_a_bucket_each(values: list[int]) -> None:
    assert len(histogram(ints(values))) == len(set(values))


def step(index: int, kind: str, duration: int, profiled: bool, wrong: bool) -> list[Any]:
    """A row of ``STEP_COLUMNS``; where ``wrong``, its phases do not sum to its duration."""
    values = dict.fromkeys(NAMES, -1) | dict.fromkeys(PHASES, 0)
    values |= {"index": index, "kind": kind, "start": 10**6 * index, "duration": duration}
    values |= {"forward": duration // 3, "other": duration - duration // 3 + wrong}
    values |= {"micro_batches": 1 + index % 3, "profiled": int(profiled), "overhead": index % 7}
    values |= {"batches_ready": index % 4 - 1, "reserved": index * 10**12}
    return [values[name] for name in NAMES]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["train", "train", "eval"]),
        st.integers(0, 10**10),
        st.sampled_from([False, False, False, True]),
        st.sampled_from([False, False, True]),
    ),
    min_size=1,
    max_size=120,
).map(lambda rows: [step(index, *row) for index, row in enumerate(rows)])


steps_of = partial(table_of, STEP_COLUMNS)


def groups(sums: Aggregates) -> dict[tuple[str, bool, bool], Group]:
    return {group.key: group for group in sums.groups}


def everything(journal: JournalTable) -> dict[tuple[str, bool, bool], Group]:
    """The sums over what a reader has as rows and what it has as sums."""
    rows = journal.poll()
    return groups(aggregates_of(rows).plus(rows.sums))


def reader_of(path: Path, kept: Kept | None = None) -> JournalTable:
    return JournalTable(path, STEP_COLUMNS, kept=kept)


def test_a_reader_holds_no_more_rows_than_it_keeps(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    writer = JournalWriter(path, STEP_COLUMNS)
    reader = reader_of(path, Kept(10, 20))
    frozen = []
    for at in range(0, 1000, 5):
        writer.append([step(index, "train", 100, False, False) for index in range(at, at + 5)])
        frozen.append(reader.poll())
    writer.close()
    assert max(map(len, frozen)) <= 10 + 2 * 20
    indices = frozen[-1]["index"].tolist()
    assert indices[:10] == list(range(10))
    assert indices[10:] == list(range(1000 - len(indices) + 10, 1000))
    # What was shown before stays as it was.
    assert [len(table) for table in frozen[:8]] == [5, 10, 15, 20, 25, 30, 35, 40]
    assert frozen[7]["index"].tolist() == list(range(40))


def test_the_budget_of_rows_and_sums_is_that_of_all_steps() -> None:
    rows = [
        step(at, "train", 10**6 + 997 * (at * 37 % 400), at == 90, at % 50 == 7)
        for at in range(400)
    ]
    every = steps_of(rows)
    mask = np.ones(400, dtype=bool)
    mask[90:92] = False
    whole = run_breakdown(every, mask)
    kept = np.arange(400) < 40
    rest = replace(every.where(kept), sums=aggregates_of(every.where(~kept)))
    few = run_breakdown(rest, mask[kept])
    assert (few.count, few.mean, few.parts) == (whole.count, whole.mean, whole.parts)
    assert few.inconsistent == whole.inconsistent == 8
    for name in ("p5", "p50", "p95", "usual"):
        assert getattr(few, name) == pytest.approx(getattr(whole, name), rel=0.004)


def test_steps_known_only_by_their_sums_make_a_budget() -> None:
    rows = [step(at, "train", 3000 + at, False, False) for at in range(9)]
    steps = Table(sums=aggregates_of(steps_of(rows)))
    share = run_breakdown(steps, np.zeros(0, dtype=bool))
    assert (share.count, share.mean, sum(ns for _, ns in share.parts)) == (9, 3004, 3004)


def small_sink(path: Path, piece_bytes: int = 2000) -> DownsamplingSink:
    faults = FaultLog(path.parent / "log")
    return DownsamplingSink(path, STEP_COLUMNS, faults, segment_bytes=piece_bytes)


@settings(max_examples=30)
@given(STEPS, st.lists(st.integers(1, 9), min_size=1), st.data())
def test_however_late_a_reader_looks_it_reads_the_same_sums(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[Any]],
    sizes: list[int],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("rank") / "steps.jsonl"
    sink = small_sink(path, data.draw(st.sampled_from([700, 2600])))
    kept = Kept(data.draw(st.integers(1, 20)), data.draw(st.integers(1, 20)))
    readers = [reader_of(path, kept), reader_of(path)]
    at, turn = 0, 0
    while at < len(rows):
        size = sizes[turn % len(sizes)]
        sink.append(rows[at : at + size])
        at, turn = at + size, turn + 1
        for reader in readers:
            if data.draw(st.booleans()):
                assert everything(reader) == groups(aggregates_of(steps_of(rows[:at])))
    sink.close()
    for reader in (*readers, reader_of(path)):
        assert everything(reader) == groups(aggregates_of(steps_of(rows)))
    assert sink.lost == 0


def test_a_piece_ends_after_a_step_that_disturbs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    sink = small_sink(path, 1)
    for index in range(40):
        sink.append([step(index, "train", 5, index % 4 == 0, False)])
    sink.close()
    profiled = reader_of(Segments(path).path(Segments(path).lowest())).poll()["profiled"]
    assert profiled.tolist()[-1] == 0


def test_sums_that_cannot_be_written_cost_no_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "steps.jsonl"
    sink = small_sink(path, 500)
    rows = [step(index, "train", 7, False, False) for index in range(100)]
    with monkeypatch.context() as patched:
        patched.setattr("perftui.recorder.sink.replace_file", full)
        for row in rows[:60]:
            sink.append([row])
    assert reader_of(path).poll()["index"].tolist() == list(range(60))
    assert "No space" in (tmp_path / "log").read_text()
    for row in rows[60:]:
        sink.append([row])
    sink.close()
    reader = reader_of(path)
    assert everything(reader) == groups(aggregates_of(steps_of(rows)))
    assert reader.poll().sums.of().rows > 60
    assert len(list(Segments(path).root.glob("*.jsonl"))) <= KEPT_SEGMENTS + 1


def test_damaged_sums_are_counted_and_those_of_a_newer_version_refused_in_words(
    tmp_path: Path,
) -> None:
    path = tmp_path / "steps.jsonl"
    sink = small_sink(path, 500)
    for index in range(100):
        sink.append([step(index, "train", 7, False, False)])
    sink.close()
    Segments(path).sums.write_text("{")
    reader = reader_of(path)
    assert reader.poll()["index"][[0, -1]].tolist() == [0, 99]
    assert reader.skipped == 1
    Segments(path).sums.write_text('{"schema": 99}')
    with pytest.raises(NewerError, match=r"sums\.json: written by a newer perftui"):
        reader_of(path).poll()


def test_samples_of_a_machine_are_summed_as_far_as_they_are_known(tmp_path: Path) -> None:
    columns = (Column("time", "ns"), Column("cpu.utilization", "%"), Column("gpu0.power", "W"))
    path = tmp_path / "telemetry-node.b.jsonl"
    faults = FaultLog(tmp_path / "log")
    sink = DownsamplingSink(path, columns, faults, floats=True, segment_bytes=500)
    for second in range(400):
        sink.append([[second, second / 4, None if second % 2 else 300.5]])
    sink.close()
    reader = JournalTable(path, (), floats=True, kept=Kept(4, 8))
    rows = reader.poll()
    assert [path.name for path in tmp_path.glob("telemetry-*.jsonl")] == [path.name]
    assert len(rows) <= 4 + 2 * 8
    whole = aggregates_of(rows).plus(rows.sums).of()
    assert (whole.rows, whole.first, whole.last) == (400, 0, 399)
    assert whole.of("cpu.utilization").total == sum(range(400)) / 4
    assert (whole.of("gpu0.power").count, whole.of("gpu0.power").total) == (200, 200 * 300.5)
    assert whole.of("cpu.utilization").highest == 399 / 4
