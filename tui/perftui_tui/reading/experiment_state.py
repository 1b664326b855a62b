"""How far a trial or a tuning has come, for the screens that show it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Stage(enum.Enum):
    """How far it has come."""

    WAITING = "waiting"
    """For the end of a training that was running."""
    RUNNING = "running"
    STOPPING = "stopping"
    """It was asked to stop, and its training has not ended yet."""
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self in (Stage.DONE, Stage.STOPPED, Stage.FAILED)


@dataclass(frozen=True, kw_only=True)
class ExperimentState:
    """A trial or a tuning at one moment. Times are seconds of a clock that nobody sets."""

    root: Path
    """The run that it was begun from."""
    began: float
    stage: Stage = Stage.RUNNING
    ended: float | None = None
    problem: str = ""
    """Why it failed, or what went wrong beside it."""

    def elapsed(self, now: float) -> float:
        """Seconds since it began, until its end where it has ended."""
        return max(0.0, (now if self.ended is None else self.ended) - self.began)
