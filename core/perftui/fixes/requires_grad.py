"""``requires-grad-off``: no gradients of parameters that no optimizer holds."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.facts.fact import Facts
from perftui.facts.settings import settings
from perftui.fixes.fix import Fix
from perftui.fixes.line_change import LineChange, has_finding, place_of_loop
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, insert_before
from perftui.run.manifest import Override
from perftui.script.models import untrained_modules
from perftui.script.program import Program
from perftui.script.training import training_loop

_ID = "requires-grad-off"
_TARGET, _ARGUMENTS = "parameters", {"requires_grad": False}


def without_gradients(program: Program, _: int) -> Sequence[Edit]:
    """``backbone.requires_grad_(False)`` before the loop that trains, of each module that no
    optimizer holds."""
    loop = training_loop(program)
    names = untrained_modules(program, loop)
    return [insert_before(program, loop, f"{name}.requires_grad_(False)") for name in names]


def _change(facts: Facts) -> LineChange | None:
    known = settings(facts)
    unused = sum(one.unused or 0 for one in (known.parameters or ())) if known else 0
    if not unused or not has_finding(facts, "unused-gradients"):
        return None
    return LineChange(
        f"no gradients for {unused} parameters that are in no optimizer",
        *place_of_loop(facts),
        without_gradients,
        "requires_grad_(False) on modules that are not trained, before the loop",
        (Risk.NORMS,),
        Override(_TARGET, _ARGUMENTS, fix=_ID),
    )


REQUIRES_GRAD = Fix(
    id=_ID,
    what="do not compute gradients for parameters that no optimizer holds",
    explanation=(
        "Parameters that no optimizer holds get requires_grad_(False): backward skips their "
        "gradients and stops where nothing further down is trained. All other parameters train "
        "the same, unless gradients are clipped by their norm over all parameters, of which there "
        "are now fewer. In a trial the fix takes effect after three steps and leaves alone what "
        "the script changes itself; an optimizer created or extended later would not train these "
        "parameters."
    ),
    change=_change,
    risks=(Risk.NORMS,),
)
