"""In which order findings are told."""

from __future__ import annotations

from perftui.diagnosis.diagnose import ranked
from perftui.diagnosis.model import Finding, Severity

STEP = 10_000_000


def costing(rule: str, share: float, *parts: str) -> Finding:
    cost = round(share * STEP)
    return Finding(rule, Severity.CRITICAL, rule, (), cost, step_ns=STEP, steps=100, parts=parts)


def test_what_slows_every_operator_is_told_before_operators_that_it_slows() -> None:
    flag = costing("debug-flags", 0.36, "forward", "backward")
    loop = costing("loop-of-indexing", 0.37, "forward")
    update = costing("optimizer-single-tensor", 0.365, "optimizer")
    assert ranked([loop, flag, update]) == (update, flag, loop)
    # What costs more than its share of that comes first all the same.
    assert ranked([flag, costing("loop-of-indexing", 0.6, "forward")])[0].share == 0.6
