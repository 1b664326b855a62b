"""From which share of the step on waiting for data is too much."""

from __future__ import annotations

from perftui.diagnosis.limits import Limits

WAIT_LIMITS = Limits(
    0.10,
    0.20,
    "TraceML warns at 10 %, xprof at 5 %; both call 20 % input-bound.",
)
