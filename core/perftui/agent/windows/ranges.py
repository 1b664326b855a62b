"""Named ranges of time, for the profiler that records now and for NVIDIA's tools."""

from __future__ import annotations

from typing import Any

STEP_MARK = "ProfilerStep#"
"""The name by which other tools know steps."""

PHASE_MARK = "perftui::"


class Ranges:
    """Opens and closes ranges on the calling thread, innermost last.

    ``recorded`` writes them into torch's own profile, ``nvtx`` marks them for nsys, which takes
    CUDA. torch's ``record_function`` goes through its dispatcher: three times as long (5 us, not
    2), and a script's dispatch modes (selective checkpointing is one) would meet our ranges among
    its operators. These functions do not; torch's profiler marks with them, too.
    """

    def __init__(self, torch: Any, recorded: bool, nvtx: bool) -> None:
        self.are_recorded = recorded
        self._begin = torch.autograd._record_function_with_args_enter if recorded else None
        self._end = torch.autograd._record_function_with_args_exit
        self._nvtx = torch.cuda.nvtx if nvtx else None

    def open(self, name: str) -> Any:
        """Begin the range ``name``; returns what ends it."""
        if self._nvtx is not None:
            self._nvtx.range_push(name)
        return None if self._begin is None else self._begin(name)

    def close(self, handle: Any) -> None:
        """End the range that ``open`` has begun last of those that are open."""
        if handle is not None:
            self._end(handle)
        if self._nvtx is not None:
            self._nvtx.range_pop()


class Marks:
    """What is open on the training thread while a window is.

    Ranges cost 2 us each, whether or not a profiler listens, so they exist only inside a window.
    """

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._open: list[tuple[str, Any]] = []
        """The phases and modules of the step, innermost last; modules are those named ''."""
        self._step: Any = None
        self._has_step = False

    @property
    def is_in_phase(self) -> bool:
        """Whether any phase of the step goes on."""
        return bool(self._open)

    def begin_step(self, index: int) -> None:
        """End the step before, if any, and begin step ``index``."""
        self.end_step()
        self._step = self._ranges.open(f"{STEP_MARK}{index}")
        self._has_step = True

    def end_step(self) -> None:
        """End the current step."""
        if self._has_step:
            self._has_step = False
            self._ranges.close(self._step)

    def begin(self, phase: str) -> None:
        """A phase begins."""
        self._open.append((phase, self._ranges.open(PHASE_MARK + phase)))

    def end(self, phase: str) -> None:
        """A phase ends; one that began before the window did has no range to end."""
        depth = len(self._open)
        while depth and not self._open[depth - 1][0]:
            depth -= 1
        if depth and self._open[depth - 1][0] == phase:
            self.end_inner(depth - 1)

    def begin_inner(self, name: str) -> int:
        """A range of its own begins within the phases; returns what ``end_inner`` takes."""
        depth = len(self._open)
        self._open.append(("", self._ranges.open(name)))
        return depth

    def end_inner(self, depth: int) -> None:
        """End what ``begin_inner`` began, and whatever is open inside it.

        It may have been ended already, with all else.
        """
        while len(self._open) > depth:
            self._ranges.close(self._open.pop()[1])

    def end_all(self) -> None:
        """End whatever is open, innermost first."""
        self.end_inner(0)
        self.end_step()
