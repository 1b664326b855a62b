"""What phases took on the GPU, by events that were read later, and by the kernels of the window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.gpu.record import RECORDED
from tests.gpu.recorded import LAUNCHING, ON_DEVICE, Event, Recorded, begin, correlation, end

PHASES = ("forward", "backward", "optimizer")

TOLERANCE = 0.02


def phases_by_kernels(run: Recorded) -> dict[int, dict[str, float]]:
    """Microseconds of each phase of each step.

    From when the GPU reached the event at the beginning of the phase, which is when the host
    recorded it or when all work before it was done, until it had done the work of the phase.
    """
    launched_at = {correlation(call): begin(call) for call in run.of(*LAUNCHING)}
    work = [
        (launched_at[correlation(event)], end(event))
        for event in run.of(*ON_DEVICE)
        if correlation(event) in launched_at
    ]
    marks = [
        begin(call) for call in run.of("cuda_runtime") if call["name"].startswith("cudaEventRecord")
    ]
    found: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for step, range_ in ranges(run):
        inside = [mark for mark in marks if begin(range_) <= mark <= end(range_)]
        first, last = inside[0], inside[-1]
        before = max((done for launch, done in work if launch < first), default=first)
        done = max(done for launch, done in work if first <= launch <= last)
        phase = range_["name"].removeprefix("perftui::")
        found[step][phase] += max(done, last) - max(before, first)
    return found


def ranges(run: Recorded) -> list[tuple[int, Event]]:
    """The ranges of phases, each with the step that it is of."""
    annotations = run.of("user_annotation")
    steps = [one for one in annotations if one["name"].startswith("ProfilerStep#")]
    return [
        (int(step["name"].partition("#")[2]), one)
        for one in annotations
        for step in steps
        if one["name"].removeprefix("perftui::") in PHASES
        if begin(step) <= begin(one) < end(step)
    ]


@pytest.mark.parametrize("name", RECORDED)
def test_phases_take_as_long_as_their_kernels(
    name: str, recorded: Callable[[str], Recorded]
) -> None:
    run = recorded(name)
    by_kernels = phases_by_kernels(run)

    window = run.window_facts
    first, steps = window["first_step"], window["steps"]
    assert sorted(by_kernels) == list(range(first, first + steps))
    for step, phases in by_kernels.items():
        assert sorted(phases) == sorted(PHASES)
        for phase, us in phases.items():
            by_events = run.rank.steps[f"device_{phase}"][step] / 1e3
            assert by_events == pytest.approx(us, rel=TOLERANCE), (step, phase)


@pytest.mark.parametrize("name", RECORDED)
def test_memory_is_told_of_steps_and_never_exceeds_what_is_reserved(
    name: str, recorded: Callable[[str], Recorded]
) -> None:
    steps = recorded(name).rank.steps
    known = steps["allocated"] >= 0

    assert known.sum() >= 5
    assert (steps["allocated"][known] <= steps["reserved"][known]).all()
    assert (steps["allocated"][known] <= steps["peak_allocated"][known]).all()
    peaks = steps["peak_allocated"][known]
    assert (peaks[1:] >= peaks[:-1]).all()
