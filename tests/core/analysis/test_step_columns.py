"""The newest step in columns: what covers each, and where the gaps are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.timeline.measure import step_columns
from perftui.trace.model import NONE
from tests.traces.builder import TraceBuilder, ms, us


def training(steps: int = 2) -> TraceBuilder:
    """Steps of 100 ms: 40 of waiting for data, 20 forward, 30 backward, 10 of the optimizer."""

    def step(story: TraceBuilder) -> object:
        began = story.now
        story.step(ms(100) - us(1))
        story.data_wait(ms(40))
        story.at(began + ms(40)).forward(ms(20))
        story.at(began + ms(41)).launch("matmul", ms(9), call=us(20), starts=began + ms(45))
        story.at(began + ms(60)).backward(ms(30))
        story.at(began + ms(61)).launch("matmul", ms(25), call=us(20), starts=began + ms(62))
        story.at(began + ms(90)).optimizer(ms(10) - us(2))
        return story.at(began + ms(100))

    return TraceBuilder().repeat(steps, step)


def test_each_column_has_the_phase_that_covers_most_of_it() -> None:
    found = step_columns(training().analysis(), 10)
    assert found is not None
    assert found.step.start == ms(100)
    assert found.phases == (
        *("input_wait",) * 4,
        *("forward",) * 2,
        *("backward",) * 3,
        "optimizer",
    )


def test_a_device_is_as_busy_as_its_kernels_cover() -> None:
    found = step_columns(training().analysis(), 10)
    assert found is not None
    (card,) = found.busy
    assert card.device == 0
    busy = [0, 0, 0, 0, 0.5, 0.4, 0.8, 1, 0.7, 0]
    assert card.shares == pytest.approx(busy, abs=0.01)


def test_gaps_are_those_of_the_step() -> None:
    found = step_columns(training().analysis(), 10)
    assert found is not None
    longest = found.gaps[0]
    assert longest.duration == ms(100) - ms(87) + ms(45)
    assert found.column_of(longest.end) == 4
    assert (found.column_of(0), found.column_of(ms(999))) == (0, 9)
    assert all(gap.end > found.step.start and gap.start < found.step.end for gap in found.gaps)


def test_without_a_gpu_the_training_thread_is_drawn() -> None:
    story = TraceBuilder().repeat(
        2, lambda t: t.step(ms(10)).at(t.now + ms(5)).op("aten::mm", ms(5)).end().pause(ms(1))
    )
    found = step_columns(story.analysis(), 2)
    assert found is not None
    assert [one.device for one in found.busy] == [NONE]
    assert found.gaps == ()


def test_without_steps_there_are_no_columns() -> None:
    assert step_columns(TraceBuilder().op("aten::mm", ms(5)).analysis(), 10) is None
    assert step_columns(training().analysis(), 0) is None


@given(columns=st.integers(1, 300))
def test_all_columns_together_hold_the_work_of_the_step(columns: int) -> None:
    found = step_columns(ANALYSIS, columns)
    assert found is not None
    (card,) = found.busy
    assert len(card.shares) == len(found.phases) == columns
    assert all(0 <= share <= 1 for share in card.shares)
    whole = sum(card.shares) * found.step.duration / columns
    # Columns are whole nanoseconds wide.
    assert whole == pytest.approx(ms(34), abs=columns)


ANALYSIS = training().analysis()
