"""What recording has taken of a training."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.step.own_cost import OwnCost, recording_cost
from perftui.run.aggregates import NO_AGGREGATES, Aggregates, aggregates_of
from perftui.run.columns import STEP_COLUMNS
from perftui.run.table import Table
from tests.core.diagnosis.runs import facts_of
from tests.step_rows import table_of

MS = 1_000_000


def row(duration: int, kind: str = "train", **values: int) -> list[Any]:
    """One step; what is not named is 0."""
    given = {"kind": kind, "duration": duration, "other": duration, **values}
    return [given.get(column.name, 0) for column in STEP_COLUMNS]


def steps(*rows: list[Any]) -> Table:
    return table_of(STEP_COLUMNS, rows)


def own_cost(rows: Table, downsampled: Aggregates = NO_AGGREGATES) -> OwnCost | None:
    return recording_cost(facts_of(steps=rows, downsampled=downsampled))


def test_hooks_stalls_and_slower_steps_are_counted() -> None:
    plain = [row(30 * MS, overhead=MS // 10)] * 8
    window = [
        row(50 * MS, profiled=1, profiler=4 * MS, overhead=MS // 10),
        row(36 * MS, profiled=1, profiler=6 * MS),
    ]

    assert own_cost(steps(*plain, *window, row(MS, "eval", profiler=2 * MS))) == OwnCost(
        hooks=9 * (MS // 10),
        stalls=12 * MS,
        slowed=16 * MS,
        slowed_at_most=16 * MS,
        whole=(8 * 30 + 50 + 36 + 1) * MS,
    )


def test_what_the_scatter_of_steps_hides_is_not_charged_but_told() -> None:
    plain = [row(duration * MS) for duration in (20, 40) * 8]
    window = [row(34 * MS, profiled=1)]

    cost = own_cost(steps(*plain[:8], *window, *plain[8:]))

    assert cost is not None
    assert (cost.slowed, cost.total) == (0, 0)
    # 2 ms longer than the mean of ten steps beside it; they scatter by 10.3 ms.
    most = 2 * MS + 2 * 10.33 * MS * 1.1**0.5
    assert cost.slowed_at_most == cost.at_most == pytest.approx(most, rel=0.01)


def test_nothing_is_known_before_the_first_step() -> None:
    assert own_cost(steps()) is None


def test_nothing_is_known_where_an_agent_did_not_count() -> None:
    assert own_cost(Table()) is None


@pytest.mark.parametrize("profiled", [0, 1])
def test_without_a_step_to_compare_with_nothing_was_slowed(profiled: int) -> None:
    cost = own_cost(steps(row(30 * MS, profiled=profiled)))

    assert cost is not None
    assert cost.total == 0


@pytest.mark.slow
@given(
    st.lists(
        st.builds(
            lambda duration, profiler, profiled, overhead, kind: row(
                duration + profiler, kind, profiler=profiler, profiled=profiled, overhead=overhead
            ),
            st.integers(1, 10**10),
            st.integers(0, 10**8),
            st.integers(0, 1),
            st.integers(0, 10**6),
            st.sampled_from(["train", "eval"]),
        ),
        max_size=20,
    )
)
def test_steps_that_are_no_longer_kept_count_all_the_same(rows: list[list[Any]]) -> None:
    recent = [row(30 * MS)] * 41
    together = own_cost(steps(*rows, *recent))
    apart = own_cost(steps(*recent), aggregates_of(steps(*rows)))

    assert together is not None
    assert apart is not None
    assert (apart.hooks, apart.stalls, apart.whole) == (
        together.hooks,
        together.stalls,
        together.whole,
    )
