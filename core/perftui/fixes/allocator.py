"""``expandable-segments``: GPU memory that grows instead of being reserved in pieces."""

from __future__ import annotations

from perftui.facts.fact import Facts
from perftui.facts.settings import settings
from perftui.fixes.fix import EnvironmentChange, Fix
from perftui.fixes.line_change import has_finding
from perftui.fixes.model import Risk

_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_VALUE = "expandable_segments:True"


def _change(facts: Facts) -> EnvironmentChange | None:
    known = settings(facts)
    if known is None or not has_finding(facts, "fragmentation", "allocator-churn"):
        return None
    given = known.environment or {}
    own = next((f"{name}={given[name]}" for name in _VARIABLES if given.get(name)), "")
    return EnvironmentChange(
        "expandable segments",
        # The older name, which every version knows.
        {_VARIABLES[1]: _VALUE},
        (Risk.SHARED,),
        f"{own} is already set" if own else "",
    )


EXPANDABLE_SEGMENTS = Fix(
    id="expandable-segments",
    what="let PyTorch grow its GPU memory segments",
    explanation=(
        "Tensors of ever-changing sizes no longer leave gaps that the next tensor does not fit "
        "into. It is set before the first use of the GPU, with an environment variable."
    ),
    change=_change,
    risks=(Risk.SHARED,),
)
