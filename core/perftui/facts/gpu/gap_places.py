"""Where a gap of the GPU is: when, what the host did, and at which line of the user's code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from perftui.analysis.model import Gap
from perftui.analysis.ops import frames
from perftui.facts.place import Place
from perftui.facts.step.trace_steps import TraceSteps
from perftui.trace.model import CPU_OP, NONE, PYTHON, Trace


def place_of(gap: Gap, steps: TraceSteps) -> Place:
    """Where a gap is: its times, what caused it (the wait that came before, else what ran on the
    launching thread) and the line of user code."""
    trace, within = steps.analysis.trace, steps.step_at(gap.start)
    step = within.index if within and steps.steps else None
    rows = [gap.wait_row, gap.operator_row, gap.launch_row]
    if gap.wait_row == NONE and _launches_over(trace, gap):
        rows = [gap.launch_row]
    row = next((row for row in rows if row != NONE), NONE)
    operator = trace.name_of(row) if row != NONE else None
    file, line = source_line(trace, row)
    return Place(None, step, gap.start, gap.end, row if row != NONE else None, operator, file, line)


def _launches_over(trace: Trace, gap: Gap) -> bool:
    """Whether the launch takes most of a gap, in no operator."""
    if gap.launch_row == NONE or int(trace.parent[gap.launch_row]) != gap.operator_row:
        return False
    if trace.categories[int(trace.category[gap.operator_row])] == CPU_OP:
        return False
    start = max(int(trace.start[gap.launch_row]), gap.start)
    end = int(trace.start[gap.launch_row] + trace.duration[gap.launch_row])
    return 2 * (min(end, gap.end) - start) > gap.duration


def source_line(trace: Trace, row: int) -> tuple[str | None, int | None]:
    """Innermost frame of user code above ``row``, in a trace recorded with stacks."""
    while row != NONE:
        if trace.categories[int(trace.category[row])] == PYTHON:
            found = frames.source_line(trace.name_of(row))
            if found is not None:
                return found.file, found.line
        row = int(trace.parent[row])
    return None, None


def most_common(names: Iterable[str | None]) -> str | None:
    """The name that occurs most; None where all are unknown."""
    counts = Counter(name for name in names if name)
    return counts.most_common(1)[0][0] if counts else None
