from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.step.steady import LONGEST_WARM_UP, steady, warm_up_length
from perftui.run.columns import PHASES, STEP_COLUMNS
from perftui.run.table import GrowingTable, Table
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


@given(
    st.lists(st.integers(1, 10**9), min_size=2, max_size=60),
    st.integers(2, 1000),
)
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
