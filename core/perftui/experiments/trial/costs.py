"""What a change costs besides the step: a later start, more memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from perftui import format as fmt
from perftui.experiments.trial.runs import Arm, TrialRun

LATER = 1e9
"""ns by which the start has to be later to be told: imports alone differ by tenths of a second."""

MORE = 0.05
"""Share by which the memory has to differ to be told."""


@dataclass(frozen=True)
class Costs:
    """Medians over the runs of each arm; None if not recorded."""

    start_before_ns: int | None = None
    start_after_ns: int | None = None
    """From the start of the command to where steps are steady, without the time of those steps."""
    break_even_steps: int | None = None
    """Steps after which a later start is made up for; None where it is not later, or never is."""
    memory_before: int | None = None
    memory_after: int | None = None
    """Peaks, bytes: of the GPU, or where there is none of all processes."""
    is_gpu_memory: bool = False

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is worth a word, for a person."""
        return tuple(filter(None, (self._start(), self._memory())))

    def _start(self) -> str:
        before, after = self.start_before_ns, self.start_after_ns
        if before is None or after is None or after - before < LATER:
            return ""
        later = f"starts {fmt.duration(after - before)} later"
        if self.break_even_steps is None:
            return later
        return f"{later}, made up for after {self.break_even_steps:,} steps"

    def _memory(self) -> str:
        before, after = self.memory_before, self.memory_after
        if before is None or after is None or abs(after / before - 1) < MORE:
            return ""
        of = "of the GPU" if self.is_gpu_memory else "of all processes"
        return f"peak memory {of} {fmt.size(before)} -> {fmt.size(after)}"


NO_COSTS = Costs()
"""Before the first pair."""


def costs_of(runs: Sequence[TrialRun]) -> Costs:
    """What the ``runs`` of a trial tell."""
    before, after = ([run for run in runs if run.arm is arm] for arm in Arm)
    start_before, start_after = (_middle([run.start_ns for run in arm]) for arm in (before, after))
    return Costs(
        start_before,
        start_after,
        _break_even(before, after, start_before, start_after),
        _middle([run.memory.size if run.memory else None for run in before]),
        _middle([run.memory.size if run.memory else None for run in after]),
        is_gpu_memory=any(run.memory is not None and run.memory.is_gpu for run in runs),
    )


def _break_even(
    before: Sequence[TrialRun],
    after: Sequence[TrialRun],
    start_before: int | None,
    start_after: int | None,
) -> int | None:
    if start_before is None or start_after is None or start_after - start_before < LATER:
        return None
    steps = [median(run.step_ns for run in arm) for arm in (before, after)]
    gained = steps[0] - steps[1]
    return round((start_after - start_before) / gained) if gained > 0 else None


def _middle(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(median(known)) if known else None
