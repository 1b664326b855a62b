"""Loops over tensors or pieces of them, one at a time, the optimizer's among them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from perftui import format as fmt
from perftui.analysis import kinds
from perftui.analysis.intervals import mask_of
from perftui.analysis.kernels.category import Category, category_of
from perftui.analysis.model import GapCause, TraceAnalysis
from perftui.analysis.steps import BACKWARD, COMPUTE, OPTIMIZER, OTHER
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule, rule
from perftui.diagnosis.symptoms.operators.work import OperatorWork, operator_work
from perftui.facts.cpu.machine import has_gpu
from perftui.facts.cpu.operator_loops import Loop, loops, loops_over_rows, time_in
from perftui.facts.cpu.operators import judged_operators
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact, trace_fact
from perftui.facts.gpu.kernels import StepKernels, step_kernels
from perftui.facts.place import Place
from perftui.facts.settings import OptimizerSettings, settings
from perftui.facts.source.lines import text_of
from perftui.facts.source.operator_lines import at, line_of, line_place, optimizer_lines, with_line
from perftui.facts.source.source_calls import call_of, loop_of, uses_of
from perftui.facts.step.judged_step import PYTHON_IN, judged_step
from perftui.facts.step.steps import steady_step
from perftui.trace.model import NONE

MANY_TURNS = 50
"""Turns from which a loop in the script goes over the parameters: as many tensors as make an
optimizer slow."""

_HANDED = re.compile(
    r"aten::(empty\w*|set_\w*|resize_|detach_?|alias|view|as_strided|lift_fresh|to|_to_copy)$"
)
"""What makes tensors and views of memory that is there, as where a batch is unpickled."""

NAMED = 3
"""Operators of a turn named in the sentence."""

_INDEXING_TEXT = r"\w\[[^\]]+\]|\bfor\b.*\bin\b|\.(select|narrow|index_select|unbind|split)\("


@rule(
    when="a loop calls a few operators for one tensor at a time, outside the optimizer",
    limits=Limits(),
    fixes=("foreach-average",),
    answer=(
        "use torch._foreach_ functions, clip_grad_norm_ of torch.nn.utils, or AveragedModel of "
        "torch.optim.swa_utils"
    ),
)
def per_parameter_loop(facts: Facts) -> Lost | None:
    """Weight averaging (EMA), clipping and norms in a loop call a few tiny operators for each
    parameter. On a GPU the cost is its idle time during the loop."""
    work, all_loops = operator_work(facts), loops(facts)
    outside = [
        loop
        for loop in all_loops
        if loop.phase == OTHER
        and loop.turns >= MANY_TURNS
        and not loop.indexing
        # Other libraries, such as the reducer of gradients, loop by themselves.
        and all(name.startswith("aten::") for name in loop.names)
        and not all(map(_HANDED.match, loop.names))
    ]
    return _lost(work, per_parameter_loop, outside)


def _lost(work: OperatorWork, rule: Rule, chosen: Sequence[Loop]) -> Lost | None:
    facts, ops, step = work.facts, work.operators, work.of
    called = [loop for loop in chosen if loop.phase != BACKWARD]
    if not called:
        return None
    time = time_in(ops, work.judged, chosen)
    longest = max(called, key=lambda loop: int(loop.taken.sum()))
    pieces = rule is loop_of_indexing
    line = work.stack_line(int(ops.rows[longest.positions[0]]))
    if pieces:
        line = line or line_of(facts, longest.phase, _INDEXING_TEXT, only=True, looped=True)
    line = line or loop_of(facts, longest.names, pieces=pieces) or work.line_of(longest.phase)
    calls, part = _what(facts, longest, rule), step.part_of(time.ns)
    turns = "iterations of the longest loop" if longest.is_even else "pieces"
    uses = uses_of(facts, line.file, line.line) if line else ()
    # What a step of a recurrence needs of the one before cannot be computed for all at once.
    is_fed = any(use.turns and re.search(r"carry.* fed", use.turns.kind) for use in uses)
    copies = line is not None and "deepcopy(" in text_of(line.file, line.line)
    return Lost(
        time.ns,
        step,
        f"{'copy.deepcopy' if copies else 'A loop'}{at(line)} calls {calls}: "
        f"{'the GPU idles' if work.on_device else 'this takes'} {part}"
        f"{' meanwhile' if work.on_device else ''}.",
        (
            Figure(turns, longest.turns, "count"),
            Figure("operators of a step", len(ops.rows) // ops.steps.steps, "count"),
        ),
        label="in the loop",
        place=line_place(facts, line, longest.names[0]),
        parts=time.parts,
        worst=Severity.INFO if is_fed else Severity.CRITICAL,
        advice=WHOLE
        if rule is per_parameter_loop and 0 < 2 * _tensors(facts) < longest.turns
        else "",
    )


def _tensors(facts: Facts) -> int:
    """Tensors of all models; 0 if not known."""
    return sum(group.tensors for group in settings(facts).parameters or ())


def _what(facts: Facts, loop: Loop, rule: Rule) -> str:
    distinct = list(dict.fromkeys(loop.names))
    names = ", ".join(distinct[:NAMED]) + (", ..." if len(distinct) > NAMED else "")
    if not loop.is_even:
        return f"small operators ({names}) for {loop.turns} slices of tensors, one by one"
    count = fmt.several(len(loop.names), "small operator")
    of = " for a slice of a tensor each" if rule is loop_of_indexing else ""
    if rule is per_parameter_loop and loop.turns == _tensors(facts):
        return f"{count} ({names}) for each of {loop.turns} parameters"
    return f"{count} ({names}) {loop.turns} times{of}"


WHOLE = "compute on the whole tensor, or use torch.vmap or a layer that loops internally (nn.LSTM)"
"""What to do in place of a loop that goes over no parameters: it has far more turns."""


@rule(when="a loop slices tensors and computes piece by piece", limits=Limits(), answer=WHOLE)
def loop_of_indexing(facts: Facts) -> Lost | None:
    """A Python loop over rows, time steps or boxes calls small operators on each slice, forward and
    backward. Calls longer than 0.1 ms count as arithmetic, not as lost time."""
    work, all_loops = operator_work(facts), loops_over_rows(facts)
    return _lost(work, loop_of_indexing, [loop for loop in all_loops if loop.phase != OPTIMIZER])


MANY_LAUNCHES = 100
"""Launches of one optimizer step from which they are a loop over parameters; foreach and fused ones
of a thousand parameters make less than fifty."""

MANY_TENSORS = 50
"""Tensors below which a loop takes no longer than their arithmetic: six tensors of a million
elements each are as slow to update in one operator."""

_STEP = re.compile(r"Optimizer\.step#(\w+)\.step")


@fact
def single_tensor_optimizer(facts: Facts) -> OptimizerSettings | None:
    """The optimizer with most tensors, if it updates many of them one at a time; None if it does
    not, or is unknown."""
    setup = settings(facts)
    optimizers = setup.optimizers or ()
    largest = max(optimizers, key=lambda optimizer: optimizer.parameters or 0, default=None)
    if largest is None or (largest.parameters or 0) < MANY_TENSORS:
        return None
    if not is_of_torch(largest):
        shown = (loop for loop in loops.or_none(facts) or () if loop.phase == OPTIMIZER)
        return largest if any(loop.turns >= MANY_TENSORS for loop in shown) else None
    if largest.fused or largest.foreach or largest.differentiable:
        return None
    # With neither set, torch uses foreach if all parameters are on a GPU.
    devices = {group.device.split(":")[0] for group in setup.parameters or () if group.trained}
    return largest if largest.foreach is False or devices == {"cpu"} else None


def is_of_torch(optimizer: OptimizerSettings) -> bool:
    """Whether it is torch's own, with options to make it faster."""
    return optimizer.name.startswith("torch.optim.")


