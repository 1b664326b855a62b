"""Passes through the model that repeat another one: checkpointing, many small ones, equal ones."""

from __future__ import annotations

import re
from dataclasses import replace

from perftui import format as fmt
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.steps import BACKWARD, FORWARD, OPTIMIZER
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, rule
from perftui.diagnosis.symptoms.operators.work import operator_work
from perftui.facts.cpu.machine import machine_use
from perftui.facts.cpu.operator_loops import SMALL_NS
from perftui.facts.cpu.operators import (
    PHASES,
    Work,
    all_operators,
    idle_in_step,
    of_phases,
    operators,
    repeated_passes,
    work_of,
)
from perftui.facts.cpu.repeated_backward import repeated_backward
from perftui.facts.fact import Facts, trace_fact
from perftui.facts.settings import settings
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import at, line_of, line_place, part_lines, second_call
from perftui.facts.source.source_calls import (
    call_repeated,
    in_own_files,
    line_without_gradients,
    matching_line,
)
from perftui.facts.step.judged_step import PYTHON_IN, host_parts
from perftui.script.evaluation import trained_once
from perftui.trace.model import NONE

MUCH_FREE = 0.5
"""Share of memory in use below which a GPU may hold what checkpointing discards."""


_LAYER = re.compile(
    r"aten::(linear|conv[123]d|layer_norm|batch_norm|group_norm|scaled_dot_product_attention|relu"
    r"|gelu|silu|dropout|softmax|embedding|addmm|lstm|gru|max_pool2d)$"
)
"""Operators that modules call, but nodes of the backward pass do not."""
_OWN_NODE = re.compile(r"aten::(_sparse_addmm|mm)$|(?!\w*[Cc]heckpoint)\w+Backward$")
"""Nodes whose own work has operators of layers; the other nodes of torch end with a number."""


@trace_fact
def recomputed(analysis: TraceAnalysis) -> Work:
    """Operators of layers that run within the backward pass."""
    ops = all_operators(analysis)
    layers = ops.named(_LAYER.match) & ops.in_phase(BACKWARD)
    layers &= ~ops.within(ops.named(_OWN_NODE.match))
    return work_of(ops, ops.within(layers), layers)


INTENDED = 0.30
"""Share of the step up to which checkpointing may well be intended, where memory is dear."""


@rule(
    when="the backward pass recomputes the forward pass (activation checkpointing)",
    limits=Limits(
        "gpuprof and TraceML check it if backward takes 2.5 times as long as forward. On a GPU it "
        "is a hint up to 30 %.",
        0.10,
        0.30,
        info=0.05,
    ),
    fixes=("recompute-off",),
    answer="checkpoint fewer layers, or none, if memory is free",
)
def backward_recompute(facts: Facts) -> Lost | None:
    """Activation checkpointing keeps fewer tensors and computes them again for backward: a quarter
    of the step if it is on for all layers."""
    judged, work = operator_work(facts, whole=True), recomputed(facts)
    if work.row == NONE:
        return None
    used = max((gpu.share for gpu in machine_use(facts).memory), default=None)
    free = ""
    if judged.on_device and used is not None and used < MUCH_FREE:
        free = f", though {fmt.percent(1 - used)} of the GPU's memory is free"
    back = judged.time_of(of_phases(judged.operators, BACKWARD))
    lost = judged.lost(
        work,
        judged.line_of(FORWARD, r"checkpoint", only=True) or judged.line_of(BACKWARD),
        f"Activation checkpointing recomputes the forward pass during backward, for {{part}}{{at}}"
        f"{free}.",
        "forward within backward",
        Figure(BACKWARD, back.ns, "ns"),
        *(() if used is None else (Figure.share("peak memory in use", used),)),
        unproven="" if free else "whether memory would be short without it",
    )
    is_little = judged.on_device and lost.part < INTENDED
    return replace(lost, worst=Severity.INFO) if is_little else lost


@trace_fact
def many_passes(analysis: TraceAnalysis) -> tuple[float, float, Work, int]:
    """The mean number of backward passes of a step, and for each update of weights, of which a step
    may have several; the calls of forward and backward shorter than ``SMALL_NS``, of which one on
    all of the data hardly takes longer, on a GPU only its idle time during any calls; and its idle
    time between such calls, ns. Unknown if the trace has no steps or no operators."""
    ops = operators(analysis)
    count, updates = len(ops.marks(BACKWARD)), len(ops.marks(OPTIMIZER))
    passes, each = count / ops.steps.steps, count / max(updates, ops.steps.steps)
    called = ops.in_phase(FORWARD, BACKWARD)
    if ops.device is not None:
        # Few kernels of many samples take as long as many of few.
        idle = int(ops.device.idle[called].sum())
        between = int(ops.device.between[[PHASES.index(FORWARD), PHASES.index(BACKWARD)]].sum())
        return passes, each, replace(work_of(ops, ~ops.in_phase()), idle=idle), between
    called &= (ops.caller == NONE) & (ops.duration < SMALL_NS)
    return passes, each, work_of(ops, ops.within(called), called), 0


