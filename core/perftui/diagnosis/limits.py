"""From which share of a step on a finding warns."""

from __future__ import annotations

from dataclasses import dataclass

MOST_OF_HINT = 0.99
"""Share that a rule which never warns does not come to."""


@dataclass(frozen=True)
class Limits:
    """Shares, 0 to 1, from which on a finding is a warning and critical."""

    warning: float
    critical: float
    source: str
    """Why these: what other tools use, or what was measured."""
    of: str = "of the step"
    """What they are shares of, as it ends a sentence."""
    info: float | None = None
    """From which on it is worth a word though no warning; None where it is not."""

    @classmethod
    def of_hint(cls, info: float, source: str, of: str = "of the step") -> Limits:
        """Limits of a rule that never warns: its shares stay below ``MOST_OF_HINT``."""
        return cls(MOST_OF_HINT, 1.0, source, of, info)

    @property
    def is_hint(self) -> bool:
        """Whether the rule never warns."""
        return self.warning >= MOST_OF_HINT
