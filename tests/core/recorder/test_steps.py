"""Rows of steps out of records, and exclusive times of phases, whatever order the records allow."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.recorder import rank_journals
from perftui.recorder.rank_journals import (
    DEVICE_HOLD_NS,
    HOLD_NS,
    Interval,
    StepAssembler,
    exclusive_times,
)
from perftui.recorder.spool import Record
from perftui.run.columns import PHASES, STEP_COLUMNS
from perftui.wire.ring import DEVICE_FLAG, EVAL_FLAG, INFER_FLAG, PROFILED_FLAG

NAMES = [column.name for column in STEP_COLUMNS]


def record(kind: str, start: int, duration: int = 0, **more: int) -> Record:
    usual = {"sequence": 0, "value": -1, "extra": 0, "step": 0, "flag": 0}
    return Record(kind=kind, start=start, duration=duration, **{**usual, **more})


def named(rows: list[list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def rows_of(records: list[Record]) -> list[dict[str, Any]]:
    assembler = StepAssembler()
    rows = [row for one in records for row in assembler.add(one, now=0)]
    return named(rows + assembler.expire(now=0, hold=0))


def test_step_with_all_phases() -> None:
    (row,) = rows_of(
        [
            record("input_wait", 0, 20, value=3),
            record("forward", 25, 30),
            record("backward", 55, 40),
            record("optimizer", 95, 4),
            record("step", 0, 100, step=7, value=1, extra=11, flag=PROFILED_FLAG),
        ]
    )
    assert row["index"] == 7
    assert row["kind"] == "train"
    assert (row["start"], row["duration"]) == (0, 100)
    parts = [row[phase] for phase in PHASES]
    assert parts == [20, 0, 30, 40, 4, 0, 6]
    assert (row["micro_batches"], row["profiled"], row["overhead"]) == (1, 1, 11)
    assert row["batches_ready"] == 3
    assert (row["allocated"], row["reserved"], row["peak_allocated"]) == (-1, -1, -1)


def test_kinds_by_flag() -> None:
    flags = (0, EVAL_FLAG, INFER_FLAG)
    rows = rows_of([record("step", n * 10, 10, step=n, flag=flag) for n, flag in enumerate(flags)])
    assert [row["kind"] for row in rows] == ["train", "eval", "infer"]


def test_interval_that_spans_a_boundary_is_split_between_both_steps() -> None:
    # The boundary lies inside the optimizer, whose record comes after that of its first step.
    rows = rows_of(
        [
            record("forward", 0, 50),
            record("step", 0, 100, step=0),
            record("optimizer", 90, 30),
            record("step", 100, 60, step=1),
        ]
    )
    assert [row["optimizer"] for row in rows] == [10, 20]
    assert [row["other"] for row in rows] == [40, 40]


def test_memory_belongs_to_the_step_it_names_before_or_after_its_record() -> None:
    rows = rows_of(
        [
            record("memory", 99, value=500, extra=800, step=0),
            record("step", 0, 100, step=0),
            record("memory_peak", 101, value=600, step=0),
            record("memory_peak", 200, value=700, step=1),
            record("step", 100, 100, step=1),
            record("memory", 201, value=510, extra=800, step=1),
            record("step", 200, 100, step=2),
        ]
    )
    found = [(row["allocated"], row["reserved"], row["peak_allocated"]) for row in rows]
    assert found == [(500, 800, 600), (510, 800, 700), (-1, -1, -1)]


def test_fewest_batches_ready_at_any_fetch_of_the_step() -> None:
    rows = rows_of(
        [
            record("input_wait", 0, 1, value=4),
            record("input_wait", 10, 1, value=2),
            record("input_wait", 20, 1, value=-1),
            record("step", 0, 100, step=0, value=3),
            record("input_wait", 100, 1, value=-1),
            record("step", 100, 100, step=1),
        ]
    )
    assert [row["batches_ready"] for row in rows] == [2, -1]


def test_cpu_time_of_all_fetches_of_a_step() -> None:
    rows = rows_of(
        [
            record("input_cpu", 5, value=3, step=0),
            record("input_cpu", 15, value=4, step=0),
            record("step", 0, 100, step=0),
            record("input_cpu", 105, value=9, step=1),
            record("step", 100, 100, step=1),
            record("step", 200, 100, step=2),
        ]
    )
    assert [row["input_cpu"] for row in rows] == [7, 9, -1]


def test_step_waits_for_the_next_one_or_for_a_while() -> None:
    assembler = StepAssembler()
    assert assembler.add(record("step", 0, 10), now=0) == []
    assert assembler.expire(now=HOLD_NS - 1) == []
    assert len(assembler.expire(now=HOLD_NS)) == 1
    assert assembler.expire(now=10 * HOLD_NS) == []


def test_loop_that_never_ends_a_step_fills_no_memory(monkeypatch: Any) -> None:
    monkeypatch.setattr(rank_journals, "MAX_INTERVALS", 10)
    assembler = StepAssembler()
    for n in range(25):
        assembler.add(record("forward", n, 1), now=0)
    assert assembler.dropped == 15
    assembler.add(record("step", 0, 30), now=0)
    (row,) = named(assembler.expire(now=0, hold=0))
    assert row["forward"] == 10


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    intervals=st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 40), st.sampled_from(PHASES[:-1])), max_size=25
    ),
)
def test_parts_of_every_step_sum_to_it(
    lengths: list[int], intervals: list[tuple[int, int, str]]
) -> None:
    """Records in the order of their ends, as a training thread writes them."""
    records = [record(kind, start, length) for start, length, kind in intervals]
    at = 0
    for index, length in enumerate(lengths):
        records.append(record("step", at, length, step=index))
        at += length
    records.sort(key=lambda one: one.start + one.duration)
    rows = rows_of(records)
    assert [row["duration"] for row in rows] == [
        one.duration for one in records if one.kind == "step"
    ]
    for row in rows:
        assert sum(row[phase] for phase in PHASES) == row["duration"]


DEVICE = ("device_forward", "device_backward", "device_optimizer")


def timed_step(n: int) -> Record:
    return record("step", 100 * n, 100, step=n, flag=DEVICE_FLAG)


def device_times(n: int) -> Record:
    return record("device_phases", 0, 30 + n, value=50 + n, extra=7 + n, step=n)


def test_a_step_waits_for_its_times_on_the_gpu_and_those_behind_it_wait_too() -> None:
    assembler = StepAssembler()
    records = [timed_step(0), timed_step(1), record("step", 200, 100, step=2), timed_step(3)]
    assert [row for one in records for row in assembler.add(one, now=0)] == []

    first = assembler.add(device_times(0), now=1)
    others = assembler.add(device_times(1), now=1)

    found = [(row["index"], *(row[name] for name in DEVICE)) for row in named(first + others)]
    assert found == [(0, 30, 50, 7), (1, 31, 51, 8), (2, -1, -1, -1)]


@pytest.mark.parametrize("how", ["a later step's came", "time passed", "the run ended"])
def test_a_step_whose_times_on_the_gpu_never_come_is_written_without(how: str) -> None:
    assembler = StepAssembler()
    for one in (timed_step(0), timed_step(1), record("step", 200, 100, step=2)):
        assert assembler.add(one, now=0) == []

    if how == "a later step's came":
        rows = assembler.add(device_times(1), now=1)
    elif how == "time passed":
        assert len(assembler.expire(now=HOLD_NS)) == 0
        rows = assembler.expire(now=DEVICE_HOLD_NS)
    else:
        rows = assembler.expire(now=1, hold=0)

    found = named(rows)
    assert [row["index"] for row in found[:2]] == [0, 1]
    assert [found[0][name] for name in DEVICE] == [-1, -1, -1]


@given(st.lists(st.booleans(), max_size=30), st.randoms())
def test_every_step_is_written_once_and_in_order_whichever_times_come(
    comes: list[bool], random: Any
) -> None:
    assembler, rows, late = StepAssembler(), [], list[int]()
    for n, one in enumerate(comes):
        rows += assembler.add(timed_step(n), now=n)
        if one:
            late.append(n)
        while late and random.random() < 0.5:
            rows += assembler.add(device_times(late.pop(0)), now=n)
    for n in late:
        rows += assembler.add(device_times(n), now=len(comes))
    rows += assembler.expire(now=len(comes), hold=0)

    expected = [(n, 30 + n if one else -1) for n, one in enumerate(comes)]
    assert [(row["index"], row["device_forward"]) for row in named(rows)] == expected


def test_trouble_of_the_allocator_is_known_where_its_memory_is() -> None:
    rows = rows_of(
        [
            record("memory", 99, value=5, extra=8, step=0),
            record("memory_trouble", 99, value=2, extra=1, step=0),
            record("step", 0, 100, step=0),
            record("memory", 199, value=5, extra=8, step=1),
            record("step", 100, 100, step=1),
            record("step", 200, 100, step=2),
        ]
    )
    found = [(row["alloc_retries"], row["alloc_failures"]) for row in rows]
    assert found == [(2, 1), (0, 0), (-1, -1)]


KINDS = PHASES[:-1]

INTERVALS = st.lists(
    st.builds(
        lambda start, length, kind: Interval(start, start + length, kind),
        st.integers(-5, 40),
        st.integers(0, 30),
        st.sampled_from(KINDS),
    ),
    max_size=12,
)


def _oracle(start: int, end: int, intervals: list[Interval]) -> dict[str, int]:
    totals = dict.fromkeys(PHASES, 0)
    for instant in range(start, end):
        covering = [
            (interval.start, -interval.end, -order, interval.kind)
            for order, interval in enumerate(intervals)
            if interval.start <= instant < interval.end
        ]
        totals[max(covering)[3] if covering else "other"] += 1
    return totals


@settings(deadline=None)
@given(start=st.integers(-3, 20), length=st.integers(0, 40), intervals=INTERVALS)
def test_every_nanosecond_belongs_to_the_innermost(
    start: int, length: int, intervals: list[Interval]
) -> None:
    phases = exclusive_times(start, start + length, intervals)
    assert phases == _oracle(start, start + length, intervals)
    assert tuple(phases) == PHASES
