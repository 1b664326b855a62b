"""How many training steps are expected to come."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.recording.steps import EVAL, TRAIN, Boundary
from perftui.agent.windows.plan import (
    LEAST_GAPS,
    LONG_GAP,
    MANY,
    MUCH_LONGER_GAP,
    REMEMBERED_RUNS,
    TrainingRuns,
)

T, E, E_TOLD = (TRAIN, False), (EVAL, False), (EVAL, True)
"""Steps, and whether the call that ends them has gradients."""

Step = tuple[str, bool]


def after(steps: list[Step]) -> TrainingRuns:
    runs = TrainingRuns()
    for kind, trains_next in steps:
        runs.step(Boundary(kind, 0, 1, trains_next=trains_next))
    return runs


@pytest.mark.parametrize(
    ("steps", "ahead"),
    [
        ([T], MANY),
        ([T, E], 0),
        ([T, E_TOLD], 1),
        ([T, T, T, E, E, E, T], 2),
        ([T, T, T, E, E, E, T, T, T], 0),
        ([T, T, T, E, E, E, T, T, T, T], MANY),
        ([T, T, T, E, T, E, T], 0),
        ([T, T, T, E, T, E, T, T], 1),
        # Gaps without a sign are as long as the ones before, those with one never end without it.
        ([T, T, E, E, T, T, E, E], 0),
        ([T, T, E, E, T, T, E, E, T, T, E, E], 2),
        ([T, T, E, E, T, T, E, E, T, T, E, E, E], 0),
        ([T, T, E, E, T, T, E, T, T, E, E], 0),
        ([T, T, E, E_TOLD, T, T, E, E_TOLD, T, T, E, E], 0),
        # An update by hand ends where the next call begins.
        ([T, E, (TRAIN, False)], 0),
        ([T, E, (TRAIN, True)], 1),
    ],
)
def test_a_run_is_as_long_as_those_before(steps: list[Step], ahead: int) -> None:
    assert after(steps).ahead == ahead


@pytest.mark.parametrize(
    ("steps", "is_foreseen"),
    [
        ([T, E, T], False),
        ([T, E_TOLD, T], True),
        ([T, E_TOLD, T, E, T], False),
        ([T, E, T, E, T, E, T], True),
    ],
)
def test_what_was_known_of_the_last_run_before_it_began(
    steps: list[Step], is_foreseen: bool
) -> None:
    assert after(steps).is_foreseen is is_foreseen


def test_training_is_over_when_a_gap_is_much_longer_than_any() -> None:
    assert not after([T] + [E] * LONG_GAP).seem_over
    assert after([T] + [E] * (LONG_GAP + 1)).seem_over
    rollouts = [T] + [E] * 2 * LONG_GAP
    assert not after([*rollouts, T] + [E] * 2 * LONG_GAP * MUCH_LONGER_GAP).seem_over
    assert after([*rollouts, T] + [E] * (2 * LONG_GAP * MUCH_LONGER_GAP + 1)).seem_over
    assert not after([*rollouts, T]).seem_over


def expected(steps: list[Step]) -> int:
    """The same, from all that has been so far."""
    groups = [(kind, list(group)) for kind, group in groupby(steps, key=lambda step: step[0])]
    *before, (kind, newest) = groups
    runs = [len(group) for kind, group in before if kind == TRAIN][-REMEMBERED_RUNS:]
    gaps = [group for kind, group in before if kind == EVAL][-REMEMBERED_RUNS:]
    trains_next = newest[-1][1]
    if kind == TRAIN:
        lengths = sorted(run for run in runs if run >= len(newest))
        ahead = lengths[0] - len(newest) if lengths else MANY
        return 1 if trains_next and not ahead else ahead
    are_alike = len(gaps) >= LEAST_GAPS and all(len(gap) == len(newest) for gap in gaps)
    was_told = bool(gaps) and gaps[-1][-1][1]
    return min(runs) if trains_next or (are_alike and not was_told) else 0


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 4), st.booleans()), min_size=1, max_size=9
    ),
    st.integers(0, 3),
    st.booleans(),
)
def test_any_loop_is_told_from_its_last_runs_and_gaps(
    turns: list[tuple[int, int, bool]], taken_together: int, ends_in_a_run: bool
) -> None:
    steps: list[Step] = []
    for run, gap, tells in turns:
        steps += [T] * run + [E] * gap
        steps[-1] = E_TOLD if tells else E
    steps += [T] if ends_in_a_run else []
    for number in range(1, len(steps) + 1):
        assert after(steps[:number]).ahead == expected(steps[:number])

    if ends_in_a_run:
        runs = after(steps)
        runs.usual(taken_together)
        assert runs.ahead == expected(steps + [T] * taken_together)
