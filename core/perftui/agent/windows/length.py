"""How many steps a window may hold, so that saving it does not hold up the training."""

from __future__ import annotations

USUAL_STEPS = 2
SHORT_STEP_NS = 5_000_000
SHORT_WINDOW_NS = 20_000_000
MOST_STEPS = 10
"""Steps under 5 ms are so short that two of them show mostly noise."""

MOST_STALL_NS = 50_000_000
"""The longest that a window should make the training wait for its end."""

WORST_RATE = 6
WORST_RATE_IN_DETAIL = 20
"""Stall for each nanosecond recorded, where a loop does nothing but call small operators: 1.1
events a microsecond, each 5 us to end and save, three times that with Python stacks, twice with
shapes. Until a window has been measured every loop may be one of these."""


def window_steps(step_ns: int, stall_per_step: int | None, in_detail: bool) -> int:
    """Steps for the next window of a training whose steps take ``step_ns``; 1 at least.

    ``stall_per_step`` is what the last window took of the training, by its steps; None before
    there was one. ``in_detail`` tells whether shapes, stacks or memory are recorded too.
    """
    steps = USUAL_STEPS
    if 0 < step_ns < SHORT_STEP_NS:
        steps = max(steps, min(MOST_STEPS, -(-SHORT_WINDOW_NS // step_ns)))
    if stall_per_step is None:
        stall_per_step = step_ns * (WORST_RATE_IN_DETAIL if in_detail else WORST_RATE)
    if stall_per_step > 0:
        steps = min(steps, MOST_STALL_NS // stall_per_step)
    return max(steps, 1)
