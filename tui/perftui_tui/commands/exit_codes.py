"""Exit codes of the commands that measure or change something."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui.experiments.verdict import Outcome

DONE, ERROR, USAGE, SLOWER, NO_DIFFERENCE, INCONCLUSIVE, NO_EFFECT = range(7)


def code_of(outcome: Outcome) -> int:
    """The exit code that tells a script how a trial ended."""
    return {
        "faster": DONE,
        "slower": SLOWER,
        "no difference": NO_DIFFERENCE,
        "no effect": NO_EFFECT,
    }.get(outcome.value, INCONCLUSIVE)
