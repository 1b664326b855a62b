"""The optimizer of a training, where it computes one parameter at a time."""

from __future__ import annotations

from perftui.facts.fact import Facts, fact
from perftui.facts.settings import OptimizerSettings, Settings, settings

MANY_TENSORS = 50
"""Fewer tensors than this take a loop no longer than their arithmetic: six tensors of a million
elements each are as slow to update in one operator."""


@fact
def single_tensor_optimizer(facts: Facts) -> OptimizerSettings | None:
    """The optimizer with most tensors, if it updates many of them, one at a time; None where it
    does not, or nothing tells."""
    known = settings(facts)
    made = max(
        known.optimizers or () if known else (),
        key=lambda one: one.parameters or 0,
        default=None,
    )
    if known is None or made is None or not made.name.startswith("torch.optim."):
        return None
    if (made.parameters or 0) < MANY_TENSORS:
        return None
    if made.fused or made.foreach or made.differentiable:
        return None
    # With neither given, torch takes foreach where all parameters are on a GPU.
    return made if made.foreach is False or _on_cpu(known) else None


def _on_cpu(known: Settings) -> bool:
    """Whether the trained parameters are all on the CPU."""
    devices = {one.device.split(":")[0] for one in known.parameters or () if one.trained}
    return devices == {"cpu"}
