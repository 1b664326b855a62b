"""What is said before a training is run again, and why it cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui.experiments.noise import FEWEST_STEPS

if TYPE_CHECKING:
    from perftui.fixes.model import FixOption
    from perftui_tui.reading.snapshot import Snapshot

NO_RUN = "a trace cannot be run again: start the script with perftui"

NO_FIX = "no finding has a fix to try"


def warnings_of(snapshot: Snapshot) -> list[str]:
    """What to know before a run is started in place of one that goes on."""
    if not snapshot.goes_on:
        return []
    steady = snapshot.diagnosis.steady_steps
    first = "The running training is stopped first: two trainings at once would disturb each other."
    return [first, _too_early(steady)] if steady < FEWEST_STEPS else [first]


def _too_early(steady: int) -> str:
    return (
        f"This run has {steady} of the {FEWEST_STEPS} steady steps that a comparison needs; if "
        "stopped now, it cannot serve as the baseline. Wait a little, then try again."
    )


def why_no_trial(option: FixOption | None, options: tuple[FixOption, ...]) -> str:
    """Why neither ``option`` nor one of ``options`` can be tried."""
    first = option or (options[0] if options else None)
    if first is None:
        return "there is no fix to try for this finding"
    return first.why_not_tried
