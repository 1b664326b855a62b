"""GPU memory by step, of steps that are kept and of those that were summed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.gpu.cards import MemoryUse, gpu_memory
from perftui.run.columns import STEP_COLUMNS
from perftui.run.table import Table, aggregates_of
from tests.core.diagnosis.runs import facts_of
from tests.step_rows import step_row, table_of


def steps(rows: list[dict[str, Any]]) -> Table:
    """Rows of 1 ms each, numbered from 0."""
    found = [step_row(at, start=at * 10**6, duration=10**6, **row) for at, row in enumerate(rows)]
    return table_of(STEP_COLUMNS, found)


def memory_use(rows: Table) -> MemoryUse | None:
    return gpu_memory(facts_of(steps=rows))


def known(allocated: int, peak: int = -1, reserved: int = 0, **more: int) -> dict[str, int]:
    return {"allocated": allocated, "peak_allocated": peak, "reserved": reserved, **more}


def test_peak_and_the_step_by_which_it_was_reached() -> None:
    use = memory_use(steps([known(1, 5, 8), known(3, 9, 12), {}, known(2, 9, 10)]))
    assert use.step.tolist() == [0, 1, 3]
    assert use.allocated.tolist() == [1, 3, 2]
    assert use.most.tolist() == [5, 9, 9]
    assert (use.peak_allocated, use.peak_step, use.peak_reserved) == (9, 1, 12)


def test_a_training_without_a_gpu_has_none() -> None:
    assert memory_use(steps([{}, {}])) is None
    assert memory_use(steps([])) is None


def test_what_was_not_counted_is_not_taken_for_zero() -> None:
    use = memory_use(steps([known(1), known(1)]))
    assert (use.retries, use.failures) == (None, None)
    counted = memory_use(steps([known(1, alloc_retries=2, alloc_failures=0), known(1)]))
    assert (counted.retries, counted.failures) == (2, 0)


values = st.lists(st.integers(0, 50), min_size=3, max_size=30)


@pytest.mark.slow
@given(values, st.data())
def test_with_sums_it_is_as_without(allocated: list[int], data: st.DataObject) -> None:
    """The step of the peak is told, or said to be unknown where it may be a summed one."""
    peaks = np.maximum.accumulate(allocated).tolist()
    rows = [
        known(a, p, a + 1, alloc_retries=a % 3, alloc_failures=a % 2)
        for a, p in zip(allocated, peaks, strict=True)
    ]
    table = steps(rows)
    first = data.draw(st.integers(1, len(rows) - 1))
    end = data.draw(st.integers(first, len(rows) - 1))
    number = np.arange(len(rows))
    between = (number >= first) & (number < end)
    whole = memory_use(table)
    part = memory_use(replace(table.where(~between), sums=aggregates_of(table.where(between))))
    assert part.summed == end - first
    for name in ("peak_allocated", "peak_reserved", "retries", "failures"):
        assert getattr(part, name) == getattr(whole, name)
    assert whole.peak_step == peaks.index(max(peaks))
    may_be_summed = first < end and whole.peak_step >= first and whole.peak_step <= end
    assert part.peak_step == (-1 if may_be_summed else whole.peak_step)


@pytest.mark.parametrize("allocated", [[5, 5], [5, 3]])
def test_what_is_held_at_the_end_counts_for_the_peak(allocated: list[int]) -> None:
    use = memory_use(steps([known(one) for one in allocated]))
    assert (use.peak_allocated, use.peak_step) == (5, 0)
