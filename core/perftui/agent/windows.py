"""Opens and closes windows at step boundaries, on the thread that trains."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from .budget import Budget
from .control import Control
from .marks import Marks
from .notes import Notes
from .occasions import CHOSEN, JOINT, Occasions
from .options import Options
from .ranks_together import RanksTogether, usual_lead
from .steps import EVAL, Boundary
from .window import EmptyWindowError, Window, is_profiling, may_record_stacks
from .window_length import window_steps

MOST_ATTEMPTS = 3
"""Windows in a row that are ended from outside before a step is whole: a training that forks its
workers anew after every batch would start and stop the profiler for ever and never have one."""


MOST_WAITING = 3
"""Windows in the spool that the recorder has not taken. It does so within a second, unless it is
gone or its disk is full, and the spool is memory that the training needs."""

MUCH_LONGER = 2
"""A first window is followed by another as soon as may be if that has so many times the steps."""


class Windows:
    """Windows within the budget, and one for each request of a viewer.

    torch's profiler belongs to the thread that starts it and crashes where another one stops it,
    so windows are opened in the main thread only: it is the one that also ends the process.
    """

    def __init__(self, torch: Any, spool: Path, options: Options, notes: Notes) -> None:
        self.marks: Marks | None = None
        """Ranges for the open window, None while there is none."""
        self.has_profiled = False
        """Whether the tracing library has been used."""
        self._torch = torch
        self._spool = spool
        self._options = options
        self._notes = notes
        self._said: set[str] = set()
        control = Control(spool)
        self._budget = Budget(options.overhead)
        self._occasions = Occasions(self._budget, control, options.first_step)
        self._together = RanksTogether(control)
        self._trained = 0
        self._wanted: str | None = None
        self._reason = ""
        self._foreign = 0
        self._window: Window | None = None
        self._thread = 0
        """The one that has prepared the window, and alone may start and stop it."""
        self._is_taken_over = False
        """Whether the window's session is now that of a profiler in another thread."""
        self._attempts = 0
        self._number = 0
        self._first_step = 0
        self._steps = 0
        self._planned = 0
        self._stall = 0
        """How long the training has waited for the window so far."""
        self._waited = 0
        """How long it has waited in the step that goes on."""
        self._last_steps = 0
        self._stall_per_step: int | None = None

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
        self._account(ended, duration, hooks)
        if self._window is None and not self._is_due(ended.end, next_step):
            return False
        if self.marks is None and not self._may_open():
            return False
        if self._window is not None and self._thread != get_ident():
            return False
        if self._is_taken_over:
            self._abandon()
            return True
        started = perf_counter_ns()
        self._advance(next_step)
        self._pay(started)
        return True

    def close(self) -> bool:
        """End and save the open window now: the process ends, forks, or profiles by itself.

        Whether there was one, of this thread: another thread's cannot be ended from here.
        """
        if self._window is None or self._thread != get_ident():
            return False
        started = perf_counter_ns()
        if self._is_taken_over:
            self._abandon()
        elif self.marks is not None:
            self._finish()
        else:
            self._cancel(self._window)
        self._pay(started)
        return True

    def foreign_begins(self) -> None:
        """The script starts a profiler of its own: no window opens until it has ended.

        A window that is not closed by now belongs to another thread.
        """
        self._foreign += 1
        self._is_taken_over = self._window is not None
        self._say_foreign()

    def foreign_ends(self) -> None:
        """A profiler of the script has ended."""
        self._foreign = max(self._foreign - 1, 0)

    def is_ours(self, profiler: Any) -> bool:
        """Whether ``profiler`` is that of the window."""
        return self._window is not None and self._window.profiler is profiler

    def _account(self, ended: Boundary, duration: int, hooks: int) -> None:
        waited, self._waited = self._waited, 0
        undisturbed = max(duration - waited, 0)
        is_training = ended.kind != EVAL
        self._trained += is_training
        self._budget.step(ended.end, duration, hooks)
        if not is_training:
            return
        if self.marks is None:
            self._occasions.step(undisturbed)
        elif self._occasions.typical:
            self._budget.spend(undisturbed - self._occasions.typical)

    def _pay(self, started: int) -> None:
        elapsed = perf_counter_ns() - started
        self._stall += elapsed
        self._waited += elapsed
        self._budget.spend(elapsed)
        self._together.pay(self._budget)

    def _is_due(self, now: int, next_step: int) -> bool:
        """Whether to prepare a window, which opens at the step after the next, or at the next."""
        if self._wanted is None:
            self._wanted = self._occasions.next(now, next_step, self._price)
        wanted = self._wanted is not None
        return self._together.is_due(self._trained, wanted, self._lead(next_step) if wanted else 0)

    def _lead(self, next_step: int) -> int:
        if self._wanted == CHOSEN:
            return self._until_chosen(next_step)
        return usual_lead(self._occasions.typical)

    def _until_chosen(self, next_step: int) -> int:
        return max((self._options.first_step or 0) - next_step, 0)

    def _price(self) -> int:
        """What the next window will cost, if its steps cost as much as those of the last one."""
        self._together.learn(self._budget)
        if not self._last_steps:
            return self._budget.last_window
        return self._budget.last_window * self._length() // self._last_steps

    def _length(self) -> int:
        return self._options.window_steps or window_steps(
            self._occasions.typical, self._stall_per_step, self._options.in_detail
        )

    def _may_open(self) -> bool:
        if get_ident() != threading.main_thread().ident:
            self._refuse("no window was recorded: the training is not in the main thread")
            return False
        if self._window is None and self._waiting() >= MOST_WAITING:
            self._refuse("no window was recorded: the last ones have not been taken yet")
            return False
        if is_profiling(self._torch):
            self._say_foreign()
            return False
        return not self._foreign

    def _refuse(self, why: str) -> None:
        self._wanted = None
        self._occasions.ended(perf_counter_ns(), is_too_short=False)
        self._say(why)

    def _waiting(self) -> int:
        return sum(1 for _ in self._spool.glob(f"window-{os.getpid()}-*.json"))

    def _advance(self, next_step: int) -> None:
        """One stage a boundary: prepare, start, so many steps, finish.

        Preparing is a stage of its own because with a GPU it starts the tracing library, whose
        first use would fill the first step recorded. Another attempt goes without: it needs every
        step there is.
        """
        if self.marks is not None:
            self._steps += 1
            if self._steps < self._planned:
                self.marks.begin_step(next_step)
            else:
                self._finish()
            return
        at_once = self._window is not None or self._attempts > 0
        if self._window is None:
            self._prepare()
        if self._reason == CHOSEN:
            at_once = not self._until_chosen(next_step)
        if self._together.may_start(self._trained, at_once):
            self._start(next_step)

    def _prepare(self) -> None:
        self._reason = self._wanted or JOINT
        self._wanted = None
        self._stall = 0
        self._budget.begin_window()
        stacks = self._options.stacks and may_record_stacks(self._torch)
        self._window = Window(self._torch, self._options, stacks)
        self._thread = get_ident()
        self.has_profiled = True
        self._window.prepare()

    def _start(self, next_step: int) -> None:
        window = self._window
        if window is None:
            return
        self._first_step = next_step
        self._steps = 0
        self._planned = self._length()
        window.start()
        self.marks = Marks(self._torch, self._options.nvtx and self._torch.cuda.is_initialized())
        self.marks.begin_step(next_step)

    def _finish(self) -> None:
        window, marks = self._window, self.marks
        if window is None or marks is None:
            return
        started = perf_counter_ns()
        marks.end_all()
        self.marks = None
        try:
            window.stop()
        finally:
            self._window = None
        if self._steps:
            self._attempts = 0
            self._save(window, started)
        else:
            # Ended from outside before a step was whole: there is nothing to show.
            self._try_again()

    def _try_again(self) -> None:
        self._attempts += 1
        if self._attempts < MOST_ATTEMPTS:
            self._wanted = self._reason
            return
        self._attempts = 0
        self._occasions.ended(perf_counter_ns(), is_too_short=False)
        self._say(
            f"no window was recorded: {MOST_ATTEMPTS} were cut short within their first step, "
            "where the script forked (workers of a data loader, each epoch) or profiled itself"
        )

    def _cancel(self, window: Window) -> None:
        """Give up a window that was only prepared.

        A session left so makes the next one print a warning, ours or the script's.
        """
        try:
            window.start()
            window.stop()
        finally:
            self._window = None
        self._try_again()

    def _abandon(self) -> None:
        window, marks = self._window, self.marks
        self._window = self.marks = None
        self._is_taken_over = False
        self._occasions.ended(perf_counter_ns(), is_too_short=False)
        self._say("a window was lost: the script profiled another of its threads meanwhile")
        if window is not None and marks is not None:
            marks.end_all()
            window.abandon()

    def _save(self, window: Window, started: int) -> None:
        name = f"window-{os.getpid()}-{self._number}.json"
        self._number += 1
        is_first = not self._last_steps
        self._last_steps = self._steps
        try:
            size = window.save(self._spool / name)
        except (EmptyWindowError, OSError) as error:
            self._occasions.ended(perf_counter_ns(), is_too_short=False)
            self._say(f"a window was lost: {error}")
            return
        now = perf_counter_ns()
        stall = self._stall + now - started
        self._stall_per_step = stall // self._steps
        is_too_short = is_first and self._length() >= MUCH_LONGER * self._steps
        self._occasions.ended(now, is_too_short)
        data = {"file": name, "first_step": self._first_step, "steps": self._steps}
        data.update(stall=stall, bytes=size, reason=self._reason, cuda=window.uses_cuda)
        self._notes.write("window", data, step=self._first_step, duration=stall)

    def _say_foreign(self) -> None:
        if self._options.profile:
            self._say("the script runs a profiler of its own: meanwhile there are no windows")

    def _say(self, message: str) -> None:
        """Write a warning, once."""
        if message not in self._said:
            self._said.add(message)
            self._notes.write("warning", {"message": message})
