"""Which steps are judged, of which kind, and into what parts they fall."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.fact import Facts
from perftui.facts.step.steps import (
    EVAL,
    INFER,
    LONGEST_WARM_UP,
    TRAIN,
    StepBreakdown,
    count_of,
    device_phases,
    median,
    run_breakdown,
    steady,
    steady_mask,
    step_kind,
    warm_up_length,
)
from perftui.format import whole_quotients
from perftui.run.columns import PHASES, STEP_COLUMNS
from perftui.run.table import Table, Weighed, aggregates_of
from tests.core.diagnosis.runs import facts_of
from tests.step_rows import step_row, table_of


def steps_of(kinds: Iterable[str], profiled: frozenset[int] = frozenset()) -> Table:
    """Steps of 10 ns of these kinds."""
    phases = [0] * (len(PHASES) - 1) + [10]
    numbered = enumerate(kinds)
    rows = [step_row(n, phases, kind=one, profiled=int(n in profiled)) for n, one in numbered]
    return table_of(STEP_COLUMNS, rows)


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
def test_warm_up_ends_where_usual_steps_begin(durations: np.ndarray, expected: int) -> None:
    assert warm_up_length(durations) == expected


@given(st.lists(st.integers(0, 10**12), max_size=60))
def test_warm_up_never_takes_more_than_half(durations: list[int]) -> None:
    length = warm_up_length(np.array(durations, dtype=np.int64))
    assert 0 <= length <= max(len(durations) // 2, len(durations) == 1)


@given(st.lists(st.integers(1, 10**9), min_size=2, max_size=60), st.integers(2, 1000))
def test_warm_up_does_not_depend_on_the_unit(durations: list[int], factor: int) -> None:
    in_band = np.array(durations, dtype=np.int64)
    spread = np.abs(np.log(in_band) - np.median(np.log(in_band)))
    if spread.max() < 0.1:  # clear of the band's edge, where rounding could decide
        assert warm_up_length(in_band) == warm_up_length(in_band * factor) == 0


def test_other_kinds_profiled_steps_and_the_step_after_are_left_out() -> None:
    kinds = [TRAIN] * 6 + [EVAL] + [TRAIN] * 3
    assert steady(steps_of(kinds, frozenset({2, 3, 9}))).tolist() == [
        True, True, False, False, False, True, False, True, True, False,
    ]  # fmt: skip


def test_no_steps_and_a_single_step_are_not_steady() -> None:
    assert steady(steps_of([])).tolist() == steady(Table()).tolist() == []
    assert steady(steps_of([TRAIN])).tolist() == [False]
    assert steady(steps_of([EVAL, TRAIN])).tolist() == [False, False]


@given(st.lists(st.integers(0, 2**53), min_size=1, max_size=40))
def test_the_median_is_that_of_numpy(numbers: list[int]) -> None:
    values = np.asarray(numbers, dtype=np.int64)
    assert median(values) == float(np.median(values))
    assert median(values / 7) == float(np.median(values / 7))


def facts_with(kept: Iterable[str], gone: Iterable[str]) -> Facts:
    """Of steps of these kinds, of which the first are rows and the others only sums."""
    return facts_of(steps=replace(steps_of(kept), sums=aggregates_of(steps_of(gone))))


def main_kind(kept: list[str], *gone: str) -> str:
    return step_kind(facts_with(kept, gone))


def test_steps_are_training_or_what_came_more_often() -> None:
    assert main_kind([EVAL] * 9 + [TRAIN]) == main_kind([EVAL] * 9, TRAIN) == TRAIN
    assert main_kind([INFER, EVAL, INFER]) == main_kind([], INFER) == INFER
    assert main_kind([INFER, EVAL, EVAL]) == main_kind([INFER], EVAL, EVAL) == EVAL
    assert main_kind([]) == step_kind(facts_of(steps=Table())) == TRAIN


KINDS = st.lists(st.sampled_from((TRAIN, EVAL, INFER)))


@pytest.mark.slow
@given(kept=KINDS, gone=KINDS)
def test_steps_are_counted_alike_whether_kept_or_summed(kept: list[str], gone: list[str]) -> None:
    counts = Counter(kept + gone)
    facts = facts_with(kept, gone)
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
    facts = facts_of(steps=Table(values=values))
    facts.worked_out[steady_mask] = np.array([row[0] for row in rows], dtype=np.bool_)
    share = device_phases(facts)

    chosen = [row for row in rows if row[0] and row[1]]
    if not chosen:
        assert share is None
        return
    assert share.count == len(chosen)
    means = [sum(row[2 + at] for row in chosen) // len(chosen) for at in range(3)]
    assert share.parts == tuple(zip(("forward", "backward", "optimizer"), means, strict=True))


def breakdown(
    phases: list[list[int]], mask: list[bool] | None = None, wrong_by: tuple[int, ...] = ()
) -> StepBreakdown | None:
    """Of steps of these phases, which are longer than their sum by ``wrong_by``."""
    wrong = [*wrong_by, *[0] * len(phases)]
    rows = [step_row(n, row, duration=sum(row) + wrong[n]) for n, row in enumerate(phases)]
    chosen = np.array(mask or [True] * len(rows), dtype=bool)
    return run_breakdown(table_of(STEP_COLUMNS, rows), chosen)


PHASE_TIMES = st.lists(st.integers(0, 10**10), min_size=len(PHASES), max_size=len(PHASES))


@pytest.mark.slow
@given(st.lists(PHASE_TIMES, min_size=1, max_size=30))
def test_parts_sum_to_the_mean_step_and_are_the_means(rows: list[list[int]]) -> None:
    share = breakdown(rows)
    assert sum(part for _, part in share.parts) == share.mean
    assert share.mean == sum(map(sum, rows)) // len(rows)
    for at, (_, part) in enumerate(share.parts):
        assert abs(part - Fraction(sum(row[at] for row in rows), len(rows))) < 1


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(0, 100))
def test_a_quantile_is_the_smallest_value_that_enough_do_not_exceed(
    values: list[int], percent: int
) -> None:
    enough = [
        v for v in sorted(values) if 100 * sum(x <= v for x in values) >= percent * len(values)
    ]
    assert Weighed(np.array(values)).nearest_rank(percent) == enough[0]


def test_the_mask_chooses_the_steps() -> None:
    rows = [[1_000, 0, 5, 0, 0, 0, 0], [10, 0, 5, 0, 0, 0, 0], [20, 0, 5, 0, 0, 0, 0]]
    share = breakdown(rows, [False, True, True])
    assert (share.count, share.mean, share.part("input_wait"), share.p50) == (2, 20, 15, 15)
    assert share.steps_per_second == pytest.approx(5e7)
    assert breakdown(rows[:1], [False]) is breakdown([]) is None


@pytest.mark.parametrize(
    ("durations", "usual"),
    [
        ([10] * 19 + [5_000], 10),
        ([10] * 18 + [1, 5_000], 10),
        ([30, 10] * 10, 20),
        ([10, 30], 20),
        ([7], 7),
    ],
)
def test_the_usual_step_leaves_extreme_ones_out_and_regular_waits_in(
    durations: list[int], usual: int
) -> None:
    share = breakdown([[duration, 0, 0, 0, 0, 0, 0] for duration in durations])
    assert share.usual == usual


def test_steps_whose_phases_do_not_sum_are_left_out_and_counted() -> None:
    row = [10, 0, 5, 5, 0, 0, 0]
    share = breakdown([row, row, row], wrong_by=(0, 7))
    assert (share.count, share.inconsistent, share.mean) == (2, 1, 20)
    assert breakdown([row], wrong_by=(1,)) is None


@given(st.lists(st.integers(0, 2**62), max_size=8), st.integers(1, 2**40))
def test_quotients_are_off_by_less_than_one_and_sum_to_the_whole(
    numerators: list[int], denominator: int
) -> None:
    quotients = whole_quotients(numerators, denominator)
    exact = [Fraction(numerator, denominator) for numerator in numerators]
    assert all(abs(q - e) < 1 for q, e in zip(quotients, exact, strict=True))
    assert sum(quotients) == sum(numerators) // denominator


def test_larger_remainders_are_rounded_up_first_and_of_equals_the_first() -> None:
    assert whole_quotients([14, 16, 10], 10) == [1, 2, 1]
    assert whole_quotients([15, 15, 10], 10) == [2, 1, 1]
