"""Memory over time by category: replayed event by event, and drawn in columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.memory import (
    NEVER,
    Allocations,
    Category,
    Lifetimes,
    MemoryOverTime,
    Phase,
    Runs,
    categories,
    over_time,
    without_blocks,
)
from perftui.trace.model import NONE


@dataclass(frozen=True)
class Event:
    """One event: of an address that is taken or released, some time after the one before."""

    address: int
    takes: bool
    size: int
    category: Category
    later: int


KINDS = [each for each in Category if each is not Category.BEFORE]
EVENTS = st.lists(
    st.builds(
        Event,
        st.integers(0, 4),
        st.booleans(),
        st.integers(1, 9),
        st.sampled_from(KINDS),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=30,
)
"""Also a release without its allocation, and an address that is taken twice."""


def replayed(events: list[Event], before: int) -> list[list[int]]:
    """What each category holds at the start and after each event, one by one."""
    held: dict[int, Event] = {}
    levels = [[before] + [0] * (len(Category) - 1)]
    for event in events:
        now = list(levels[-1])
        old = held.pop(event.address, None)
        if old is not None:
            now[old.category] -= old.size
        elif not event.takes:
            now[Category.BEFORE] -= event.size
        if event.takes:
            held[event.address] = event
            now[event.category] += event.size
        levels.append(now)
    return levels


def made(events: list[Event], before: int | None) -> MemoryOverTime:
    takes = np.array([event.takes for event in events])
    lives = Lifetimes.of(np.array([event.address for event in events]), takes, ~takes)
    kinds = np.array([int(event.category) for event in events])
    return over_time(
        device=0,
        time=np.cumsum([event.later for event in events]),
        sizes=np.array([event.size for event in events]),
        lives=lives,
        category=np.where(lives.first == NONE, 0, kinds[lives.first]),
        before=before,
    )


def released_of_before(events: list[Event]) -> int:
    return -min(level[Category.BEFORE] for level in replayed(events, 0))


@pytest.mark.slow
@given(EVENTS, st.integers(0, 20))
def test_parts_are_those_of_a_replay_and_sum_to_the_level(events: list[Event], more: int) -> None:
    before = released_of_before(events) + more
    memory = made(events, before)
    levels = replayed(events, before)
    assert memory.parts.T.tolist() == levels
    assert memory.level.tolist() == [sum(level) for level in levels]
    assert memory.absolute
    assert sum(each.bytes for each in memory.at_peak()) == max(map(sum, levels))


@pytest.mark.slow
@given(EVENTS)
def test_what_was_held_before_is_at_least_what_is_released_of_it(events: list[Event]) -> None:
    unknown = made(events, None)
    least = released_of_before(events)
    assert not unknown.absolute
    assert unknown.parts.T.tolist() == replayed(events, least)
    if least:
        assert made(events, least - 1).parts.tolist() == unknown.parts.tolist()


@pytest.mark.slow
@given(EVENTS, st.integers(1, 40))
def test_columns_show_their_highest_moment(events: list[Event], count: int) -> None:
    memory = made(events, released_of_before(events))
    columns = memory.columns(count)
    shown = columns.parts.sum(axis=0)
    first, span = int(memory.time[0]), memory.span
    for column in range(count):
        left, right = (first + round(at * (span / count)) for at in (column, column + 1))
        inside = [
            int(level)
            for at, level in enumerate(memory.level.tolist())
            if left <= memory.time[at] <= right
            or (memory.time[at] <= left and (at + 1 == len(memory) or memory.time[at + 1] > left))
        ]
        assert shown[column] == max(inside)
        assert columns.parts[:, column].tolist() in memory.parts.T.tolist()
    assert shown.max() == shown[columns.peak] == memory.level.max()


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=20), st.none() | st.integers(0, 200))
def test_without_blocks_the_level_is_known_alone(change: list[int], before: int | None) -> None:
    time = np.arange(len(change))
    memory = without_blocks(0, time, np.array(change), before, None)
    sums = [sum(change[:count]) for count in range(len(change) + 1)]
    base = before if before is not None and before >= -min(sums) else -min(sums)
    assert memory.level.tolist() == [base + each for each in sums]
    assert memory.absolute == (before is not None and base == before)
    assert not memory.has_categories


# What memory is for. Time runs 0-9 forward, 10-19 backward, 20-29 optimizer, and over again.

STEP = 30
PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


def told(
    phase: Phase,
    taken: int,
    released: int = NEVER,
    *,
    module: bool = False,
    state: bool = False,
    steps: int = 3,
    cut: bool = False,
) -> Category:
    """The category of one allocation of a training of some steps."""
    marks = [
        (step * STEP + 10 * at, each) for step in range(steps) for at, each in enumerate(PHASES)
    ]
    times, phases = np.array([at for at, _ in marks]), np.array([int(each) for _, each in marks])
    one = Allocations(*(np.array([each]) for each in (taken, released, int(phase), module, state)))
    return Category(int(categories(one, Runs.of(times, phases), cut)[0]))


def test_optimizer_state_outlives_the_step_that_makes_it() -> None:
    assert told(Phase.OPTIMIZER, 25) is Category.OPTIMIZER
    assert told(Phase.OPTIMIZER, 25, STEP + 25) is Category.OPTIMIZER
    assert told(Phase.OPTIMIZER, 25, 27) is Category.TEMPORARY
    assert told(Phase.OPTIMIZER, 2 * STEP + 25) is Category.OPTIMIZER


def test_a_step_in_which_memory_runs_out_says_only_what_torch_makes_as_state() -> None:
    assert told(Phase.OPTIMIZER, 2 * STEP + 25, cut=True) is Category.OTHER
    assert told(Phase.OPTIMIZER, 2 * STEP + 25, state=True, cut=True) is Category.OPTIMIZER
    assert told(Phase.OPTIMIZER, 25, cut=True) is Category.OPTIMIZER


def test_gradients_outlive_the_backward_pass() -> None:
    assert told(Phase.BACKWARD, 12, 25) is Category.GRADIENTS
    assert told(Phase.BACKWARD, 12, 18) is Category.TEMPORARY
    assert told(Phase.BACKWARD, 2 * STEP + 12) is Category.GRADIENTS


def test_activations_are_held_for_the_backward_pass() -> None:
    assert told(Phase.FORWARD, 5, 15) is Category.ACTIVATIONS
    assert told(Phase.FORWARD, 5, 8) is Category.TEMPORARY


def test_the_output_of_a_module_is_one_while_the_script_holds_it_until_the_next() -> None:
    assert told(Phase.FORWARD, 5, STEP + 5, module=True) is Category.ACTIVATIONS
    assert told(Phase.FORWARD, 5, STEP + 5) is Category.OTHER
    assert told(Phase.FORWARD, 5, STEP + 15, module=True) is Category.OTHER
    assert told(Phase.FORWARD, 5, module=True) is Category.OTHER


def test_a_forward_pass_that_nothing_follows() -> None:
    last = 2 * STEP + 5
    assert told(Phase.FORWARD, last + 20, module=True) is Category.ACTIVATIONS
    assert told(Phase.FORWARD, last + 20) is Category.OTHER
    assert told(Phase.FORWARD, last + 20, last + 22, module=True) is Category.TEMPORARY
    assert told(Phase.FORWARD, 5, 8, steps=0) is Category.TEMPORARY


def test_parameters_outlive_the_making_of_a_module_and_unknown_phases_say_nothing() -> None:
    assert told(Phase.SETUP, 0, steps=0) is Category.PARAMETERS
    assert told(Phase.UNKNOWN, 5, 15) is Category.OTHER


@given(st.sampled_from(Phase), st.integers(0, 99), st.integers(1, 99), st.booleans(), st.booleans())
def test_only_the_phase_that_took_it_names_what_lasts(
    phase: Phase, taken: int, later: int, module: bool, cut: bool
) -> None:
    found = told(phase, taken, taken + later, module=module, cut=cut)
    of_phase = {
        Phase.UNKNOWN: set(),
        Phase.SETUP: {Category.PARAMETERS, Category.TEMPORARY},
        Phase.FORWARD: {Category.ACTIVATIONS, Category.TEMPORARY},
        Phase.BACKWARD: {Category.GRADIENTS, Category.TEMPORARY},
        Phase.OPTIMIZER: {Category.OPTIMIZER, Category.TEMPORARY},
    }
    assert found in of_phase[phase] | {Category.OTHER}
