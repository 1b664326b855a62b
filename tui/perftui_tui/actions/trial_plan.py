"""What a trial by pairs of runs would take, as far as the run on screen tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui_tui.reading.snapshot import Snapshot


@dataclass(frozen=True)
class TrialPlan:
    """Steps of each run and the seconds it takes; ``steps`` is None where there can be none."""

    steps: int | None
    run_seconds: float | None
    label: str
    """How many runs at least, and how long about; empty where there can be none."""
    note: str
    """What else to know of it, or why there can be none."""


def plan_of(snapshot: Snapshot) -> TrialPlan:
    """What a trial of a fix takes on the training of ``snapshot``."""
    from perftui import format as fmt
    from perftui.experiments.trial.duration import run_seconds
    from perftui.experiments.trial.runs import steps_of_each
    from perftui.experiments.trial.trial import FEWEST_RUNS, MOST_PAIRS
    from perftui.facts.fact import UnknownError

    facts = snapshot.facts
    try:
        if facts is None:
            raise UnknownError("nothing was recorded yet")
        steps = steps_of_each(facts)
    except UnknownError as error:
        return TrialPlan(None, None, "", f"Pairs of runs, to prove it, need more steps: {error}.")
    seconds = run_seconds(facts, steps)
    takes = f", about {fmt.rough_time(FEWEST_RUNS * seconds)}" if seconds else ""
    note = (
        f"To prove it, runs of {steps:,} steps with the fix and without are made in turn: "
        f"{FEWEST_RUNS} at least and {1 + 2 * MOST_PAIRS} at most, until the result is clear."
    )
    return TrialPlan(steps, seconds, f"{FEWEST_RUNS} runs or more{takes}", note)
