"""Opens and closes windows at step boundaries, on the thread that trains."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from .control import Control
from .marks import Marks
from .notes import Notes
from .options import Options
from .steps import EVAL, Boundary
from .warmup import WarmUp
from .window import EmptyWindowError, Window, is_profiling, may_record_stacks
from .window_length import window_steps

MOST_ATTEMPTS = 3
"""Windows in a row that are ended from outside before a step is whole: a training that forks its
workers anew after every batch would start and stop the profiler for ever and never have one."""


class Windows:
    """One window once the training has warmed up, and one for each request of a viewer.

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
        self._control = Control(spool)
        self._warm_up = WarmUp()
        self._is_wanted = False
        self._is_first = True
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
        self._stall_per_step: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the profiler records now."""
        return self.marks is not None

    def boundary(self, ended: Boundary, duration: int, next_step: int) -> bool:
        """A step has ended after ``duration`` ns; whether the training had to wait for anything."""
        if ended.kind != EVAL:
            self._warm_up.step(duration)
        if not self._options.profile:
            return False
        self._consider()
        if self._window is None and not self._is_wanted:
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
        self._stall += perf_counter_ns() - started
        return True

    def close(self) -> bool:
        """End and save the open window now: the process ends, forks, or profiles by itself.

        Whether there was one, of this thread: another thread's cannot be ended from here.
        """
        if self._window is None or self._thread != get_ident():
            return False
        if self._is_taken_over:
            self._abandon()
        elif self.marks is not None:
            self._finish()
        else:
            self._cancel(self._window)
        return True

    def foreign_begins(self) -> None:
        """The script starts a profiler of its own: no window opens until it has ended.

        A window that is not closed by now belongs to another thread.
        """
        self._foreign += 1
        self._is_taken_over = self._window is not None

    def foreign_ends(self) -> None:
        """A profiler of the script has ended."""
        self._foreign = max(self._foreign - 1, 0)

    def is_ours(self, profiler: Any) -> bool:
        """Whether ``profiler`` is that of the window."""
        return self._window is not None and self._window.profiler is profiler

    def _consider(self) -> None:
        if self._control.requested():
            self._is_wanted = True
            self._attempts = 0
        elif self._is_first and self._warm_up.is_over:
            self._is_first = False
            self._is_wanted = True

    def _may_open(self) -> bool:
        if get_ident() != threading.main_thread().ident:
            self._is_wanted = False
            message = "no window was recorded: the training is not in the main thread"
            self._notes.write("warning", {"message": message})
            return False
        return not self._foreign and not is_profiling(self._torch)

    def _advance(self, next_step: int) -> None:
        """One stage a boundary: prepare, start, so many steps, finish.

        Preparing is a stage of its own because with a GPU it starts the tracing library, whose
        first use would fill the first step recorded. Another attempt goes without: it needs every
        step there is.
        """
        if self._window is None:
            self._prepare()
            if self._attempts:
                self._start(next_step)
        elif self.marks is None:
            self._start(next_step)
        else:
            self._steps += 1
            if self._steps < self._planned:
                self.marks.begin_step(next_step)
            else:
                self._finish()

    def _prepare(self) -> None:
        self._is_wanted = False
        self._stall = 0
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
        self._planned = self._options.window_steps or window_steps(
            self._warm_up.typical, self._stall_per_step, self._options.in_detail
        )
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
        self._is_wanted = self._attempts < MOST_ATTEMPTS
        if not self._is_wanted:
            message = (
                f"no window was recorded: {MOST_ATTEMPTS} were cut short within their first step, "
                "where the script forked (workers of a data loader, each epoch) or profiled itself"
            )
            self._notes.write("warning", {"message": message})

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
        message = "a window was lost: the script profiled another of its threads meanwhile"
        self._notes.write("warning", {"message": message})
        if window is not None and marks is not None:
            marks.end_all()
            window.abandon()

    def _save(self, window: Window, started: int) -> None:
        name = f"window-{os.getpid()}-{self._number}.json"
        self._number += 1
        try:
            size = window.save(self._spool / name)
        except (EmptyWindowError, OSError) as error:
            self._notes.write("warning", {"message": f"a window was lost: {error}"})
            return
        stall = self._stall + perf_counter_ns() - started
        self._stall_per_step = stall // self._steps
        data = {"file": name, "first_step": self._first_step, "steps": self._steps}
        data.update(stall=stall, bytes=size)
        self._notes.write("window", data, step=self._first_step, duration=stall)
