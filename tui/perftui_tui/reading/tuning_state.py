"""How a tuning stands, for the screens that show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perftui_tui.reading.experiment_state import ExperimentState

if TYPE_CHECKING:
    from perftui.experiments.journal import Attempt, Journal
    from perftui.experiments.progress import Progress
    from perftui_tui.reading.trial_state import TrialState


@dataclass(frozen=True)
class TuningState(ExperimentState):
    """A tuning: one fix after the other, and what is proven stays."""

    steps: int
    """Steps of each run."""
    run_seconds: float | None = None
    """How long each run takes, by the one that was recorded; None where that is not known."""
    budget: float | None = None
    """Seconds after which no further fix is begun; None where all are tried."""
    journal: Journal | None = None
    """What was tried so far; None before that is known."""
    trial: TrialState | None = None
    """The fix that is tried now, at the end all that was kept; None in between."""
    keeping: str = ""
    """The fix that is proven, while the training is recorded with it."""
    final: Progress | None = None
    """All that was kept against the training as it was, once that is measured."""

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The fixes that were tried, in order."""
        return self.journal.attempts if self.journal else ()

    @property
    def kept(self) -> tuple[Attempt, ...]:
        """Those of them that stay."""
        return self.journal.kept if self.journal else ()

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that were written."""
        return self.journal.files if self.journal else ()
