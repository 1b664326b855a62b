"""One rule a file: ``evaluate(evidence, policy)`` returns a finding, an abstention, or None.

None says that the rule looked and found nothing; an abstention says that it could not look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Abstention, Finding
from perftui.diagnosis.policy import Policy
from perftui.diagnosis.rules import (
    input_bound,
    input_in_main_thread,
    launch_bound,
    loader_start,
    memory_pressure,
    sync_bound,
)

Outcome: TypeAlias = Finding | Abstention | None
Rule: TypeAlias = Callable[[Evidence, Policy], Outcome]

RULES: tuple[Rule, ...] = (
    input_in_main_thread.evaluate,
    input_bound.evaluate,
    loader_start.evaluate,
    sync_bound.evaluate,
    launch_bound.evaluate,
    memory_pressure.evaluate,
)
"""Every rule that looks for lost time; ``healthy`` is judged after them, on what they found."""
