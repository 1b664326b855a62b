"""What was not recorded and would tell more, and what the answer is worth."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from perftui import format as fmt


class Evidence(str, enum.Enum):
    """What windows record besides operators if the option of that name, or a viewer, asks so."""

    SHAPES = "shapes"
    STACKS = "stacks"
    MODULES = "modules"
    SYNCS = "syncs"

    @property
    def words(self) -> str:
        """What it is, in words."""
        return "synchronising calls" if self is Evidence.SYNCS else self.value


@dataclass(frozen=True)
class Question:
    """What evidence that was not recorded would tell."""

    evidence: Evidence
    about: str
    """What it would tell: ``whether attention could be faster``."""
    share: float
    """What the answer is worth at most, as a share of the step, 0 to 1."""

    @property
    def option(self) -> str:
        """The option that records it from the start."""
        return f"--{self.evidence.value}"

    @property
    def text(self) -> str:
        """``shapes, to tell whether attention could be faster (at most 23 % of the step)``."""
        most = fmt.percent(self.share)
        return f"{self.evidence.words}, to tell {self.about} (at most {most} of the step)"

    @property
    def lack(self) -> str:
        """The same once nobody can be asked, with the option that records it."""
        return f"not recorded ({self.option}): {self.text}"
