"""``optimizer-fused``: an optimizer that updates all parameters in one operator."""

from __future__ import annotations

from perftui.facts.cpu.optimizer import single_tensor_optimizer
from perftui.facts.fact import Facts
from perftui.fixes.call_source import CallChange
from perftui.fixes.fix import Fix
from perftui.fixes.model import Risk
from perftui.fixes.source.optimizer_arguments import HAVE, optimizer_spec

_ARGUMENT = "fused"


def _fused(facts: Facts) -> CallChange | None:
    made = single_tensor_optimizer(facts)
    if made is None:
        return None
    has_it = made.class_name in HAVE[_ARGUMENT]
    where = f"At {made.source}: " if made.source else ""
    return CallChange(
        target="optimizer",
        arguments={_ARGUMENT: True},
        title=f"{made.class_name} fused=True",
        file=made.file,
        line=made.line,
        spec=optimizer_spec(_ARGUMENT),
        advice=f"{where}{made.class_name}(..., fused=True)",
        risks=(Risk.NUMERICS,),
        why_not="" if has_it else f"torch has no fused {made.class_name}",
    )


FUSED = Fix(
    id="optimizer-fused",
    what="update all parameters in one operator",
    explanation=(
        "The optimizer's step is computed by one fused operator instead of several for each "
        "parameter. The formula is the same; results may differ in the last digits, as sums are "
        "rounded elsewhere. Parameters and state must be floating point."
    ),
    change=_fused,
)
