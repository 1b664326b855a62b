"""What is reported where no rule knows the cause, one rung below the other, and never nothing."""

from __future__ import annotations

from perftui.diagnosis.compute_bound import COMPUTE_BOUND
from perftui.diagnosis.healthy import HEALTHY
from perftui.diagnosis.largest_part import LARGEST_PART
from perftui.diagnosis.rule import Verdict

LADDER: tuple[Verdict, ...] = (LARGEST_PART, HEALTHY, COMPUTE_BOUND)
"""In the order they are asked, each with what those before it found."""
