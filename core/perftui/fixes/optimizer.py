"""Optimizers that update all parameters in one operator, or in a few."""

from __future__ import annotations

from perftui.facts.cpu.optimizer import is_of_torch, single_tensor_optimizer
from perftui.facts.fact import Facts
from perftui.facts.settings import OptimizerSettings
from perftui.fixes.call_source import CallChange
from perftui.fixes.fix import Fix
from perftui.fixes.model import Risk
from perftui.fixes.source.optimizer_arguments import HAVE, optimizer_spec


def _fused(facts: Facts) -> CallChange | None:
    made = single_tensor_optimizer(facts)
    if made is None:
        return None
    has_it = made.class_name in HAVE["fused"]
    return _with(made, "fused", "" if has_it else f"torch has no fused {made.class_name}")


def _foreach(facts: Facts) -> CallChange | None:
    """For optimizers that torch has no fused form of."""
    made = single_tensor_optimizer(facts)
    if made is None or made.class_name in HAVE["fused"]:
        return None
    has_it = is_of_torch(made) and made.class_name in HAVE["foreach"]
    why_not = "" if has_it else f"{made.class_name} does not take it"
    return _with(made, "foreach", why_not)


def _with(made: OptimizerSettings, argument: str, why_not: str) -> CallChange:
    where = f"At {made.source}: " if made.source else ""
    return CallChange(
        target="optimizer",
        arguments={argument: True},
        title=f"{made.class_name} {argument}=True",
        file=made.file,
        line=made.line,
        spec=optimizer_spec(argument),
        advice=f"{where}{made.class_name}(..., {argument}=True)",
        risks=(Risk.NUMERICS,) if argument == "fused" else (Risk.NUMERICS, Risk.MEMORY),
        why_not=why_not,
    )


FUSED = Fix(
    id="optimizer-fused",
    what="update all parameters in one operator",
    explanation=(
        "One fused operator computes the optimizer's step instead of several operators for each "
        "parameter. The formula is the same; results may differ in the last digits, because sums "
        "are rounded at other points. Parameters and state must be floating point."
    ),
    change=_fused,
    risks=(Risk.NUMERICS,),
)

FOREACH = Fix(
    id="optimizer-foreach",
    what="update all parameters in a few operators",
    explanation=(
        "torch._foreach_ operators compute the optimizer's step on lists of all parameters, for "
        "optimizers without a fused step in torch. The formula is the same; results may differ in "
        "the last digits. Intermediate results take memory for all parameters at once."
    ),
    change=_foreach,
    risks=(Risk.NUMERICS, Risk.MEMORY),
)
