"""The operator and the line of each gap of a device, by the trace's stacks or by samples."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from perftui.analysis.model import Gap, TraceAnalysis
from perftui.facts.fact import Facts
from perftui.facts.gpu.gaps import line_of_gap, place_of, recorded
from perftui.facts.source.lines import stack_samples
from perftui.facts.step.trace_steps import trace_steps
from perftui.run.table import Table


@dataclass(frozen=True)
class GapSource:
    """What the host did in a gap; None where that is not known."""

    step: int | None = None
    """Number of the step that it begins in, where steps are known."""
    operator: str | None = None
    line: str | None = None
    """``file:line`` of the user's code."""


@dataclass(frozen=True, eq=False)
class GapSources:
    """Finds the source of gaps of one trace."""

    facts: Facts

    def of(self, gap: Gap) -> GapSource:
        """By the stacks of the trace, else by the stack samples of its run."""
        steps, analysis = trace_steps.or_none(self.facts), self.facts.analysis
        if steps is None or analysis is None:
            return GapSource()
        place = place_of(gap, steps)
        line = place.source
        if line is None and self._samples:
            seen = line_of_gap(self._samples, analysis, gap)
            own = seen.lines[0] if seen and seen.lines else None
            line = own.source if own and own.file else None
        return GapSource(self._step_at(gap.start, analysis), place.operator, line)

    def _step_at(self, time: int, analysis: TraceAnalysis) -> int | None:
        if not analysis.steps:
            return None
        number = bisect_right(self._starts, time) - 1
        step = analysis.step_parts[number].step if number >= 0 else None
        return step.index if step and time < step.end else None

    @cached_property
    def _starts(self) -> list[int]:
        """When each step begins; they follow one another."""
        analysis = self.facts.analysis
        return [one.step.start for one in analysis.step_parts] if analysis else []

    @cached_property
    def _samples(self) -> tuple[Table, ...]:
        """Those taken during the trace: there may be hours of others."""
        analysis = self.facts.analysis
        origin = analysis.trace.wall_origin if analysis else None
        if analysis is None or origin is None:
            return ()
        first, last = recorded(analysis)
        tables = (one for one in stack_samples(self.facts) if len(one))
        meeting = (
            one.where((one["time"] + one["held"] > origin + first) & (one["time"] < origin + last))
            for one in tables
        )
        return tuple(one for one in meeting if len(one))
