"""Which calls of operators launched kernels: those around a call, and those that begin one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perftui.analysis import kinds
from perftui.analysis.intervals import numbered, union
from perftui.analysis.kernels.category import Category
from perftui.analysis.model import TraceAnalysis
from perftui.facts.fact import trace_fact
from perftui.facts.kernel.step_kernels import StepKernels, step_kernels
from perftui.facts.step.steady import Mask
from perftui.trace.model import NONE, Int64, Trace


def callers(trace: Trace, rows: Int64) -> Int64:
    """For each of ``rows`` the row that directly holds it, NONE without one or for NONE."""
    found: Int64 = np.where(rows == NONE, NONE, trace.parent[rows]).astype(np.int64)
    return found


def is_named(trace: Trace, rows: Int64, *names: str) -> Mask:
    """Which of ``rows`` have one of ``names``; NONE has none."""
    numbers = [number for number, name in enumerate(trace.names) if name in names]
    named: Mask = numbered(trace.name[rows], numbers, len(trace.names)) & (rows != NONE)
    return named


def explicit_casts(found: StepKernels) -> Mask:
    """Kernels that convert a tensor where the script does: ``aten::to`` called by no operator.
    Autocast's conversions are inside the operators that they are for."""
    trace = found.analysis.trace
    converting = found.operator
    if not len(found):
        return np.zeros(0, dtype=bool)
    copying = is_named(trace, converting, "aten::copy_")
    converting = np.where(copying, callers(trace, converting), converting)
    inner = is_named(trace, converting, "aten::_to_copy")
    outer = callers(trace, np.where(inner, converting, NONE))
    outside = callers(trace, outer)
    by_operator = np.where(outside == NONE, False, kinds.operators(trace)[outside])
    return is_named(trace, outer, "aten::to") & ~by_operator


def is_called(analysis: TraceAnalysis, operator: str) -> bool:
    """Whether an operator of that name is in the trace."""
    return operator in analysis.trace.names


_BIAS = 3
"""Place of the mask among the inputs of the efficient kernel, behind query, key and value."""


@trace_fact
def masked_attention(analysis: TraceAnalysis) -> tuple[int, ...] | None:
    """The size of the square mask, one for all heads, that the longest kernel of attention reads;
    None where it reads none, or the trace was recorded without shapes."""
    found, trace = step_kernels(analysis).of(Category.ATTENTION), analysis.trace
    rows = found.operator
    for _ in range(_NESTED):
        wanted = is_named(trace, rows, "aten::_scaled_dot_product_efficient_attention")
        if wanted.any():
            row = int(rows[wanted][np.argmax(found.duration[wanted])])
            return _square(trace.read_arguments(row))
        rows = callers(trace, rows)
    return None


def _square(arguments: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The mask's size where it is the same for every sequence and head: others are biases."""
    try:
        sizes, strides = (arguments[key][_BIAS] for key in ("Input Dims", "Input Strides"))
        is_one = all(s == 1 or not stride for s, stride in zip(sizes[:-2], strides, strict=False))
        return tuple(sizes[-2:]) if is_one and sizes[-1] == sizes[-2] else None
    except (KeyError, IndexError, TypeError):
        return None


_NESTED = 3
"""Operators above the launch at most."""


@dataclass(frozen=True)
class SearchingCalls:
    """Calls of convolutions in which cuDNN tries out kernels."""

    calls: int
    most: int
    """Kernels that one of them launched."""
    time: int
    """ns that the host spent in them."""


_TRIES = 12
"""Kernels of one call from which on it tries them out: a convolution takes one to four."""


def searching_calls(convolutions: StepKernels) -> SearchingCalls | None:
    """Calls that search for an algorithm, of those that launched ``convolutions``; None without."""
    known = convolutions.operator[convolutions.operator != NONE]
    rows, counts = np.unique(known, return_counts=True)
    tries = counts >= _TRIES
    if not tries.any():
        return None
    time = int(convolutions.analysis.trace.duration[rows[tries]].sum())
    return SearchingCalls(int(tries.sum()), int(counts.max()), time)


def alike_in_steps(found: StepKernels) -> bool:
    """Whether each of several steps launched the same kernels equally often: their sizes are fixed,
    as far as names show; where input sizes were recorded, they are the same as well."""
    trace, steps = found.analysis.trace, found.steps
    if steps <= 1 or not len(found) or len(found) % steps:
        return False
    names = trace.name[found.rows].reshape(steps, -1)
    if (names != names[0]).any():
        return False
    operators = found.operator.reshape(steps, -1)
    return _input_sizes(trace, operators[0]) == _input_sizes(trace, operators[-1])


def _input_sizes(trace: Trace, operators: Int64) -> list[Any]:
    """Sizes of the inputs of those calls, of very many the first ones; None where not recorded."""
    rows = [row for row in operators[:_MOST_SIZES].tolist() if row != NONE]
    return [trace.read_arguments(row).get("Input Dims") for row in rows]


_MOST_SIZES = 64
"""Calls whose sizes are read: each takes a look into the file."""


def launched_under(found: StepKernels, *names: str) -> Mask:
    """Kernels that calls of those operators launched, or what they called."""
    trace, rows = found.analysis.trace, found.operator
    wanted = np.zeros(len(found), dtype=bool)
    while (rows != NONE).any():
        wanted |= is_named(trace, rows, *names)
        rows = callers(trace, rows)
    return wanted


_ZERO_GRAD = re.compile(r"Optimizer\.zero_grad#")


def zeroing(found: StepKernels) -> Mask:
    """Kernels that ``zero_grad`` of an optimizer launched."""
    trace = found.analysis.trace
    rows = np.flatnonzero(kinds.ranges_named(trace, _ZERO_GRAD.match))
    within = union(trace.start[rows], trace.ends_of(rows))
    zeroed: Mask = within.holds(trace.start[found.launch]) & (found.launch != NONE)
    return zeroed


_NORM_FOLLOWS = 2
"""Operators behind a convolution among which its normalisation is: that counts its calls first."""


def bias_before_norm(found: StepKernels) -> Mask:
    """Kernels that add the bias of a convolution which batch normalisation follows."""
    trace = found.analysis.trace
    adding = is_named(trace, found.operator, "aten::add_")
    inner = callers(trace, np.where(adding, found.operator, NONE))
    inner = np.where(is_named(trace, inner, "aten::_convolution"), inner, NONE)
    # aten::conv2d calls aten::convolution, and that aten::_convolution.
    outer = callers(trace, callers(trace, inner))
    if not (outer != NONE).any():
        return np.zeros(len(found), dtype=bool)
    rows = np.flatnonzero(kinds.operators(trace))
    above = trace.parent[rows]
    direct = rows[(above == NONE) | ~kinds.operators(trace)[above]]
    at = np.searchsorted(direct, outer)
    follows = np.zeros(len(found), dtype=bool)
    for behind in range(1, _NORM_FOLLOWS + 1):
        following = direct[np.minimum(at + behind, len(direct) - 1)] if len(direct) else outer
        follows |= is_named(trace, following, "aten::batch_norm")
    wasted: Mask = follows & (outer != NONE)
    return wasted
