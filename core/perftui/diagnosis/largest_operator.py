"""The largest operator, beside a finding that explains less of the step than it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perftui import format as fmt
from perftui.analysis.model import TraceAnalysis
from perftui.diagnosis.model import Figure, Finding, Severity
from perftui.facts.cpu.operators import all_operators
from perftui.facts.fact import Facts, UnknownError, trace_fact
from perftui.facts.gpu.kernels import step_kernels
from perftui.facts.place import Place
from perftui.facts.step.trace_steps import complete, trace_steps
from perftui.trace.model import NONE
from perftui.trace.text import printable

LEAST = 0.10
"""Share of the step from which an operator is named; other tools report parts from there."""


@dataclass(frozen=True)
class Largest:
    """An operator, over the recorded steps."""

    name: str
    share: float
    """Its share of the step, 0 to 1: of kernels that it launches itself, or of its own CPU time."""
    calls: float
    """Its calls in each step, or in the recording."""
    where: str

    @property
    def text(self) -> str:
        """``aten::bmm, 51 % of a recorded step, 48 calls in it``."""
        calls = f"{self.calls:,.0f} calls" if self.calls >= 1.5 else "one call"
        return f"{printable(self.name)}, {fmt.percent(self.share)} of {self.where}, {calls} in it"


@trace_fact
def largest_operator(analysis: TraceAnalysis) -> Largest:
    """The operator with the most time on the device, without one on the CPU. Unknown if the trace
    shows no operators, or not all that they launched."""
    steps, trace = trace_steps(complete(analysis)), analysis.trace
    if steps is None or not steps.step_ns or not len(all_operators(analysis).rows):
        raise UnknownError("no step of the trace shows operators")
    where = "a recorded step" if steps.steps else "the recording"
    if not steps.has_gpu:
        ops = all_operators(analysis)
        own = np.bincount(ops.name, weights=ops.own)
        name, count = int(np.argmax(own)), max(ops.steps.steps, 1)
        calls = int(np.count_nonzero(ops.name == name)) / count
        share = float(own[name]) / count / ops.steps.step_ns
        return Largest(trace.names[name], min(share, 1.0), calls, where)
    kernels = step_kernels(analysis)
    launched = kernels.where(kernels.operator != NONE)
    if not len(launched):
        raise UnknownError("no operator of the trace launched a kernel")
    names = trace.name[launched.operator]
    name = int(np.argmax(np.bincount(names, weights=launched.duration)))
    mine = launched.where(names == name)
    calls = len(np.unique(mine.operator)) / mine.steps
    return Largest(trace.names[name], min(mine.time / steps.step_ns, 1.0), calls, where)


def with_largest(findings: tuple[Finding, ...], facts: Facts) -> tuple[Finding, ...]:
    """``findings``, the first one with the largest operator as its second figure if it explains
    less than that takes."""
    top, largest = next(iter(findings), None), largest_operator.or_none(facts)
    if top is None or top.severity is Severity.HEALTHY or largest is None:
        return findings
    if largest.share < max(LEAST, top.share) or largest.name in top.sentence:
        return findings
    figure = Figure("largest operator", largest.text, place=Place(operator=largest.name))
    return (replace(top, facts=(*top.facts[:1], figure, *top.facts[1:])), *findings[1:])
