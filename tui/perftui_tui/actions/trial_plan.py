"""What a trial or a tuning would take, what is said before it, and why there can be none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from perftui.experiments.verdict import FEWEST_STEPS

if TYPE_CHECKING:
    from perftui.fixes.model import FixOption
    from perftui_tui.reading.snapshot import Snapshot


@dataclass(frozen=True)
class TrialPlan:
    """Steps of each run and the seconds it takes; ``steps`` is None where there can be none."""

    steps: int | None
    run_seconds: float | None
    label: str
    """How many runs, and how long about, from the fewest to the most; empty where there can be
    none."""
    note: str
    """What else to know of it, or why there can be none."""
    why_not: str = ""
    """Why there can be none, in a few words."""
    pairs_of_run: int | None = None
    """Pairs of blocks of each run; None where a pair takes two runs."""
    numbers_of_workers: int = 0
    """At most so many runs come first, to find the number of loader workers."""
    step_ns: float | None = None
    """Mean step of the run on screen, to see what those come to beside it."""


BUDGET_SECONDS = 900.0
"""After so many seconds a tuning begins no further fix, where that is chosen."""


def tuning_plan_of(snapshot: Snapshot) -> TrialPlan:
    """What it takes to tune the training of ``snapshot``: the label says how many fixes there are
    to try now, the note how many runs each takes."""
    from perftui import format as fmt
    from perftui.experiments.journal import journal_of
    from perftui.experiments.trial import FEWEST_RUNS
    from perftui.experiments.tune import PAIRS
    from perftui.run.layout import trials_of

    plan, root = plan_of(snapshot), snapshot.source
    if plan.steps is None:
        return replace(plan, note=f"tuning needs more steps: {plan.why_not}")
    note = (
        f"{FEWEST_RUNS} to {1 + 2 * PAIRS} runs of {plan.steps:,} steps for each fix, then as many "
        "for all fixes together; you can stop it and continue later"
    )
    tried = journal_of(root, trials_of(root)).attempts
    if tried:
        label = f"continue after the {fmt.several(len(tried), 'change')} already tried"
        return replace(plan, label=label, note=note)
    count = len(_triable(snapshot))
    if not count:
        return replace(plan, steps=None, note="no fix of this run can be tried")
    # Each is recorded once more where it is kept, and all of them are measured together.
    runs = count * (FEWEST_RUNS + 1) + FEWEST_RUNS
    takes = f", about {fmt.rough_time(runs * plan.run_seconds)}" if plan.run_seconds else ""
    found = "the fix" if count == 1 else f"the {count} fixes"
    return replace(plan, label=f"try {found} found here{takes}", note=note)


def _triable(snapshot: Snapshot) -> frozenset[str]:
    """The fixes that can be tried on the training of ``snapshot``."""
    options = (option for found in snapshot.options.values() for option in found)
    return frozenset(option.fix for option in options if option.is_triable)


def plan_of(snapshot: Snapshot, option: FixOption | None = None) -> TrialPlan:
    """What a trial of ``option`` takes on the training of ``snapshot``, or of just any fix."""
    from perftui import format as fmt
    from perftui.experiments.trial import block_plan, counts_for
    from perftui.experiments.trial_runs import run_seconds, runs_of, steps_of_each
    from perftui.experiments.verdict import LOOKS
    from perftui.facts.fact import UnknownError
    from perftui.facts.step.steps import steady_step

    facts = snapshot.facts
    try:
        if facts is None:
            raise UnknownError("nothing has been recorded yet")
        steps = steps_of_each(facts)
    except UnknownError as error:
        why_not = str(error)
        note = f"Proof by pairs of runs needs more steps: {why_not}."
        return TrialPlan(None, None, "", note, why_not)
    seconds = run_seconds(facts, steps)
    blocks = block_plan(facts, option, steps) if option else None
    of_run = blocks.pairs if blocks else None
    fewest, most = runs_of(LOOKS[0][0], of_run), runs_of(LOOKS[-1][0], of_run)
    numbers = len(counts_for(facts, option)) if option else 0
    # Twice as many workers that bring nothing more end the search.
    first, last = fewest + min(2, numbers), most + numbers
    takes = f", about {fmt.rough_range(first * seconds, last * seconds)}" if seconds else ""
    how = f"{steps:,} steps, with the fix and without in turn"
    if blocks:
        how = f"{steps:,} steps that switch it on and off every {blocks.steps:,} steps"
    note = f"To prove it, runs of {how}, until the result is clear."
    if numbers:
        note += f" First up to {fmt.several(numbers, 'run')} to find the best number of workers."
    label = f"{first} to {last} runs{takes}"
    step = steady_step(facts).mean
    return TrialPlan(steps, seconds, label, note, "", of_run, numbers, step)


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
