"""Means of phases on the GPU, over the steps that were timed there."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.gpu.device_phases import device_phases
from perftui.facts.step.steps import steady_mask
from perftui.run.table import Table
from tests.core.diagnosis.runs import facts_of

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
