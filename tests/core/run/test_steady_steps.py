"""Which steps are judged, of which kind, and what phases take on the GPU in them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.step.steps import (
    EVAL,
    INFER,
    LONGEST_WARM_UP,
    TRAIN,
    count_of,
    device_phases,
    median,
    steady,
    steady_mask,
    step_kind,
    warm_up_length,
)
from perftui.run.aggregates import NO_AGGREGATES, Aggregates, aggregates_of
from perftui.run.columns import PHASES, STEP_COLUMNS, STEP_TEXT
from perftui.run.table import GrowingTable, Table
from tests.core.diagnosis.runs import facts_of
from tests.step_rows import step_row


def steps(durations: list[int], kinds: list[str] | None = None, profiled: set[int] = frozenset()):
    table = GrowingTable(STEP_COLUMNS, floats=False, text=("kind",))
    kinds = kinds or ["train"] * len(durations)
    rows = []
    for index, (duration, kind) in enumerate(zip(durations, kinds, strict=True)):
        phases = [0] * (len(PHASES) - 1) + [duration]
        rows.append(step_row(index, phases, kind=kind, profiled=int(index in profiled)))
    table.extend(rows)
    return table.freeze()


def lengths(*parts: tuple[int, int]) -> np.ndarray:
    return np.array([ms * 1_000_000 for ms, count in parts for _ in range(count)])


@pytest.mark.parametrize(
    ("durations", "expected"),
    [
        (lengths(), 0),
        (lengths((20, 1)), 1),
        (lengths((20, 2)), 0),
        (lengths((900, 1), (20, 40)), 1),
        (lengths((900, 1), (60, 1), (30, 1), (20, 40)), 3),
        (lengths((2, 6), (20, 40)), 6),  # a start from a full queue
        (lengths((20, 10), (400, 1), (20, 40)), 0),  # a lone slow step is part of the training
        (lengths((900, 1), (20, 1), (900, 1), (20, 40)), 1),
        (np.tile(lengths((40, 1), (4, 3)), 20), 1),  # bursts of four stay in
        (lengths((900, 150), (20, 2000)), LONGEST_WARM_UP),
    ],
)
def test_warm_up_ends_where_usual_steps_begin(durations, expected) -> None:
    assert warm_up_length(durations) == expected


@given(st.lists(st.integers(0, 10**12), max_size=60))
def test_warm_up_never_takes_more_than_half(durations) -> None:
    length = warm_up_length(np.array(durations, dtype=np.int64))
    assert 0 <= length <= max(len(durations) // 2, len(durations) == 1)


@given(st.lists(st.integers(1, 10**9), min_size=2, max_size=60), st.integers(2, 1000))
def test_warm_up_does_not_depend_on_the_unit(durations, factor) -> None:
    in_band = np.array(durations, dtype=np.int64)
    spread = np.abs(np.log(in_band) - np.median(np.log(in_band)))
    if spread.max() < 0.1:  # clear of the band's edge, where rounding could decide
        assert warm_up_length(in_band) == warm_up_length(in_band * factor) == 0


def test_other_kinds_profiled_steps_and_the_step_after_are_left_out() -> None:
    kinds = ["train"] * 6 + ["eval"] + ["train"] * 3
    table = steps([10] * 10, kinds, profiled={2, 3, 9})
    assert steady(table).tolist() == [
        True, True, False, False, False, True, False, True, True, False,
    ]  # fmt: skip


def test_no_steps_and_a_single_step_are_not_steady() -> None:
    assert steady(steps([])).tolist() == []
    assert steady(Table()).tolist() == []
    assert steady(steps([10])).tolist() == [False]
    assert steady(steps([10, 10], ["eval", "train"])).tolist() == [False, False]


@given(st.lists(st.integers(0, 2**53), min_size=1, max_size=40))
def test_is_that_of_numpy(numbers: list[int]) -> None:
    values = np.asarray(numbers, dtype=np.int64)
    assert median(values) == float(np.median(values))
    assert median(values / 7) == float(np.median(values / 7))


KINDS = st.lists(st.sampled_from((TRAIN, EVAL, INFER)))


def steps_of(kinds: list[str]) -> Table:
    table = GrowingTable(STEP_COLUMNS, floats=False, text=STEP_TEXT)
    table.extend([step_row(at, kind=kind) for at, kind in enumerate(kinds)])
    return table.freeze()


def main_kind(steps: Table, downsampled: Aggregates = NO_AGGREGATES) -> str:
    return step_kind(facts_of(steps=steps, downsampled=downsampled))


def test_one_training_step_outweighs_all_evaluation() -> None:
    assert main_kind(steps_of([EVAL] * 9 + [TRAIN])) == TRAIN
    assert main_kind(steps_of([EVAL] * 9), aggregates_of(steps_of([TRAIN]))) == TRAIN


def test_without_training_it_is_what_came_more_often() -> None:
    assert main_kind(steps_of([INFER, EVAL, INFER])) == INFER
    assert main_kind(steps_of([INFER, EVAL, EVAL])) == EVAL
    assert main_kind(steps_of([INFER]), aggregates_of(steps_of([EVAL, EVAL]))) == EVAL
    assert main_kind(Table(), aggregates_of(steps_of([INFER]))) == INFER


def test_before_the_first_step_it_is_training() -> None:
    assert main_kind(steps_of([])) == TRAIN
    assert main_kind(Table()) == TRAIN


@pytest.mark.slow
@given(kept=KINDS, gone=KINDS)
def test_steps_are_counted_alike_whether_kept_or_summed(kept: list[str], gone: list[str]) -> None:
    counts = Counter(kept + gone)
    facts = facts_of(steps=steps_of(kept), downsampled=aggregates_of(steps_of(gone)))
    for kind in (TRAIN, EVAL, INFER):
        assert count_of(kind, facts) == counts[kind]


TIMES = st.integers(0, 10**10)
ROWS = st.tuples(st.booleans(), st.booleans(), TIMES, TIMES, TIMES)


@given(st.lists(ROWS, max_size=30))
def test_only_timed_steps_that_were_chosen_count(
    rows: list[tuple[bool, bool, int, int, int]],
) -> None:
    columns = ("device_forward", "device_backward", "device_optimizer")
    values = {
        name: np.array([row[2 + at] if row[1] else -1 for row in rows], dtype=np.int64)
        for at, name in enumerate(columns)
    }
    mask = np.array([row[0] for row in rows], dtype=np.bool_)

    facts = facts_of(steps=Table(values=values))
    facts.worked_out[steady_mask] = mask
    share = device_phases(facts)

    chosen = [row for row in rows if row[0] and row[1]]
    if not chosen:
        assert share is None
        return
    assert share is not None
    assert share.count == len(chosen)
    means = [sum(row[2 + at] for row in chosen) // len(chosen) for at in range(3)]
    assert share.parts == tuple(zip(("forward", "backward", "optimizer"), means, strict=True))


def test_a_run_of_before_there_were_such_columns_tells_none() -> None:
    facts = facts_of(steps=Table(values={"duration": np.array([1, 2])}))
    facts.worked_out[steady_mask] = np.array([True, True])
    assert device_phases(facts) is None
