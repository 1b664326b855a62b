"""Opens and closes windows at step boundaries, on the thread that trains."""

from __future__ import annotations

from threading import get_ident
from typing import Any

from ..steps.detection import Boundary
from ..steps.durations import NEVER
from .stages import POSTPONED, WindowStages


class Windows(WindowStages):
    """Windows within the budget, and one for each request of a viewer."""

    def boundary(self, ended: Boundary, duration: int, hooks: int, next_step: int) -> bool:
        """A step has ended after ``duration`` ns, of which the agent took ``hooks``.

        Whether the training had to wait for anything.
        """
        if not self._options.profile:
            return False
        self._plan.step(ended, duration, hooks, self.is_open)
        if self._unsaved is not None:
            return self._save_unsaved()
        if self._window is None and not self._plan.is_due(next_step):
            if self._plan.is_postponed:
                self._notes.warn(POSTPONED)
            return False
        is_prepared = self._window is not None
        if self.marks is None and not self._admission.may_open(is_prepared=is_prepared):
            return False
        if self._window is not None and self._thread != get_ident():
            return False
        if self._is_taken_over:
            self._abandon()
            return True
        self._hold_up(lambda: self._advance(next_step))
        return True

    @property
    def can_wait(self) -> bool:
        """Whether steps like the ones before may be passed to ``usual`` instead, a while later."""
        is_idle = self._window is None and self._unsaved is None
        return not self._options.profile or (is_idle and self._plan.can_wait)

    @property
    def slow_after(self) -> int:
        """Steps that take longer, in ns, must be passed to ``boundary`` at once."""
        return self._plan.slow_after if self._options.profile else NEVER

    @property
    def rank_plan(self) -> tuple[int, int]:
        """Where ranks plan windows in memory, 0 for nowhere, and which plan is known: after
        another one steps must be passed to ``boundary`` at once."""
        return self._plan.rank_plan if self._options.profile else (0, 0)

    def usual(self, steps: int, whole: int, hooks: int) -> None:
        """So many training steps have ended as usual, ``whole`` ns with ``hooks`` of the agent."""
        if steps and self._options.profile:
            self._plan.usual(steps, whole, hooks)

    def called(self, modules: int) -> bool:
        """A module with so many in it is about to be called; whether to end the window before."""
        self._plan.calls.count(modules)
        return self.is_open and self._plan.calls.are_too_many

    def close(self, *, is_last: bool = True) -> bool:
        """End and save the open window now: the process ends, forks, or profiles by itself.

        Whether there was one, of this thread: another thread's cannot be ended from here, but
        what watches it besides the profiler. If it is not the ``is_last`` chance, it may be saved
        a step later.
        """
        self._observers.end()
        if self._unsaved is not None:
            return self._save_unsaved()
        if self._window is None or self._thread != get_ident():
            return False
        self._hold_up(lambda: self._end(is_last))
        return True

    def foreign_begins(self) -> None:
        """The script starts a profiler of its own: no window opens until it has ended.

        A window that is not closed by now belongs to another thread.
        """
        self._is_taken_over = self._window is not None
        self._admission.foreign_begins()

    def foreign_ends(self) -> None:
        """A profiler of the script has ended."""
        self._admission.foreign_ends()

    def is_ours(self, profiler: Any) -> bool:
        """Whether ``profiler`` is that of the window."""
        return self._window is not None and self._window.profiler is profiler

    def pay(self, waited: int) -> None:
        """The training has waited so many ns for something else of ours: the next window is later
        for it."""
        self._plan.pay(waited)
