"""``many-backward-passes``: a step goes backward many times, each time for little."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.operator_loops import SMALL_NS
from perftui.facts.cpu.operators import Work, cpu_operators, in_step, operators, work_of
from perftui.facts.cpu.repeated_backward import repeated_backward
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import at, line_of, place_of
from perftui.facts.source.source_search import matching_line
from perftui.facts.step.judged_step import PYTHON_IN
from perftui.trace.model import NONE


@dataclass(frozen=True, eq=False)
class ManyPasses:
    """What a step calls for all of its backward passes."""

    small: Work
    """Calls of forward and backward that are short: one on all of the data takes hardly longer."""
    per_step: float
    """Backward passes of a step, the mean."""


@trace_fact
def many_passes(analysis: TraceAnalysis) -> ManyPasses:
    """The backward passes of a step, and the calls of operators around and in them that take less
    than ``SMALL_NS``.

    Raises:
        UnknownError: the trace has no steps or no operators.
    """
    found = operators(analysis)
    marks = kinds.marked(found.trace, BACKWARD) & found.steps.inside
    called = (found.caller == NONE) & found.in_phase(FORWARD, BACKWARD)
    called &= found.duration < SMALL_NS
    small = work_of(found, found.within(called), called)
    return ManyPasses(small, float(np.count_nonzero(marks)) / found.steps.steps)


FEWEST = 8
"""Backward passes of a step that make it many: a GAN or a few tasks have less."""

_ROWS = r"\b(jacobian|hessian)\("
"""Calls that go backward once for each number of their result."""


def _many(facts: Facts) -> Lost | None:
    """What the number of passes costs: Python and short calls, of which one pass over all of the
    data would have as many as each of them."""
    found, judged = cpu_operators(facts)
    passes = many_passes(facts)
    again = repeated_backward.or_none(facts)
    if passes.per_step < FEWEST or (again is not None and again.work.calls):
        # Through the same graph again: that is a finding of its own.
        return None
    calls = in_step(found, judged, passes.small.by_phase)
    python = sum(judged.part(f"{PYTHON_IN}{phase}") for phase in (FORWARD, BACKWARD))
    mean = judged.of.mean
    cost = round(min(calls.ns + python, mean) * (1 - 1 / passes.per_step))
    rows = matching_line(facts, _ROWS, only=True)
    line = LineShare(*rows, "", "", 0) if rows else line_of(facts, BACKWARD)
    return Lost(
        cost,
        judged.of,
        f"Each step runs {passes.per_step:.0f} backward passes{at(line)}: Python and short "
        f"operator calls take {fmt.part_of_step(cost, mean)} more than a single pass would.",
        (
            Figure.share("lost to their number", cost / mean, MANY.limits.warning),
            Figure("backward passes of a step", round(passes.per_step, 1)),
            Figure("short calls of operators", calls.ns, "ns"),
            Figure("Python in forward and backward", python, "ns"),
            Figure("mean step", mean, "ns"),
            Figure("steady steps", judged.of.count, "count"),
        ),
        place=place_of(facts, line),
        parts=tuple(
            part.name
            for part in judged.parts
            if part.name.removeprefix(PYTHON_IN) in (FORWARD, BACKWARD)
        ),
    )


MANY = Rule(
    id="many-backward-passes",
    when="a step runs many backward passes, each with little work",
    explanation=(
        "Per-sample gradients, a Jacobian computed row by row, or micro-batches of very few "
        "samples: each pass calls every operator again for little arithmetic. torch.func.vmap and "
        "grad take all samples in one pass, one backward pass of a sum gives the diagonal of a "
        "Jacobian, and larger micro-batches need fewer passes. The cost is Python and operator "
        "calls shorter than 0.1 ms, less one pass."
    ),
    lost=_many,
    limits=Limits(0.10, 0.30, "The same limit as for the script's own Python."),
    answer="torch.func.vmap, larger micro-batches, one backward pass of a sum",
)
