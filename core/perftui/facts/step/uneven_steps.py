"""Steady steps that took much longer than the others, and what is different in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui.analysis.intervals import union
from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.script.pauses import compiling_within, gc_pauses_of, saves_within
from perftui.facts.source.lines import LinesByTime
from perftui.facts.source.moments import moments
from perftui.facts.step.steady import Mask, median, usual_distance
from perftui.facts.step.steps import MANY_STEPS, steady_rows
from perftui.run.columns import COMPILE, PHASES, PROFILE, SAVE
from perftui.run.table import Table
from perftui.trace.model import Int64

TIMES_MEDIAN = 1.5
"""Times the median from which on a step is slow: nsys-ai and TraceML."""

DEVIATIONS = 5.0
"""Robust standard deviations above the median: noise alone reaches that in no run."""

COLLECTING, EVALUATING = "collecting garbage", "evaluating"

FORWARD_ALONE = 3.0
"""Times the usual forward pass, while backward is as usual: forward passes of other batches. Where
they fetch those from a data loader, they are steps of evaluation."""

FEWEST_ALIKE = 2
"""Slow steps of that kind: one alone may be anything."""

MOSTLY = 0.75
"""Share of the excess of slow steps that must lie in steps of many forward passes. Half of what is
added to such a step has to be forward passes: an evaluation also compares and counts."""

MOST_UNEXPLAINED = 0.1
"""Share of the steps that may be slow without a cause: where more are, the training has two kinds
of steps rather than a few slow ones."""

LEAST_UNEXPLAINED = 1 / 3
"""Share of the step lost to slow steps of unknown cause: the mean is then 1.5 times the median."""

DIFFERENCE = 0.5
"""Share of the time of slow steps above the median from which on something explains it."""


@dataclass(frozen=True)
class SlowSteps:
    """Times in ns; means are of all ``steps``, slow or not."""

    count: int
    steps: int
    median: int
    mean: int
    typical: int
    """Median of the slow ones."""
    excess: int
    """What slow steps took above the median, as the mean of all steps."""
    phase: str
    """The phase that most of the excess lies in."""
    cause: str
    """``SAVE``, ``COMPILE``, ``PROFILE``, ``COLLECTING``, ``EVALUATING``, or empty."""
    explained: int
    """The part of ``excess`` that is due to ``cause``, in the same mean."""
    every: int
    """Steps from one slow one to the next, where that is always about the same; else 0."""
    lines: LinesByTime | None
    """Where the main thread was in slow steps: while at the cause where there is one."""

    @property
    def stands_out(self) -> bool:
        """Whether slow steps are few, and hold much of the time, for no known reason."""
        is_few = self.count <= MOST_UNEXPLAINED * self.steps
        return is_few and self.excess >= LEAST_UNEXPLAINED * self.mean


@fact
def slow_steps(facts: Facts) -> SlowSteps | None:
    """The slow steps among the steady ones; None where no step is slow.

    Raises:
        UnknownError: there are too few steps to know what is usual.
    """
    steps = steady_rows(facts)
    if len(steps) < MANY_STEPS:
        raise UnknownError(f"{len(steps)} of {MANY_STEPS} steady steps so far")
    duration: Int64 = steps["duration"]
    usual = median(duration)
    slow = duration > slow_from(duration)
    if not slow.any():
        return None
    excess = int((duration[slow] - usual).sum())
    cause, explained, lines = _cause(facts, steps.where(slow), excess)
    is_cause = explained >= DIFFERENCE * excess
    if not is_cause and (evaluating := _evaluating(steps, slow)) is not None:
        # Others may be slow as well, by little and for no reason.
        slow, is_cause = evaluating, True
        excess = int((duration[slow] - usual).sum())
        lines = _cause(facts, steps.where(slow), excess)[2]
        cause, explained = EVALUATING, excess
    phase = _phase(steps, slow)
    return SlowSteps(
        count=int(slow.sum()),
        steps=len(steps),
        median=round(usual),
        mean=int(duration.sum()) // len(steps),
        typical=round(median(duration[slow])),
        excess=excess // len(steps),
        phase=phase,
        cause=cause if is_cause else "",
        explained=min(explained, excess) // len(steps) if is_cause else 0,
        every=usual_distance(steps["index"][slow]),
        lines=lines,
    )


def slow_from(duration: Int64) -> float:
    """From how many ns on one of some steps that took ``duration``, of which there is at least
    one, is slow."""
    usual = median(duration)
    deviation = 1.4826 * median(np.abs(duration - usual))
    return max(TIMES_MEDIAN * usual, usual + DEVIATIONS * deviation)


def _phase(steps: Table, slow: Mask) -> str:
    """The phase that grows most from the usual steps to the slow ones."""
    usual = {phase: median(steps[phase][~slow]) if (~slow).any() else 0.0 for phase in PHASES}
    return max(PHASES, key=lambda phase: float(steps[phase][slow].mean()) - usual[phase])


def _evaluating(steps: Table, slow: Mask) -> Mask | None:
    """Those that call the model many times for one backward pass, where most of what slow steps
    take above the others is theirs; None where it is not."""
    if slow.all():
        return None
    added = {
        phase: steps[phase][slow] - median(steps[phase][~slow]) for phase in (*PHASES, "duration")
    }
    usual = median(steps["forward"][~slow])
    many = (
        (added["forward"] >= FORWARD_ALONE * usual)
        & (added["forward"] >= FORWARD_ALONE * added["backward"])
        & (added["forward"] >= DIFFERENCE * added["duration"])
    )
    is_most = float(added["duration"][many].sum()) >= MOSTLY * added["duration"].sum()
    if int(many.sum()) < FEWEST_ALIKE or not is_most:
        return None
    found: Mask = slow.copy()
    found[slow] = many
    return found


def _cause(facts: Facts, slow: Table, excess: int) -> tuple[str, int, LinesByTime | None]:
    """What takes most of the time of slow steps besides the phases, that time, and its lines."""
    collected = gc_pauses_of(facts.events, slow)
    times = {
        COLLECTING: int(collected["duration"].sum()) if len(collected) else 0,
        SAVE: int(saves_within(facts.events, slow)[1].sum()),
        COMPILE: compiling_within(facts.events, slow),
    }
    found = moments(facts)
    if found is None:
        cause = max(times, key=lambda name: times[name])
        return cause, times[cause], None
    during = union(slow["start"], slow["start"] + slow["duration"])
    held = during.within(found.time, found.time + found.length)
    masks = {stage: found.stage == stage for stage in (SAVE, COMPILE, PROFILE)}
    for name, mask in masks.items():
        times[name] = max(int(held[mask].sum()), times.get(name, 0))
    cause = max(times, key=lambda name: times[name])
    at_cause = masks.get(cause)
    if at_cause is not None and times[cause] >= DIFFERENCE * excess:
        return cause, times[cause], found.lines(at_cause, held)
    # Of a sample only its first moment is certain: one that began in a usual step proves nothing.
    return cause, times[cause], found.lines(during.holds(found.time), held)
