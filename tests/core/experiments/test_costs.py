"""What a change costs besides the step."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.experiments.trial_runs import Arm, TrialRun, costs_of
from perftui.facts.gpu.memory import PeakMemory

MS, S, GB = 10**6, 10**9, 10**9


def runs(
    step: tuple[int, int],
    start: tuple[float | None, float | None] = (None, None),
    memory: tuple[float | None, float | None] = (None, None),
    is_gpu: bool = True,
) -> list[TrialRun]:
    return [
        TrialRun(
            arm,
            Path(),
            step[at] * MS,
            start_ns=None if start[at] is None else round(start[at] * S),
            memory=None if memory[at] is None else PeakMemory(round(memory[at] * GB), is_gpu),
        )
        for _ in range(3)
        for at, arm in enumerate(Arm)
    ]


def test_a_later_start_is_made_up_for_by_steps() -> None:
    costs = costs_of(runs((30, 20), (5.0, 43.0)))
    assert costs.break_even_steps == 3_800
    assert costs.sentences == ("starts 38 s later, made up for after 3,800 steps",)


@pytest.mark.parametrize("step", [(20, 20), (20, 30)])
def test_a_step_that_is_no_shorter_makes_up_for_nothing(step: tuple[int, int]) -> None:
    costs = costs_of(runs(step, (5.0, 43.0)))
    assert costs.break_even_steps is None
    assert costs.sentences == ("starts 38 s later",)


def test_a_start_that_is_about_the_same_is_not_reported() -> None:
    assert costs_of(runs((30, 20), (5.0, 5.9))).sentences == ()
    assert costs_of(runs((30, 20), (43.0, 5.0))).sentences == ()


@pytest.mark.parametrize(("is_gpu", "of"), [(True, "the GPU"), (False, "all processes")])
def test_memory_is_reported_where_it_differs(is_gpu: bool, of: str) -> None:
    more = costs_of(runs((30, 20), memory=(1.2, 1.5), is_gpu=is_gpu))
    assert more.sentences == (f"peak memory of {of} 1.1 GiB -> 1.4 GiB",)
    assert costs_of(runs((30, 20), memory=(1.2, 1.22), is_gpu=is_gpu)).sentences == ()


def test_what_was_not_recorded_is_not_known() -> None:
    costs = costs_of(runs((30, 20), (None, 4.0), (None, 1.0)))
    assert (costs.start_before_ns, costs.memory_before, costs.sentences) == (None, None, ())
    assert costs_of([]).sentences == ()
