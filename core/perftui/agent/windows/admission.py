"""Whether a window may open now, as far as the process allows it."""

from __future__ import annotations

import threading
from threading import get_ident
from typing import Any

from ...wire.options import AgentOptions
from ..output.notes import Notes
from .plan import WindowPlan
from .saving import MOST_WAITING, WindowSaver
from .torch_window import is_profiling


class WindowAdmission:
    """Refuses windows that would disturb the script or get lost, and warns why, once.

    torch's profiler belongs to the thread that starts it and crashes where another one stops it,
    so windows are opened in the main thread only: it is the one that also ends the process.
    """

    def __init__(
        self, torch: Any, options: AgentOptions, notes: Notes, plan: WindowPlan, saver: WindowSaver
    ) -> None:
        self._torch = torch
        self._options = options
        self._notes = notes
        self._plan = plan
        self._saver = saver
        self._foreign = 0
        """Profilers of the script that are running."""

    def may_open(self, *, is_prepared: bool) -> bool:
        """Whether a window may open here and now, or be prepared for the next step."""
        if get_ident() != threading.main_thread().ident:
            self._refuse("no window was recorded: the training is not in the main thread")
            return False
        if self._options.nsys and not self._torch.cuda.is_initialized():
            self._refuse(
                "nsys has recorded no steps: the script does not use CUDA; "
                "without --nsys torch's own profiler records them"
            )
            return False
        if not is_prepared and self._saver.waiting() >= MOST_WAITING:
            self._refuse("no window was recorded: the last ones have not been taken yet")
            return False
        if is_profiling(self._torch):
            self._warn_foreign()
            return False
        return not self._foreign

    def foreign_begins(self) -> None:
        """The script starts a profiler of its own: no window opens until it has ended."""
        self._foreign += 1
        self._warn_foreign()

    def foreign_ends(self) -> None:
        """A profiler of the script has ended."""
        self._foreign = max(self._foreign - 1, 0)

    def _refuse(self, why: str) -> None:
        self._plan.give_up()
        self._notes.warn(why)

    def _warn_foreign(self) -> None:
        if self._options.profile:
            self._notes.warn(
                "the script runs a profiler of its own: meanwhile there are no windows"
            )
