"""Ranges that show steps and phases inside a window, to every tool that reads the trace."""

from __future__ import annotations

from typing import Any

STEP_MARK = "ProfilerStep#"
"""The name by which other tools know steps."""

PHASE_MARK = "perftui::"


class Marks:
    """``record_function`` ranges (and NVTX ones) on the training thread while a window is open.

    They cost 5 us each, whether or not a profiler listens, so they exist only inside a window.
    """

    def __init__(self, torch: Any, nvtx: bool) -> None:
        self._record_function = torch.autograd.profiler.record_function
        self._nvtx = torch.cuda.nvtx if nvtx else None
        self._phases: list[tuple[str, Any]] = []
        self._step: Any = None

    def begin_step(self, index: int) -> None:
        """End the step before, if any, and begin step ``index``."""
        self.end_step()
        self._step = self._open(f"{STEP_MARK}{index}")

    def end_step(self) -> None:
        """End the current step."""
        if self._step is not None:
            self._close(self._step)
            self._step = None

    def begin(self, phase: str) -> None:
        """A phase begins."""
        self._phases.append((phase, self._open(PHASE_MARK + phase)))

    def end(self, phase: str) -> None:
        """A phase ends; one that began before the window did has no range to end."""
        if self._phases and self._phases[-1][0] == phase:
            self._close(self._phases.pop()[1])

    def end_all(self) -> None:
        """End whatever is open, innermost first."""
        while self._phases:
            self._close(self._phases.pop()[1])
        self.end_step()

    def _open(self, name: str) -> Any:
        if self._nvtx is not None:
            self._nvtx.range_push(name)
        mark = self._record_function(name)
        mark.__enter__()
        return mark

    def _close(self, mark: Any) -> None:
        mark.__exit__(None, None, None)
        if self._nvtx is not None:
            self._nvtx.range_pop()
