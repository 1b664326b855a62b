"""Which operators on the CPU the steps of a trace spend their time in."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import union
from perftui.analysis.model import TraceAnalysis
from perftui.facts.cpu.operators import operators
from perftui.facts.fact import UnknownError, trace_fact
from perftui.facts.step.trace_steps import trace_steps

LONG_NS = 100_000
"""Own time of a call from which on torch can split it among threads with a gain: waking them and
waiting for the last takes some ten microseconds."""

_SERIAL = re.compile(
    r"aten::(normal|uniform|random|bernoulli|exponential|randperm|multinomial|dropout"
    r"|_local_scalar_dense|item|empty|set_data|record_stream)|c10d::|gloo:"
)
"""Operators that run on one thread, such as those that draw random numbers."""

_ONEDNN = re.compile(
    r"aten::(convolution|convolution_backward|_convolution|conv\w+|lstm|gru|rnn_\w+)$"
    r"|.*(Convolution|MkldnnRnnLayer)Backward\d*$"
)
"""Operators that oneDNN computes in float32, the outermost ones."""

_OLDER_CONVOLUTION = re.compile(r"aten::(_slow_conv2d_\w+|slow_conv\w*|thnn_conv2d\w*)$")
"""What torch convolves with on the CPU where oneDNN does not."""


@dataclass(frozen=True)
class CpuOperators:
    """Shares of the time of the steady steps, 0 to 1."""

    splittable: float
    """Share in calls long enough to be split among threads, of operators that torch splits."""
    onednn: float
    """Share in convolutions and recurrent layers."""


@trace_fact
def cpu_operators(analysis: TraceAnalysis) -> CpuOperators:
    """Where the steady steps of a trace compute on the CPU.

    Raises:
        UnknownError: no profiled step shows the operators.
    """
    found = operators(analysis)
    trace, whole = found.trace, found.steps.step_ns * found.steps.steps
    splits = (found.own >= LONG_NS) & ~found.named(_SERIAL.match)
    convolving = found.rows[found.named(_ONEDNN.match)]
    onednn = union(trace.start[convolving], trace.ends_of(convolving)).total
    return CpuOperators(
        min(float(found.own[splits].sum()) / whole, 1.0),
        min(onednn / whole, 1.0),
    )


@trace_fact
def older_convolutions(analysis: TraceAnalysis) -> float:
    """Share of the steps (or of all of a trace without) in convolutions that oneDNN could do, 0 to
    1; 0 where it does any of them.

    Raises:
        UnknownError: the trace takes no time.
    """
    steps, trace = trace_steps(analysis), analysis.trace
    if steps is None:
        raise UnknownError("nothing has been recorded")
    chosen = kinds.operators(trace) & steps.inside
    rows = np.flatnonzero(chosen & kinds.named(trace, _OLDER_CONVOLUTION.match))
    if (chosen & kinds.named(trace, "aten::mkldnn_convolution".__eq__)).any():
        return 0.0
    whole = steps.step_ns * max(steps.steps, 1)
    return min(union(trace.start[rows], trace.ends_of(rows)).total / whole, 1.0)
