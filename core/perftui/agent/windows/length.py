"""How many steps and calls a window may hold, so that it does not hold up the training."""

from __future__ import annotations

import sys
from collections import deque

from .triggers import CREDIT_NS

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
    there was one. ``in_detail``: shapes, stacks or memory are recorded too.
    """
    steps = USUAL_STEPS
    if 0 < step_ns < SHORT_STEP_NS:
        steps = max(steps, min(MOST_STEPS, -(-SHORT_WINDOW_NS // step_ns)))
    if stall_per_step is None:
        stall_per_step = step_ns * (WORST_RATE_IN_DETAIL if in_detail else WORST_RATE)
    if stall_per_step > 0:
        steps = min(steps, MOST_STALL_NS // stall_per_step)
    return max(steps, 1)


CALL_NS = 100_000
"""What recording a call of a module costs, before any window was measured: of some 5,200 calls in
the modules of a small transformer that generates it was 790 ms, of 20,000 linear layers 1.2 s."""

REMEMBERED = 16
"""Steps whose calls of modules are. The window may meet any of them: where a training generates
text in between, one step in some calls a hundred times as many."""

MUCH_MORE = 2
"""A window may hold so many times what the steps before it have called."""


class ModuleCalls:
    """Counts calls of modules where hooks go the slow path, as they do in all of a window.

    An outermost call counts as one of every module inside.
    """

    def __init__(self) -> None:
        self._of_steps: deque[int] = deque([0], maxlen=REMEMBERED)
        self._in_step = 0
        self._outermost = 0
        self._each = 0.0
        """Modules in an outermost call of the last step that had any."""
        self._in_window = 0
        self._most = sys.maxsize

    def count(self, modules: int) -> None:
        """A module with so many in it is about to be called."""
        self._in_step += modules
        self._outermost += 1
        self._in_window += modules

    def end_step(self, forwards: int, *, is_sought: bool) -> None:
        """A step with so many outermost calls has ended; whether windows are for such steps.

        Those that went the fast path are taken to hold as many modules as others. A step that ended
        long ago, before anything showed it, is not remembered: calls of the next one were counted.
        """
        if self._outermost:
            self._each = self._in_step / self._outermost
        calls = round(forwards * self._each)
        if is_sought and calls and self._outermost <= forwards:
            self._of_steps.append(calls)
        self._in_step = self._outermost = 0

    def open(self, steps: int, *, is_limited: bool) -> None:
        """A window of so many ``steps`` opens, which may hold any number unless ``is_limited``."""
        expected = steps * max(self._of_steps)
        self._in_window = 0
        self._most = max(MUCH_MORE * expected, CREDIT_NS // CALL_NS) if is_limited else sys.maxsize

    @property
    def are_too_many(self) -> bool:
        """Whether the window that is open should end, whole or not."""
        return self._in_window > self._most

    def price(self, steps: int) -> int:
        """What a window of so many ``steps`` is expected to cost, ns."""
        return steps * max(self._of_steps) * CALL_NS
