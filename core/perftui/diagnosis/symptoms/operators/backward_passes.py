"""Backward passes that do more than they need to: checkpointing, and many passes in one step."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.diagnosis.symptoms.operators.kernel_work import (
    PARTS,
    kernel_work,
    listed,
    step_figures,
)
from perftui.facts.cpu.machine import machine_use
from perftui.facts.cpu.operator_loops import SMALL_NS
from perftui.facts.cpu.operators import Work, cpu_operators, in_step, operators, work_of
from perftui.facts.cpu.repeated_backward import repeated_backward
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.kernel.step_kernels import launched_under
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import at, forward_lines, line_of, place_of, with_line
from perftui.facts.source.source_search import matching_line
from perftui.facts.step.judged_step import PYTHON_IN
from perftui.trace.model import NONE

_FORWARD_ONLY = (
    "aten::linear",
    "aten::matmul",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::layer_norm",
    "aten::batch_norm",
    "aten::group_norm",
    "aten::scaled_dot_product_attention",
    "aten::gelu",
    "aten::relu",
    "aten::softmax",
)
"""Operators that the backward pass has others for."""


MUCH_FREE = 0.5
"""Share of its memory in use below which a GPU may hold what checkpointing throws away."""


def _recompute(facts: Facts) -> Lost | None:
    work = kernel_work(facts)
    backward = work.kernels.kept(BACKWARD, lambda found: found.in_phase(BACKWARD))
    found = backward.kept(RECOMPUTE.id, lambda found: launched_under(found, *_FORWARD_ONLY))
    time = found.time
    if not time:
        return None
    used = max((one.share for one in machine_use(facts).memory), default=None)
    free = ""
    if used is not None and used < MUCH_FREE:
        free = f", though {fmt.percent(1 - used)} of the GPU's memory is free"
    return Lost(
        work.won(time),
        work.of,
        f"The backward pass recomputes parts of the forward pass for {work.of_step(time)}: "
        f"activation checkpointing is on{free}.",
        (
            Figure("backward", backward.time, "ns"),
            *(() if used is None else (Figure.share("peak memory in use", used),)),
            *listed(found),
            work.steps,
        ),
        with_line(facts, found.place, forward_lines.or_none(facts)),
        PARTS,
    )


RECOMPUTE = Rule(
    id="backward-recompute",
    when="the backward pass recomputes the forward pass (activation checkpointing)",
    explanation=(
        "Activation checkpointing keeps fewer tensors and recomputes them when the backward pass "
        "needs them. It trades time for memory: a quarter of the step if it is on for all layers. "
        "If memory is free, turn it off, or use it for fewer layers."
    ),
    lost=_recompute,
    limits=Limits(0.30, 1.0, "It is intentional: a hint from 5 %, a warning from 30 %.", info=0.05),
    fixes=("recompute-off",),
    answer="checkpoint fewer layers if memory is free",
)


_LAYER = re.compile(
    r"aten::(linear|conv[123]d|layer_norm|batch_norm|group_norm|scaled_dot_product_attention|relu"
    r"|gelu|silu|dropout|softmax|embedding|addmm|lstm|gru|max_pool2d)$"
)
"""What modules call, and no node of the backward pass does."""


@trace_fact
def recomputed(analysis: TraceAnalysis) -> Work:
    """Operators of layers that run within the backward pass."""
    found = operators(analysis)
    layers = found.named(_LAYER.match) & found.in_phase(BACKWARD)
    return work_of(found, found.within(layers), layers)


def _recompute_on_cpu(facts: Facts) -> Lost | None:
    found, judged = cpu_operators(facts)
    work = recomputed(facts)
    if not work.calls:
        return None
    time = in_step(found, judged, work.by_phase)
    line = line_of(facts, FORWARD, r"checkpoint", only=True) or line_of(facts, BACKWARD)
    mean = judged.of.mean
    return Lost(
        time.ns,
        judged.of,
        "Activation checkpointing recomputes the forward pass during backward, for "
        f"{fmt.part_of_step(time.ns, mean)}{at(line)}.",
        (
            Figure.share(
                "forward within backward", time.ns / mean, RECOMPUTE_ON_CPU.limits.warning
            ),
            *(Figure(name, judged.part(name), "ns") for name in (FORWARD, BACKWARD)),
            *step_figures(judged.of),
        ),
        place=place_of(facts, line),
        parts=time.parts,
        unproven="whether memory would be short without it",
    )


RECOMPUTE_ON_CPU = Rule(
    id="backward-recompute",
    when="backward recomputes the forward pass (activation checkpointing)",
    explanation=(
        "torch.utils.checkpoint drops activations and recomputes them in the backward pass. That "
        "saves memory. If memory is not short, the time is wasted: checkpoint fewer blocks, or "
        "none."
    ),
    lost=_recompute_on_cpu,
    limits=Limits(
        0.10, 0.30, "gpuprof and TraceML check it once backward takes 2.5 times as long as forward."
    ),
    fixes=("recompute-off",),
    answer="checkpoint fewer blocks if memory allows",
)


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
            *step_figures(judged.of),
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
