"""The optimizer of a training, where it computes one parameter at a time."""

from __future__ import annotations

from perftui.analysis.steps import OPTIMIZER
from perftui.facts.cpu.operator_loops import loops, time_in
from perftui.facts.cpu.operators import cpu_operators
from perftui.facts.fact import Facts, NotApplicableError, fact
from perftui.facts.settings import OptimizerSettings, Settings, settings

MANY_TENSORS = 50
"""Fewer tensors than this take a loop no longer than their arithmetic: six tensors of a million
elements each are as slow to update in one operator."""


@fact
def single_tensor_optimizer(facts: Facts) -> OptimizerSettings | None:
    """The optimizer with most tensors, if it updates many of them, one at a time; None where it
    does not, or it is not known."""
    known = settings(facts)
    made = max(
        known.optimizers or () if known else (),
        key=lambda one: one.parameters or 0,
        default=None,
    )
    if known is None or made is None or (made.parameters or 0) < MANY_TENSORS:
        return None
    if not is_of_torch(made):
        return made if _loops(facts) else None
    if made.fused or made.foreach or made.differentiable:
        return None
    # With neither given, torch takes foreach where all parameters are on a GPU.
    return made if made.foreach is False or _on_cpu(known) else None


def is_of_torch(made: OptimizerSettings) -> bool:
    """Whether torch has it, and options to make it faster."""
    return made.name.startswith("torch.optim.")


def _loops(facts: Facts) -> bool:
    """Whether a profiled window shows the optimizer go through so many tensors."""
    known = loops.or_none(facts) or ()
    return any(loop.phase == OPTIMIZER and loop.turns >= MANY_TENSORS for loop in known)


@fact
def optimizer_calls(facts: Facts) -> int:
    """What the optimizer's loop of a training on the CPU takes to call its operators, ns of the
    mean step, their arithmetic left out; 0 where no window shows it."""
    try:
        found, judged = cpu_operators(facts)
        chosen = [loop for loop in loops(facts) if loop.phase == OPTIMIZER]
    except NotApplicableError:
        return 0
    return time_in(found, judged, chosen).ns


def _on_cpu(known: Settings) -> bool:
    """Whether the trained parameters are all on the CPU."""
    devices = {one.device.split(":")[0] for one in known.parameters or () if one.trained}
    return devices == {"cpu"}
