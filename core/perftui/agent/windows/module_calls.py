"""How often a training calls its modules, which predicts the cost of its first window."""

from __future__ import annotations

import sys
from collections import deque

from .triggers import CREDIT_NS

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
