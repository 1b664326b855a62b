"""The optimizer takes longer than it needs to."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.judged_step import PYTHON_IN
from perftui.facts.operator_lines import line_of, place_of
from perftui.facts.optimizer import is_of_torch, optimizer_calls, single_tensor_optimizer
from perftui.facts.place import Place
from perftui.facts.settings import settings
from perftui.facts.steps import steady_step


def _single_tensor(facts: Facts) -> Lost | None:
    """A trace is not asked: it does not say how its optimizers are made."""
    if facts.run is None:
        return None
    step = steady_step(facts)
    part = step.part("optimizer")
    share = part / step.mean
    if share < SINGLE_TENSOR.limits.warning:
        return None
    if settings(facts) is None:
        raise UnknownError("how the optimizer is made was not recorded")
    made = single_tensor_optimizer(facts)
    if made is None:
        return None
    at = f" at {made.source}" if made.source else ""
    tensors = fmt.several(made.parameters or 0, "tensor")
    place = Place(rank=facts.rank_number, file=made.file, line=made.line)
    of_torch = is_of_torch(made)
    if not of_torch:
        place = place_of(facts, line_of(facts, "optimizer")) or place
    return Lost(
        # Fused kernels take a half to a fifth of the time.
        max(part // 2, min(optimizer_calls(facts), part)),
        step,
        f"The optimizer takes {fmt.part_of_step(part, step.mean)}: {made.class_name}{at} updates "
        f"{tensors} one at a time.",
        (
            Figure.share("optimizer", share, SINGLE_TENSOR.limits.warning, place),
            Figure("mean optimizer", part, "ns", place=place),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place=place,
        parts=("optimizer", f"{PYTHON_IN}optimizer"),
        share=share,
        fixes=None if of_torch else (),
    )


SINGLE_TENSOR = Rule(
    id="optimizer-single-tensor",
    when="the optimizer updates one tensor at a time",
    explanation=(
        "A loop over the parameters starts a handful of operators for each of them. A fused "
        "optimizer does all of it in one, foreach in a few. On the GPU torch takes foreach by "
        "itself, on the CPU neither. An optimizer of your own does it with torch._foreach_ "
        "operators. The cost is taken to be half of the optimizer's time, as fused ones take a "
        "half to a fifth, or what the calls of its operators take, where that is more."
    ),
    lost=_single_tensor,
    limits=Limits(0.10, 0.20, "From 10 % on: below that even twice the speed is hard to measure."),
    claims=Claim(phase="optimizer"),
    fixes=("optimizer-fused",),
    answer="fused or foreach optimizer",
)
