"""The parts of the mean step as they are shown: rounded, and still equal to the step in sum."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.facts.rounding import apportioned
from perftui.facts.step.step_breakdown import StepBreakdown
from perftui.run.columns import phase_name


def breakdown_title(found: StepBreakdown) -> tuple[str, str]:
    """Of what the parts are, and the mean of how many steps that is."""
    where = "in the training thread" if found.of_run else "in the trace"
    over = f"mean of {fmt.several(found.count, 'step')}" if found.count else "all of it"
    return f"Where the time goes {where}", over


def breakdown_rows(found: StepBreakdown) -> Iterator[tuple[str, int, int]]:
    """The name of each part, hundredths of a millisecond and tenths of a per cent, then of the
    whole; parts are rounded so that they sum to it."""
    parts = [(name, value) for name, value in found.parts if value]
    values = [value for _, value in parts]
    times, shares = apportioned(values, (found.mean + 5_000) // 10_000), apportioned(values, 1000)
    names = (phase_name(name) for name, _ in parts)
    yield from zip(names, times, shares, strict=True)
    yield "step" if found.count else "whole", sum(times), sum(shares)
