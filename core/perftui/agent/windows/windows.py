"""Opens and closes windows at step boundaries, on the thread that trains."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...wire.spool import AgentOptions, details_of
from ..recording.output import Notes
from ..recording.steps import Boundary
from ..safety.signal_handlers import insist, raised_by_handler
from .plan import MOST_ATTEMPTS, WindowPlan
from .ranges import Marks, Ranges
from .torch_window import (
    EmptyWindowError,
    NsysWindow,
    Window,
    WindowObservers,
    is_profiling,
    may_record_stacks,
)

if TYPE_CHECKING:
    from .ranges import ModuleRanges

LONG_STOP_NS = 20_000_000
"""A window that took so long to end is saved a step later. With a GPU both are slow: 170 ms for a
step of 2,000 kernels on slow cores. Two short waits disturb a training less than one long one."""

POSTPONED = (
    "the next window waits until it fits the overhead budget: a step calls so many modules that "
    "recording it will stall the training, and the hooks alone may use up the budget; press c in "
    "the app or use --steps to record one anyway, or raise --overhead"
)

MOST_WAITING = 3
"""Windows in the spool that the recorder has not taken. It does so within a second, unless it is
gone or its disk is full, and the spool is memory that the training needs."""

NO_CUDA = (
    "nsys recorded no steps: the script does not use CUDA; without --nsys torch's own profiler "
    "records them"
)

FOREIGN = "the script runs its own profiler: no windows meanwhile"


class Windows:
    """One window at a time, within the budget, and one for each request of a viewer.

    Time that the training waits is counted as the window's cost.
    """

    def __init__(self, torch: Any, spool: Path, options: AgentOptions, notes: Notes) -> None:
        self.marks: Marks | None = None
        """Ranges for the open window, None while there is none."""
        self.modules: ModuleRanges | None = None
        """Ranges of modules in that window, if requested."""
        self.has_profiled = False
        """Whether the tracing library has been used."""
        self.plan = WindowPlan(spool, options)
        self.number = 0
        """Number of windows to be saved so far."""
        self._torch = torch
        self._spool = spool
        self._options = options
        self._notes = notes
        self._observers = WindowObservers(torch, spool, notes.warn)
        self._window: Window | NsysWindow | None = None
        self._unsaved: Window | None = None
        """A window that has ended and is not saved."""
        self.thread = 0
        """The thread that prepared the window, and alone may start and stop it."""
        self._recorded = options
        """What the window records."""
        self._samples = False
        """Whether it samples stacks even if py-spy does."""
        self._foreign = 0
        """Profilers of the script that are running."""
        self._is_taken_over = False
        """Whether a profiler in another thread has taken over the window's session."""
        self._first_step = 0
        self._steps = 0
        self._planned = 0
        self._stall = 0
        """Time that the training has waited for the window so far."""

    @property
    def is_open(self) -> bool:
        """Whether the profiler is recording."""
        return self.marks is not None

    def boundary(self, ended: Boundary, duration: int, hooks: int, next_step: int) -> bool:
        """A step has ended after ``duration`` ns, of which the agent took ``hooks``.

        Returns whether the training had to wait.
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
        if self._window is not None and self.thread != get_ident():
            return False
        if self._is_taken_over:
            self._abandon()
            return True
        self._hold_up(lambda: self._advance(next_step))
        return True

    @property
    def can_wait(self) -> bool:
        """Whether usual steps may be reported to the plan later, by ``usual``; others must be
        passed to ``boundary`` at once."""
        return self._window is None and self._unsaved is None and self.plan.can_wait

    def called(self, modules: int) -> bool:
        """A module with ``modules`` in it will be called; whether to end the window first."""
        self.plan.calls.count(modules)
        return self.is_open and self.plan.calls.are_too_many

    def close(self, *, is_last: bool = True) -> bool:
        """End and save the open window now: the process ends, forks, or profiles by itself.

        Returns whether there was one, of this thread: for another thread's only the observers can
        be ended from here, not the profiler. Unless this ``is_last``, the last opportunity, it may
        be saved a step later.
        """
        self._observers.end()
        if self._unsaved is not None:
            return self._save_unsaved()
        if self._window is None or self.thread != get_ident():
            return False
        self._hold_up(lambda: self._end(is_last))
        return True

    def foreign_profiler(self, begins: bool) -> None:
        """The script starts or has ended a profiler of its own: no window opens meanwhile."""
        if begins:
            # A window that is still open belongs to another thread.
            self._is_taken_over = self._window is not None
            self._notes.warn(FOREIGN)
        self._foreign = max(self._foreign + (1 if begins else -1), 0)

    def is_ours(self, profiler: Any) -> bool:
        """Whether ``profiler`` is the window's."""
        return self._window is not None and self._window.profiler is profiler

    def _may_open(self) -> bool:
        """Whether a window may open now, or be prepared for the next step.

        torch's profiler belongs to the thread that starts it and crashes if another stops it. The
        main thread is the one that also ends the process.
        """
        refusal = None
        waiting = f"window-{os.getpid()}-*.json"
        if get_ident() != threading.main_thread().ident:
            refusal = "no window was recorded: the training is not in the main thread"
        elif self._options.nsys and not self._torch.cuda.is_initialized():
            refusal = NO_CUDA
        elif self._window is None and sum(1 for _ in self._spool.glob(waiting)) >= MOST_WAITING:
            refusal = "no window was recorded: the recorder has not collected the last ones yet"
        if refusal is not None:
            self.plan.give_up()
        elif is_profiling(self._torch):
            refusal = FOREIGN
        if refusal is not None:
            self._notes.warn(refusal)
            return False
        return not self._foreign

    def _hold_up(self, work: Callable[[], None]) -> None:
        """Begin or end a window by ``work``, whose time is a cost of the window."""
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
        self.plan.pay(waited)

    def _advance(self, next_step: int) -> None:
        """One stage per boundary: prepare, start, record the steps, finish.

        Preparing is a stage of its own because with a GPU it starts the tracing library, whose
        first use would fill the first recorded step. It is undone if the step after is not to be
        recorded: a script may evaluate for minutes then, or generate text.
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
        if self.plan.may_start(next_step, was_prepared):
            self._start(next_step)
        elif was_prepared and self._window is not None and not self.plan.may_stay:
            self.plan.put_back()
            self._discard()

    def _prepare(self) -> None:
        self.plan.begin()
        self._stall = 0
        self.thread = get_ident()
        if self._options.nsys:
            self._window = NsysWindow(self._torch)
        else:
            options = self._options.with_details(self.plan.triggers.details)
            # Frames make Python far slower: asked by a viewer, stacks are sampled instead.
            has_stacks = self._options.stacks and may_record_stacks(self._torch)
            self._samples = options.stacks and not has_stacks
            self._recorded = replace(options, stacks=has_stacks)
            self._window = Window(self._torch, self._recorded)
            self.has_profiled = True
        self._window.prepare()

    def _start(self, next_step: int) -> None:
        window = self._window
        if window is None:
            return
        self._first_step = next_step
        self._steps = 0
        self._planned = self.plan.start()
        window.start()
        nsys = self._options.nsys
        nvtx = (nsys or self._options.nvtx) and window.uses_cuda
        ranges = Ranges(self._torch, recorded=not nsys, nvtx=nvtx)
        self.marks = Marks(ranges)
        self.marks.begin_step(next_step)
        if self._recorded.modules:
            from .ranges import ModuleRanges

            self.modules = ModuleRanges(self._torch, ranges, self._notes.warn)
            self.modules.open(self.marks)
        if not nsys:
            self._observers.begin(self._recorded, self._samples)

    def _finish(self, is_last: bool = False) -> None:
        window, marks = self._window, self.marks
        if window is None or marks is None:
            return
        started = perf_counter_ns()
        self._observers.end()
        self._end_ranges(marks)
        window.stop()
        self._window = None
        if not self._steps and self.plan.calls.are_too_many:
            self.plan.give_up(is_too_short=True)
            self._notes.warn(POSTPONED)
        elif not self._steps:
            # Ended from outside before a step was whole: there is nothing to save.
            self._try_again()
        elif not isinstance(window, Window):
            self._note("nsys_range", started, {"cuda": window.uses_cuda})
        elif is_last or perf_counter_ns() - started < LONG_STOP_NS:
            self._save(window, started)
        else:
            self._unsaved = window

    def _save_unsaved(self) -> bool:
        """Save the window that ended a step ago; returns whether this thread may."""
        window = self._unsaved
        if window is None or self.thread != get_ident():
            return False
        self._unsaved = None
        started = perf_counter_ns()
        self._save(window, started)
        self._pay(started)
        return True

    def _try_again(self) -> None:
        if self.plan.cut_short():
            return
        self._notes.warn(
            f"no window was recorded: {MOST_ATTEMPTS} were cut short within their first step, "
            "because the script forked (data loader workers in each epoch) or ran its own profiler"
        )

    def _discard(self) -> None:
        """Drop the window that was only prepared."""
        if self._window is not None:
            self._window.drop()
        self._window = None

    def _drop(self) -> None:
        """An exception, usually of a signal handler of the script, came while a window began or
        ended: drop that window before it goes on. An exception raised here takes its place."""
        window, marks = self._window, self.marks
        if window is None or self._is_taken_over:
            return
        raised = insist(self._observers.end)
        if marks is not None:
            raised = insist(lambda: self._end_ranges(marks)) or raised
        raised = insist(window.drop) or raised
        self._window = self.marks = self.modules = None
        self.plan.give_up()
        if raised is not None:
            raise raised

    def _abandon(self) -> None:
        window, marks = self._window, self.marks
        self._window = None
        self._is_taken_over = False
        self._observers.end()
        self.plan.give_up()
        self._notes.warn("a window was lost: the script profiled another thread meanwhile")
        if window is not None and marks is not None:
            self._end_ranges(marks)
            window.abandon()

    def _end_ranges(self, marks: Marks) -> None:
        if self.modules is not None:
            self.modules.close()
        marks.end_all()
        self.marks = self.modules = None

    def _save(self, window: Window, started: int) -> None:
        number, self.number = self.number, self.number + 1
        name = f"window-{os.getpid()}-{number}.json"
        try:
            size = window.save(self._spool / name)
            observed = self._observers.take(number)
        except (EmptyWindowError, OSError) as error:
            self.plan.give_up()
            if raised_by_handler(error):
                raise
            self._notes.warn(f"a window was lost: {error}")
            return
        data = {"file": name, "bytes": size, "cuda": window.uses_cuda, **observed}
        if asked := self.plan.triggers.details:
            data["asked"] = details_of(asked)
        self._note("window", started, data)

    def _note(self, kind: str, started: int, data: dict[str, Any]) -> None:
        stall = self._stall + perf_counter_ns() - started
        self.plan.saved(self._steps, stall)
        data = {**data, "first_step": self._first_step, "steps": self._steps, "stall": stall}
        data["reason"] = self.plan.reason
        self._notes.write(kind, data, step=self._first_step, duration=stall)

    def _end(self, is_last: bool) -> None:
        if self._is_taken_over:
            self._abandon()
        elif self.marks is not None:
            self._finish(is_last=is_last)
        else:
            self._discard()
            self._try_again()
