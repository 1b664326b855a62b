from __future__ import annotations

import pytest

from perftui.analysis.model import Step
from perftui.analysis.steps import median_duration, slow_steps


def steps_of(*durations: int) -> list[Step]:
    return [Step(at, 1000 * at, 1000 * at + length, at) for at, length in enumerate(durations)]


@pytest.mark.parametrize(
    ("durations", "median", "slow"),
    [
        ((), 0, []),
        ((100,), 100, []),
        ((100, 109, 110, 111, 100, 100), 100, [2, 3]),
        ((100, 300), 100, [1]),
        ((0, 0, 5), 0, []),
    ],
)
def test_slow_is_a_tenth_above_the_median(
    durations: tuple[int, ...], median: int, slow: list[int]
) -> None:
    steps = steps_of(*durations)
    assert median_duration(steps) == median
    assert [step.index for step in slow_steps(steps)] == slow