FEWEST = 8
"""Fewest backward passes of a step that are many: a GAN or a few tasks have less."""

_ROWS = r"\b(jacobian|hessian)\("
"""Calls that run backward once for each number of their result."""

_SAME_GRAPH = r"\b(grad|backward)\(.*retain_graph=True"
"""Calls that run backward through a graph that is kept for the next one."""

_OF_GRADIENTS = r"\bgrad\(.*create_graph=True"
"""Calls whose gradients are part of the loss."""

_OF_ELEMENT = r"\bgrad\(\s*[\w.]+\["
"""Calls that run backward for a part of a result."""


@rule(
    when="a step runs many backward passes, each with little work",
    limits=Limits("As for the script's own Python.", 0.10, 0.30),
    answer="take all samples in one pass with torch.func.vmap, or use larger micro-batches",
)
def many_backward_passes(facts: Facts) -> Lost | None:
    """Per-sample gradients, a Jacobian computed row by row, and tiny micro-batches call every
    operator again for little arithmetic. The cost is Python and operator calls shorter than 0.1 ms,
    less one pass."""
    # Cost of the number of passes: Python and short calls, which a single pass over all of the data
    # needs only once.
    work, (passes, each, small, between) = operator_work(facts), many_passes(facts)
    judged, step = work.judged, work.of
    again = repeated_backward.or_none(facts)
    if each < FEWEST or (again is not None and again[0].calls):
        # Passes through the same graph have their own finding.
        return None
    calls = work.time_of(small)
    python = idle_in_step(work.operators, judged, between)
    python += sum(judged.part(f"{PYTHON_IN}{phase}") for phase in (FORWARD, BACKWARD))
    cost = round(min(calls.ns + python, step.mean) * (1 - 1 / each))
    texts = (matching_line(facts, text, only=True) for text in (_ROWS, _SAME_GRAPH, _OF_GRADIENTS))
    line = next(filter(None, texts), None) or line_of(facts, BACKWARD, _OF_ELEMENT)
    return Lost(
        cost,
        step,
        f"Each step runs {passes:.0f} backward passes{at(line)}: Python and short "
        f"operator calls take {step.part_of(cost)} more than a single pass would.",
        (
            Figure("backward passes of a step", round(passes, 1)),
            Figure("short calls of operators", calls.ns, "ns"),
            Figure("Python in forward and backward", python, "ns"),
        ),
        label="lost to their number",
        place=line_place(facts, line),
        parts=host_parts(facts, (FORWARD, BACKWARD)),
    )


TEACHER = 1.5
"""Ratio of all modules' tensors to the optimizers' from which another model may run as well."""


@rule(
    when="the model runs an extra forward pass in a step, without backward",
    limits=Limits(),
    answer="use the outputs that the loss was computed from, or compute the metrics every N steps",
)
def repeated_forward(facts: Facts) -> Lost | None:
    """A forward pass for the metrics of a batch costs a third of a step."""
    judged, work = operator_work(facts), repeated_passes(facts)
    if not work.calls or _may_be_another_model(facts) or in_own_files(facts, trained_once):
        return None
    line = _line_behind_backward(facts) or call_repeated(facts) or second_call(facts)
    looped = None if line else line_without_gradients(facts)
    lost = judged.lost(
        work,
        line or looped,
        "The model runs another forward pass without a backward pass in the same step, for "
        "{part}{at}.",
        "forward again",
    )
    return replace(lost, advice=_RARELY) if looped else lost


_RARELY = "do that every N steps, or on a part of the data"


@rule(
    when="several backward passes of a step run through the same layers",
    limits=Limits(),
    fixes=("backward-once",),
    answer="sum the losses and call backward() once, without retain_graph",
)
def repeated_backward_rule(facts: Facts) -> Lost | None:
    """Each loss has its own backward pass on a retained graph. Gradients add up either way."""
    judged, (work, passes) = operator_work(facts), repeated_backward(facts)
    if not work.calls:
        return None
    return judged.lost(
        work,
        line_of(facts, BACKWARD),
        f"{passes:.3g} backward passes of each step run through the same layers, for "
        "{part} more than one would{at}.",
        "backward again",
        Figure("nodes that run again", work.calls, "count"),
    )


def _line_behind_backward(facts: Facts) -> LineShare | None:
    """A line that runs the model, below the one that runs backward in the same function."""
    back, lines = line_of(facts, BACKWARD), part_lines(facts, FORWARD)
    if back is None or lines is None:
        return None
    same = (
        line for line in lines.lines if (line.file, line.function) == (back.file, back.function)
    )
    return next((line for line in same if line.line > back.line), None)


def _may_be_another_model(facts: Facts) -> bool:
    setup = settings(facts)
    if setup.parameters is None or setup.optimizers is None:
        return True
    optimized = sum(optimizer.parameters or 0 for optimizer in setup.optimizers)
    return sum(group.tensors for group in setup.parameters) >= TEACHER * max(optimized, 1)
