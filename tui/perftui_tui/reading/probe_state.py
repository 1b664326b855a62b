"""How far measuring the machine has come, for the screens that show it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.reading.experiment_state import ExperimentState

if TYPE_CHECKING:
    from perftui.probe.ceilings import Ceilings


@dataclass(frozen=True)
class ProbeState(ExperimentState):
    """A measurement of the peak rates of this machine."""

    path: Path
    """What the disk is read below."""
    names: tuple[str, ...] = ()
    """The rates that were measured at least once, in order."""
    found: Ceilings | None = None
    kept: Path | None = None
    """Where they are kept; None where nothing is."""
