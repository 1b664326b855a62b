"""Named ranges of time, for the profiler that records now and for NVIDIA's tools."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from threading import get_ident
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..marks import LISTENER
from ..safety.guarded import guarded
from .torch_window import is_profiling

if TYPE_CHECKING:
    from ..recording.session import Session
    from ..safety.meter import Meter
    from .windows import Windows

STEP_MARK = "ProfilerStep#"
"""The name by which other tools know steps."""

PHASE_MARK = "perftui::"

MOST_CHARACTERS = 200

# Kineto writes names into its JSON unescaped.
_UNSAFE = re.compile(r'["\\\x00-\x1f\x7f]')


def printable_name(name: str) -> str:
    """``name`` without characters that a range cannot have."""
    text = _UNSAFE.sub("?", name)[:MOST_CHARACTERS]
    return text.encode("utf-8", "replace").decode()


class Ranges:
    """Opens and closes ranges on the calling thread, innermost last.

    ``recorded`` writes them into torch's own profile, ``nvtx`` marks them for nsys, which takes
    CUDA. torch's ``record_function`` goes through its dispatcher: three times as long (5 us, not
    2), and a script's dispatch modes (selective checkpointing is one) would meet our ranges among
    its operators. These functions do not; torch's profiler marks with them, too.
    """

    def __init__(self, torch: Any, recorded: bool, nvtx: bool) -> None:
        self._are_recorded = recorded
        self._torch = torch
        self._begin = torch.autograd._record_function_with_args_enter if recorded else None
        self._end = torch.autograd._record_function_with_args_exit
        self._nvtx = torch.cuda.nvtx if nvtx else None

    def open(self, name: str) -> Any:
        """Begin the range ``name``; returns its handle for ``close``."""
        if self._nvtx is not None:
            self._nvtx.range_push(name)
        return None if self._begin is None else self._begin(name)

    @property
    def are_recorded_elsewhere(self) -> bool:
        """Whether ranges of a thread other than the training thread are recorded: nsys records all
        threads, torch's profiler those of the autograd engine."""
        return not self._are_recorded or is_profiling(self._torch)

    def close(self, handle: Any) -> None:
        """End the innermost open range, which ``open`` has begun."""
        if handle is not None:
            self._end(handle)
        if self._nvtx is not None:
            self._nvtx.range_pop()


class OpenRange:
    """An open range; it is closed and opened again where a step ends within it."""

    def __init__(self, name: str, handle: Any, phase: str, is_of_script: bool) -> None:
        self.name, self.handle = name, handle
        self.phase = phase
        """The phase of the step; empty for other ranges."""
        self.is_of_script = is_of_script


class Marks:
    """Open ranges on the training thread during a window.

    Ranges cost 2 us each, whether or not a profiler listens, so they exist only inside a window.
    """

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self._open: list[OpenRange] = []
        """Phases, modules and ranges of the script, innermost last."""
        self._step: Any = None
        self._has_step = False

    @property
    def is_in_phase(self) -> bool:
        """Whether a phase of the step is open."""
        return any(entry.phase for entry in self._open)

    def begin_step(self, index: int) -> None:
        """End the step before, if any, and begin step ``index``.

        Ranges of the script that go on are split between both steps.
        """
        of_script = (at for at, entry in enumerate(self._open) if entry.is_of_script)
        depth = next(of_script, len(self._open))
        going_on = self._open[depth:]
        self._end(depth)
        self.end_step()
        self._step = self.ranges.open(f"{STEP_MARK}{index}")
        self._has_step = True
        for entry in going_on:
            entry.handle = self.ranges.open(entry.name)
            self._open.append(entry)

    def end_step(self) -> None:
        """End the current step."""
        if self._has_step:
            self._has_step = False
            self.ranges.close(self._step)

    def begin(self, phase: str) -> None:
        """A phase begins."""
        self.begin_range(PHASE_MARK + phase, phase)

    def end(self, phase: str) -> None:
        """A phase ends; one that began before the window did has no range to end."""
        newest = next((entry for entry in reversed(self._open) if entry.phase), None)
        if newest is not None and newest.phase == phase:
            self.end_range(newest)

    def begin_range(self, name: str, phase: str = "", *, is_of_script: bool = False) -> OpenRange:
        """Begin a range, in a phase or not; returns the argument of ``end_range``."""
        opened = OpenRange(name, self.ranges.open(name), phase, is_of_script)
        self._open.append(opened)
        return opened

    def end_range(self, opened: OpenRange) -> None:
        """End a range and all ranges inside it, unless it has ended together with another."""
        if opened in self._open:
            self._end(self._open.index(opened))

    def end_all(self) -> None:
        """End all open ranges, innermost first."""
        self._end(0)
        self.end_step()

    def _end(self, depth: int) -> None:
        while len(self._open) > depth:
            self.ranges.close(self._open.pop().handle)


class Listener(ModuleType):
    """The module ``LISTENER``, which ``perftui.range`` and ``perftui.step`` look for."""

    def __init__(self, torch: Any, session: Session) -> None:
        super().__init__(LISTENER)
        self._is_compiling = torch.compiler.is_compiling
        self._session = session

    @property
    def meter(self) -> Meter:
        """Counts the time of guarded methods."""
        return self._session.meter

    def guards(self, error: BaseException) -> bool:
        """Stop the recording for an error of ours."""
        return self._session.guards(error)

    def begin(self, name: str) -> Callable[[], object] | None:
        """Begin a range; returns the function that ends it, None where it is not recorded."""
        # First: for the compiler it is a constant, so it makes no guard of what follows.
        if self._is_compiling() or self._open_windows() is None:
            return None
        return self._begin(name) or None

    def step(self, kind: str) -> None:
        """The script says that a step of ``kind`` has ended."""
        if not self._is_compiling():
            self._session.end_step(kind)

    def _open_windows(self) -> Windows | None:
        recording = self._session.recording
        windows = recording.windows if recording is not None else None
        return windows if windows is not None and windows.is_open else None

    @guarded
    def _begin(self, name: str) -> Callable[[], object] | None:
        windows = self._open_windows()
        marks = windows.marks if windows is not None else None
        if windows is None or marks is None:
            return None
        name = printable_name(name)
        if windows.thread == get_ident():
            return partial(self._end, marks.end_range, marks.begin_range(name, is_of_script=True))
        if not marks.ranges.are_recorded_elsewhere:
            return None
        return partial(self._end, marks.ranges.close, marks.ranges.open(name))

    @guarded
    def _end(self, end: Callable[[Any], object], opened: Any) -> None:
        end(opened)