@fact
def optimizer_calls(facts: Facts) -> int:
    """Time of calling operators in the optimizer's loop on the CPU, without their arithmetic, ns of
    the mean step; 0 without a window that shows it."""
    try:
        ops, judged = judged_operators(facts)
    except (NotApplicableError, UnknownError):
        return 0
    chosen = [loop for loop in loops(facts) if loop.phase == OPTIMIZER]
    return time_in(ops, judged, chosen).ns


@trace_fact
def optimizer_loop(analysis: TraceAnalysis) -> tuple[str, int, StepKernels, int] | None:
    """An optimizer that launches kernels for one parameter at a time: its class, empty if the trace
    does not name it; its launches per step, without kernels for many tensors at once; its kernels,
    and ns per step from the first to the end of the last. None if they are few. Unknown if the
    trace shows no kernels."""
    all_kernels = step_kernels(analysis)
    mine = all_kernels.where(all_kernels.in_phase(OPTIMIZER))
    # A CUDA graph of many kernels is one launch.
    single = mine.where(~mine.named(lambda name: category_of(name) is Category.OPTIMIZER))
    called = mask_of(len(analysis.trace), single.launch[single.launch != NONE])
    launches = int(np.count_nonzero(called)) // all_kernels.steps
    if launches < MANY_LAUNCHES:
        return None
    matches = (_STEP.match(name) for name in analysis.trace.names)
    return next((match.group(1) for match in matches if match), ""), launches, mine, _span(mine)


