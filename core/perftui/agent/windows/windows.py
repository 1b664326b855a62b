"""Opens and closes windows at step boundaries, on the thread that trains."""

from __future__ import annotations

import os
import threading
from threading import get_ident
from typing import Any

from ..steps.detection import Boundary
from .stages import POSTPONED, WindowStages
from .torch_window import is_profiling

MOST_WAITING = 3
"""Windows in the spool that the recorder has not taken. It does so within a second, unless it is
gone or its disk is full, and the spool is memory that the training needs."""

NO_CUDA = (
    "nsys recorded no steps: the script does not use CUDA; without --nsys torch's own profiler "
    "records them"
)

FOREIGN = "the script runs its own profiler: no windows meanwhile"


class Windows(WindowStages):
    """Windows within the budget, and one for each request of a viewer."""

    _foreign = 0
    """Profilers of the script that are running."""

    def boundary(self, ended: Boundary, duration: int, hooks: int, next_step: int) -> bool:
        """A step has ended after ``duration`` ns, of which the agent took ``hooks``.

        Whether the training had to wait for anything.
        """
        self.plan.step(ended, duration, hooks, self.is_open)
        if self._unsaved is not None:
            return self._save_unsaved()
        if self._window is None and not self.plan.is_due(next_step):
            if self.plan.triggers.is_postponed:
                self._notes.warn(POSTPONED)
            return False
        if self.marks is None and not self._may_open():
            return False
        if self._window is not None and self._thread != get_ident():
            return False
        if self._is_taken_over:
            self._abandon()
            return True
        self._hold_up(lambda: self._advance(next_step))
        return True

    @property
    def thread(self) -> int:
        """The thread that the window records."""
        return self._thread

    @property
    def can_wait(self) -> bool:
        """Whether steps like the ones before may be reported to the plan later, by ``usual``;
        others must be passed to ``boundary`` at once."""
        return self._window is None and self._unsaved is None and self.plan.can_wait

    def called(self, modules: int) -> bool:
        """A module with so many in it is about to be called; whether to end the window before."""
        self.plan.calls.count(modules)
        return self.is_open and self.plan.calls.are_too_many

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

    def foreign_profiler(self, begins: bool) -> None:
        """The script starts a profiler of its own, or has ended it: no window opens meanwhile."""
        if begins:
            # A window that is not closed by now belongs to another thread.
            self._is_taken_over = self._window is not None
            self._notes.warn(FOREIGN)
        self._foreign = max(self._foreign + (1 if begins else -1), 0)

    def is_ours(self, profiler: Any) -> bool:
        """Whether ``profiler`` is that of the window."""
        return self._window is not None and self._window.profiler is profiler

    def _may_open(self) -> bool:
        """Whether a window may open here and now, or be prepared for the next step.

        torch's profiler belongs to the thread that starts it and crashes where another one stops
        it. The main thread is the one that also ends the process.
        """
        refusal = None
        if get_ident() != threading.main_thread().ident:
            refusal = "no window was recorded: the training is not in the main thread"
        elif self._options.nsys and not self._torch.cuda.is_initialized():
            refusal = NO_CUDA
        elif self._window is None and self._waiting() >= MOST_WAITING:
            refusal = "no window was recorded: the recorder has not collected the last ones yet"
        if refusal is not None:
            self.plan.give_up()
        elif is_profiling(self._torch):
            refusal = FOREIGN
        if refusal is not None:
            self._notes.warn(refusal)
            return False
        return not self._foreign

    def _waiting(self) -> int:
        """Windows of this process that the recorder has not taken yet."""
        return sum(1 for _ in self._spool.glob(f"window-{os.getpid()}-*.json"))
