"""Which steps of a run are looked at."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.step.steps import EVAL, INFER, TRAIN, count_of, step_kind
from perftui.run.aggregates import NO_AGGREGATES, Aggregates, aggregates_of
from perftui.run.columns import STEP_COLUMNS, STEP_TEXT
from perftui.run.table import GrowingTable, Table
from tests.core.diagnosis.runs import facts_of
from tests.step_rows import step_row

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
