"""Opens and closes windows at step boundaries, on the thread that trains."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from ...wire.options import AgentOptions
from ..output.notes import Notes
from ..ranges.marks import Marks
from ..ranges.module_ranges import ModuleRanges
from ..ranges.ranges import Ranges
from ..safety.signal_handlers import insist, raised_by_handler
from ..steps.machine import Boundary
from ..steps.usual_step import NEVER
from .nsys_window import NsysWindow
from .observers import WindowObservers
from .plan import MOST_ATTEMPTS, WindowPlan
from .torch_window import EmptyWindowError, Window, is_profiling, may_record_stacks

MOST_WAITING = 3
"""Windows in the spool that the recorder has not taken. It does so within a second, unless it is
gone or its disk is full, and the spool is memory that the training needs."""

LONG_STOP_NS = 20_000_000
"""A window that took so long to end is saved a step later. With a GPU both take long: 170 ms for a
step of 2,000 kernels on slow cores. Two short waits disturb a training less than a long one."""


POSTPONED = (
    "the next window waits until it is within the budget, which hooks alone may use up: a step "
    "calls so many modules that recording it will hold up the training; c in the app and --steps "
    "record one all the same, a higher --overhead one sooner"
)


class Windows:
    """Windows within the budget, and one for each request of a viewer.

    torch's profiler belongs to the thread that starts it and crashes where another one stops it,
    so windows are opened in the main thread only: it is the one that also ends the process.
    """

    def __init__(self, torch: Any, spool: Path, options: AgentOptions, notes: Notes) -> None:
        self.marks: Marks | None = None
        """Ranges for the open window, None while there is none."""
        self.modules: ModuleRanges | None = None
        """Ranges of modules in that window, where they were asked for."""
        self.has_profiled = False
        """Whether the tracing library has been used."""
        self._torch = torch
        self._spool = spool
        self._options = options
        self._notes = notes
        self._plan = WindowPlan(spool, options)
        self._observers = WindowObservers(torch, spool, options, notes.warn)
        self._foreign = 0
        self._window: Window | NsysWindow | None = None
        self._unsaved: Window | None = None
        """One that has ended."""
        self._thread = 0
        """The one that has prepared the window, and alone may start and stop it."""
        self._has_stacks = False
        """Whether the window records Python frames."""
        self._is_taken_over = False
        """Whether the window's session is now that of a profiler in another thread."""
        self.number = 0
        """Windows that were to be saved so far."""
        self._first_step = 0
        self._steps = 0
        self._planned = 0
        self._stall = 0
        """How long the training has waited for the window so far."""

    @property
    def is_open(self) -> bool:
        """Whether the profiler records now."""
        return self.marks is not None

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
    def can_wait(self) -> bool:
        """Whether steps like the ones before may be told of by ``usual`` instead, a while later."""
        is_idle = self._window is None and self._unsaved is None
        return not self._options.profile or (is_idle and self._plan.can_wait)

    @property
    def slow_after(self) -> int:
        """Steps that take longer, in ns, are to be told of at once."""
        return self._plan.slow_after if self._options.profile else NEVER

    @property
    def rank_plan(self) -> tuple[int, int]:
        """Where ranks plan windows in memory, 0 for nowhere, and which plan is known: after
        another one steps are to be told of at once."""
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

    def _end(self, is_last: bool) -> None:
        if self._is_taken_over:
            self._abandon()
        elif self.marks is not None:
            self._finish(is_last=is_last)
        else:
            self._discard()
            self._try_again()

    def foreign_begins(self) -> None:
        """The script starts a profiler of its own: no window opens until it has ended.

        A window that is not closed by now belongs to another thread.
        """
        self._foreign += 1
        self._is_taken_over = self._window is not None
        self._warn_foreign()

    def foreign_ends(self) -> None:
        """A profiler of the script has ended."""
        self._foreign = max(self._foreign - 1, 0)

    def is_ours(self, profiler: Any) -> bool:
        """Whether ``profiler`` is that of the window."""
        return self._window is not None and self._window.profiler is profiler

    def pay(self, waited: int) -> None:
        """The training has waited so many ns for something else of ours: the next window is later
        for it."""
        self._plan.pay(waited)

    def _hold_up(self, work: Callable[[], None]) -> None:
        """Begin or end a window, which the training waits for."""
        started = perf_counter_ns()
        try:
            work()
        except BaseException:
            self._drop()
            raise
        self._pay(started)

    def _pay(self, started: int) -> None:
        waited = perf_counter_ns() - started
        self._stall += waited
        self._plan.pay(waited)

    def _may_open(self) -> bool:
        if get_ident() != threading.main_thread().ident:
            self._refuse("no window was recorded: the training is not in the main thread")
            return False
        if self._options.nsys and not self._torch.cuda.is_initialized():
            self._refuse(
                "nsys has recorded no steps: the script does not use CUDA; "
                "without --nsys torch's own profiler records them"
            )
            return False
        if self._window is None and self._waiting() >= MOST_WAITING:
            self._refuse("no window was recorded: the last ones have not been taken yet")
            return False
        if is_profiling(self._torch):
            self._warn_foreign()
            return False
        return not self._foreign

    def _refuse(self, why: str) -> None:
        self._plan.give_up()
        self._notes.warn(why)

    def _waiting(self) -> int:
        return sum(1 for _ in self._spool.glob(f"window-{os.getpid()}-*.json"))

    def _advance(self, next_step: int) -> None:
        """One stage a boundary: prepare, start, so many steps, finish.

        Preparing is a stage of its own because with a GPU it starts the tracing library, whose
        first use would fill the first step recorded. It is undone where the step after is none to
        be recorded: a script may evaluate for minutes then, or generate text.
        """
        if self.marks is not None:
            self._steps += 1
            if self._steps < self._planned:
                self.marks.begin_step(next_step)
            else:
                self._finish()
            return
        was_prepared = self._window is not None
        if not was_prepared:
            self._prepare()
        if self._plan.may_start(next_step, was_prepared):
            self._start(next_step)
        elif was_prepared and self._window is not None and not self._plan.may_stay:
            self._plan.put_back()
            self._discard()

    def _prepare(self) -> None:
        self._plan.begin()
        self._stall = 0
        self._thread = get_ident()
        if self._options.nsys:
            self._window = NsysWindow(self._torch)
        else:
            self._has_stacks = self._options.stacks and may_record_stacks(self._torch)
            self._window = Window(self._torch, self._options, self._has_stacks)
            self.has_profiled = True
        self._window.prepare()

    def _start(self, next_step: int) -> None:
        window = self._window
        if window is None:
            return
        self._first_step = next_step
        self._steps = 0
        self._planned = self._plan.start()
        window.start()
        nsys = self._options.nsys
        nvtx = (nsys or self._options.nvtx) and window.uses_cuda
        ranges = Ranges(self._torch, recorded=not nsys, nvtx=nvtx)
        self.marks = Marks(ranges)
        self.marks.begin_step(next_step)
        if self._options.modules:
            self.modules = ModuleRanges(self._torch, ranges, self._lost_modules)
            self.modules.open(self.marks)
        if not nsys:
            self._observers.begin(self._has_stacks)

    def _finish(self, is_last: bool = False) -> None:
        window, marks = self._window, self.marks
        if window is None or marks is None:
            return
        started = perf_counter_ns()
        self._observers.end()
        self._end_ranges(marks)
        window.stop()
        self._window = None
        if not self._steps and self._plan.calls.are_too_many:
            self._plan.give_up(is_too_short=True)
            self._notes.warn(POSTPONED)
        elif not self._steps:
            # Ended from outside before a step was whole: there is nothing to show.
            self._try_again()
        elif isinstance(window, NsysWindow):
            self._note("nsys_range", started, {"cuda": window.uses_cuda})
        elif is_last or perf_counter_ns() - started < LONG_STOP_NS:
            self._save(window, started)
        else:
            self._unsaved = window

    def _save_unsaved(self) -> bool:
        """Save the window that ended a step ago; whether this thread may."""
        window = self._unsaved
        if window is None or self._thread != get_ident():
            return False
        self._unsaved = None
        started = perf_counter_ns()
        self._save(window, started)
        self._pay(started)
        return True

    def _try_again(self) -> None:
        if self._plan.cut_short():
            return
        self._notes.warn(
            f"no window was recorded: {MOST_ATTEMPTS} were cut short within their first step, "
            "where the script forked (workers of a data loader, each epoch) or profiled itself"
        )

    def _discard(self) -> None:
        """Be without the window that was only prepared."""
        if self._window is not None:
            self._window.drop()
        self._window = None

    def _drop(self) -> None:
        """Something was raised while a window began or ended, as a rule by a signal handler of the
        script, and goes on: be without that window first. What is raised here goes on instead."""
        window, marks = self._window, self.marks
        if window is None or self._is_taken_over:
            return
        raised = insist(self._observers.end)
        if marks is not None:
            raised = insist(lambda: self._end_ranges(marks)) or raised
        raised = insist(window.drop) or raised
        self._window = self.marks = self.modules = None
        self._plan.give_up()
        if raised is not None:
            raise raised

    def _abandon(self) -> None:
        window, marks = self._window, self.marks
        self._window = None
        self._is_taken_over = False
        self._observers.end()
        self._plan.give_up()
        self._notes.warn("a window was lost: the script profiled another of its threads meanwhile")
        if window is not None and marks is not None:
            self._end_ranges(marks)
            window.abandon()

    def _end_ranges(self, marks: Marks) -> None:
        if self.modules is not None:
            self.modules.close()
        marks.end_all()
        self.marks = self.modules = None

    def _lost_modules(self, error: Exception) -> None:
        self._notes.warn(f"modules were not told apart: {type(error).__name__}: {error}")

    def _save(self, window: Window, started: int) -> None:
        number = self.number
        name = f"window-{os.getpid()}-{number}.json"
        self.number += 1
        try:
            size = window.save(self._spool / name)
            seen = self._observers.take(number)
        except (EmptyWindowError, OSError) as error:
            self._plan.give_up()
            if raised_by_handler(error):
                raise
            self._notes.warn(f"a window was lost: {error}")
            return
        self._note(
            "window", started, {"file": name, "bytes": size, "cuda": window.uses_cuda, **seen}
        )

    def _note(self, kind: str, started: int, data: dict[str, Any]) -> None:
        stall = self._stall + perf_counter_ns() - started
        self._plan.saved(self._steps, stall)
        data = {**data, "first_step": self._first_step, "steps": self._steps, "stall": stall}
        data["reason"] = self._plan.reason
        self._notes.write(kind, data, step=self._first_step, duration=stall)

    def _warn_foreign(self) -> None:
        if self._options.profile:
            self._notes.warn(
                "the script runs a profiler of its own: meanwhile there are no windows"
            )
