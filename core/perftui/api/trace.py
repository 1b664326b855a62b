"""A profiler trace, for scripts and notebooks."""

from __future__ import annotations

from functools import cached_property
from os import PathLike
from pathlib import Path

from perftui.analysis.model import DeviceActivity, TraceAnalysis
from perftui.api.judged import Judged
from perftui.api.table import Table
from perftui.api.trace_tables import gap_table, kernel_table, op_table, step_parts_table
from perftui.facts.fact import Facts
from perftui.report.subject import Subject, SubjectError, load_subject


class Trace(Judged):
    """A trace with its tables; made by ``load_trace``. Times are ns since its start."""

    def __init__(self, subject: Subject, recorded: Facts | None = None) -> None:
        self._subject = subject
        self._recorded = recorded
        """The run that it is a window of, with it; None of a trace alone."""

    @property
    def path(self) -> Path:
        """The file."""
        return self._analysis.trace.path

    @property
    def devices(self) -> tuple[DeviceActivity, ...]:
        """What each GPU did: ``busy``, the union over its streams, ``idle``, the sums and counts
        of kernels and copies, in ns; empty where no GPU was recorded."""
        return self._analysis.activity

    @cached_property
    def operators(self) -> Table:
        """A row for each operator, by device time where there is a GPU, else by own CPU time.

        ``own`` leaves out what an operator calls, ``total`` counts it; device time is that of the
        kernels and copies that were launched there.
        """
        return op_table(self._analysis.ops, self._analysis.has_gpu)

    @cached_property
    def modules(self) -> Table:
        """As ``operators``, for each module; the row ``(outside)`` is for what ran in none. Empty
        where the trace names no modules."""
        return op_table(self._analysis.modules, self._analysis.has_gpu)

    @cached_property
    def kernels(self) -> Table:
        """A row for each kernel, copy and set by name, the longest total first."""
        return kernel_table(self._analysis.kernels)

    @cached_property
    def steps(self) -> Table:
        """A row for each step, with a column for each part; the parts sum to ``duration_ns``.

        A trace that marks no steps is one row with the index -1.
        """
        return step_parts_table(self._analysis.step_parts)

    @cached_property
    def gaps(self) -> Table:
        """A row for each gap in which a GPU was idle, the longest first, with its cause and, where
        they are known, the phase, the operator and the line (``FILE:LINE``) of that time: by the
        stacks of the trace, else by the stack samples of the run that it is a window of."""
        return gap_table(self._recorded or Facts(None, self._analysis))

    def _judged(self) -> Subject:
        return self._subject

    @property
    def _analysis(self) -> TraceAnalysis:
        if self._subject.analysis is None:
            raise SubjectError(f"{self._subject.path} is not a trace")
        return self._subject.analysis

    def __repr__(self) -> str:
        marked = sum(index >= 0 for index in self.steps["index"])
        return f"<Trace {self.path.name}: {len(self._analysis.trace)} events, {marked} steps>"


def load_trace(path: str | PathLike[str]) -> Trace:
    """The trace in the file ``path``: of ``torch.profiler``, plain or compressed, or of nsys. In a
    directory of traces it is the lowest rank of the newest recording.

    Raises:
        ValueError: there is no trace, or it cannot be read.
    """
    subject = load_subject(Path(path))
    if subject.run is not None:
        raise SubjectError(f"{path} is a run, not a trace; perftui.open_run opens runs")
    return Trace(subject)