def _span(kernels: StepKernels) -> int:
    """ns per step from the first kernel launched by a range of the optimizer to the end of the
    last."""
    trace = kernels.analysis.trace
    ranges = np.flatnonzero(kinds.optimizer(trace) | kinds.marked(trace, OPTIMIZER))
    begins = np.sort(trace.start[ranges])
    of_range = np.searchsorted(begins, trace.start[kernels.launch], side="right")
    starts, ends = trace.start[kernels.rows], trace.ends_of(kernels.rows)
    first = np.full(len(begins) + 1, np.iinfo(np.int64).max)
    last = np.zeros(len(begins) + 1, dtype=np.int64)
    np.minimum.at(first, of_range, starts)
    np.maximum.at(last, of_range, ends)
    return int((last - first)[last > first].sum()) // kernels.steps


_SAVED_WAITS = 0.9
"""Share saved of the GPU's waits for the optimizer's launches: on an H100 AdamW took 67 ms for 600
parameters one at a time, 4 ms fused."""


@rule(
    when="the optimizer updates one tensor at a time",
    limits=Limits("A smaller speed-up is hard to measure.", 0.10, 0.20),
    claims=Claim(phase="optimizer"),
    fixes=("optimizer-fused", "optimizer-foreach"),
    answer=(
        "pass fused=True or foreach=True to the optimizer, or use torch._foreach_ operators in "
        "your own"
    ),
)
def optimizer_single_tensor(facts: Facts) -> Lost | None:
    """The optimizer calls several operators for each parameter; a fused one calls one for all. On
    the CPU the cost is half of its time, or the overhead of its calls if that is more; on a GPU,
    nine tenths of the wait for its launches plus half of its kernels' time."""
    loop = optimizer_loop.or_none(facts)
    if loop is None:
        return None if facts.run is None or has_gpu(facts) else _on_cpu(facts)
    (name, launches, kernels, span), step = loop, judged_step(facts).of
    if facts.run is not None:
        # The profiler slows the host, and so the launches.
        span = min(span, steady_step(facts).part("optimizer"))
    waits = max(span - kernels.time, 0)
    settings_of = single_tensor_optimizer(facts)
    line = call_of(facts, name) if name else None
    if settings_of is not None:
        place: Place | None = facts.at(settings_of)
    elif line is not None:
        place = line_place(facts, line)
    else:
        place = with_line(facts, kernels.place, optimizer_lines.or_none(facts))
    return Lost(
        min(round(waits * _SAVED_WAITS) + kernels.time // 2, step.mean),
        step,
        f"The optimizer occupies the GPU for {step.part_of(min(span, step.mean))}: "
        f"{name or 'it'} launches {launches} kernels, one parameter at a time.",
        (
            Figure("kernels of the optimizer", launches, "count", MANY_LAUNCHES),
            Figure("in its kernels", kernels.time, "ns"),
            Figure("waiting for their launches", waits, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place,
        (GapCause.LAUNCH.value, COMPUTE),
    )


def _on_cpu(facts: Facts) -> Lost | None:
    """The loss of an optimizer's loop on the CPU, by its settings: there are no kernels."""
    step = steady_step(facts)
    part = step.part("optimizer")
    share = part / step.mean
    if share < optimizer_single_tensor.limits.warning:
        return None
    if settings(facts).optimizers is None:
        raise UnknownError("how the optimizer was created was not recorded")
    optimizer = single_tensor_optimizer(facts)
    if optimizer is None:
        return None
    at = f" at {optimizer.source}" if optimizer.source else ""
    tensors = fmt.several(optimizer.parameters or 0, "tensor")
    place = facts.at(optimizer)
    of_torch = is_of_torch(optimizer)
    if not of_torch:
        place = line_place(facts, line_of(facts, "optimizer")) or place
    return Lost(
        # Fused kernels take a half to a fifth of the time.
        max(part // 2, min(optimizer_calls(facts), part)),
        step,
        f"The optimizer takes {step.part_of(part)}: {optimizer.class_name}{at} updates "
        f"{tensors} one at a time.",
        (
            Figure.share("optimizer", share, optimizer_single_tensor.limits.warning, place),
            Figure("mean optimizer", part, "ns", place=place),
        ),
        place=place,
        parts=("optimizer", f"{PYTHON_IN}optimizer"),
        share=share,
        fixes=None if of_torch else (),
    )
