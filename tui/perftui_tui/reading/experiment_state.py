"""What a trial, a tuning or a probe would take, why there can be none, and how far one has come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perftui import format as fmt
from perftui.experiments.trial_verdict import FEWEST_STEPS, LOOKS, Stage, TrialVerdict, next_look
from perftui.run.layout import trials_of
from perftui_tui.reading.snapshot import JUDGING

if TYPE_CHECKING:
    from perftui.experiments.job import Job
    from perftui.experiments.journal import Journal
    from perftui.experiments.trial_runs import Pair, Progress
    from perftui.facts.fact import Facts
    from perftui.fixes.option import FixOption
    from perftui.probe.ceilings import Ceilings
    from perftui.run.reader import RunSnapshot
    from perftui_tui.reading.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class ExperimentState:
    """A trial or a tuning at one moment. Times are seconds since the epoch."""

    root: Path
    """The run that it was begun from."""
    began: float
    stage: Stage = Stage.RUNNING
    ended: float | None = None
    problem: str = ""
    """Why it failed, or what went wrong beside it."""
    run_step: tuple[int, int] | None = None
    """Steps so far of the run that is made now, and of how many; None before its first."""

    def elapsed(self, now: float) -> float:
        """Seconds since it began, until its end where it has ended."""
        return max(0.0, (now if self.ended is None else self.ended) - self.began)


@dataclass(frozen=True)
class TrialPlan:
    """The runs of a trial or a tuning; without steps there can be none."""

    steps: int = 0
    """Steps of each run."""
    run_seconds: float | None = None
    """Seconds that each run takes, by the recorded one; None where that is not known."""
    label: str = ""
    """Number and time of the runs, from the fewest to the most; empty where there can be none."""
    note: str = ""
    """What else to know about it, or why there can be none."""
    why_not: str = ""
    """Why there can be none, in a few words."""
    pairs_of_run: int | None = None
    """Pairs of blocks of each run; None where a pair takes two runs."""
    numbers_of_workers: int = 0
    """At most so many runs come first, to find the number of loader workers."""
    step_ns: float | None = None
    """Mean step of the run on screen, to see what those come to beside it."""


@dataclass(frozen=True)
class TrialState(ExperimentState):
    """A trial of one fix."""

    job: Job
    """How far it has come."""
    plan: TrialPlan
    last_look: int = LOOKS[-1][0]
    """The number of pairs after which it ends, clear or not."""

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs so far, oldest first."""
        return self.job.progress.pairs

    @property
    def verdict(self) -> TrialVerdict | None:
        """The verdict of the pairs; None before the first."""
        return self.job.progress.verdict if self.pairs else None

    @property
    def look(self) -> int:
        """The number of pairs at which the result is looked at next, or was looked at last."""
        # Where blocks did not tell, pairs of runs begin anew.
        in_blocks = self.job.progress.block_steps is not None
        count = 0 if in_blocks and not self.makes_blocks else len(self.pairs)
        return next_look(count) or count

    @property
    def makes_blocks(self) -> bool:
        """Whether pairs are blocks within runs now."""
        of_runs = self.job.run is not None and self.job.run.is_of_runs
        return self.plan.pairs_of_run is not None and not of_runs


@dataclass(frozen=True)
class TuningState(ExperimentState):
    """A tuning: one fix after the other, and what is proven stays."""

    plan: TrialPlan
    journal: Journal
    """The attempts so far."""
    budget: float | None = None
    """Seconds after which no further fix is begun; None where all are tried."""
    trial: TrialState | None = None
    """The fix that is tried now, at the end all that was kept; None in between."""
    keeping: str = ""
    """The fix that is proven, while the training is recorded with it."""
    final: Progress | None = None
    """All kept fixes against the training as it was, once that is measured."""

    @property
    def tried(self) -> TrialState | None:
        """``trial`` with the steps of the run that is made now."""
        return replace(self.trial, run_step=self.run_step) if self.trial else None


@dataclass(frozen=True)
class ProbeState(ExperimentState):
    """A measurement of the peak rates of this machine."""

    path: Path
    """The directory whose disk is read."""
    names: tuple[str, ...] = ()
    """The rates that were measured at least once, in order."""
    found: Ceilings | None = None
    kept: Path | None = None
    """Where the rates are kept; None where nothing is."""


def steps_of(run: RunSnapshot) -> tuple[int, int] | None:
    """Steps so far of a run of a trial, and of how many; None before the first and at its end."""
    most, rank = run.manifest.profile.get("max_steps"), run.rank(0)
    if not most or rank is None or not len(rank.steps) or run.manifest.status.is_over:
        return None
    return min(int(rank.steps["index"].max()) + 1, most), most


BUDGET_SECONDS = 900.0
"""Seconds after which a tuning begins no further fix, if that budget is chosen."""


def tuning_plan(snapshot: Snapshot) -> TrialPlan:
    """The plan to tune the training of ``snapshot``: the label says how many fixes there are to try
    now, the note how many runs each takes."""
    from perftui.experiments.journal import journal_of
    from perftui.experiments.trial import FEWEST_RUNS
    from perftui.experiments.tune import PAIRS

    plan, root = plan_of(snapshot.facts), snapshot.source
    if not plan.steps:
        return replace(plan, note=f"tuning needs more steps: {plan.why_not}")
    note = (
        f"{FEWEST_RUNS} to {1 + 2 * PAIRS} runs of {plan.steps:,} steps for each fix, then as many "
        "for all fixes together; you can stop it and continue later"
    )
    tried = journal_of(root, trials_of(root)).attempts
    if tried:
        label = f"continue after the {fmt.several(len(tried), 'change')} already tried"
        return replace(plan, label=label, note=note)
    options = (option for fixes in snapshot.options.values() for option in fixes)
    count = len({option.fix for option in options if option.is_triable})
    if not count:
        return replace(plan, steps=0, note="no fix of this run can be tried")
    # Each kept fix is recorded once more, and all of them are measured together.
    runs = count * (FEWEST_RUNS + 1) + FEWEST_RUNS
    takes = f", about {fmt.rough_time(runs * plan.run_seconds)}" if plan.run_seconds else ""
    what = "the fix" if count == 1 else f"the {count} fixes"
    return replace(plan, label=f"try {what} found here{takes}", note=note)


def plan_of(
    facts: Facts | None, option: FixOption | None = None, steps: int | None = None
) -> TrialPlan:
    """The plan of a trial of ``option`` on the training of a run, or of just any fix, with so many
    ``steps`` of each run where they are chosen."""
    from perftui.experiments.trial import block_plan, counts_for
    from perftui.experiments.trial_runs import run_seconds, runs_of, steps_of_each
    from perftui.facts.fact import UnknownError
    from perftui.facts.step.steps import steady_step

    try:
        if facts is None:
            raise UnknownError("nothing has been recorded yet")
        steps = steps or steps_of_each(facts)
    except UnknownError as error:
        why_not = str(error)
        note = f"Proof by pairs of runs needs more steps: {why_not}."
        return TrialPlan(note=note, why_not=why_not)
    seconds = run_seconds(facts, steps)
    blocks = block_plan(facts, option, steps) if option else None
    of_run = blocks.pairs if blocks else None
    fewest, most = runs_of(LOOKS[0][0], of_run), runs_of(LOOKS[-1][0], of_run)
    counts = counts_for(facts, option) if option else ()
    # Each number twice, with the present one; it ends when twice as many bring nothing more.
    numbers = 2 * (1 + len(counts)) if counts else 0
    first, last = fewest + min(4, numbers), most + numbers
    takes = f", about {fmt.rough_range(first * seconds, last * seconds)}" if seconds else ""
    how = f"{steps:,} steps, with the fix and without in turn"
    if blocks:
        how = f"{steps:,} steps that switch it on and off every {blocks.steps:,} steps"
    note = f"To prove it, runs of {how}, until the result is clear."
    if numbers:
        note += f" First up to {fmt.several(numbers, 'run')} to find the best number of workers."
    label = f"{first} to {last} runs{takes}"
    return TrialPlan(steps, seconds, label, note, "", of_run, numbers, steady_step(facts).mean)


NO_RUN = "a trace cannot be run again: start the script with perftui"


def no_fix(snapshot: Snapshot) -> str:
    """Why no fix can be tried where no finding has one, or has none yet."""
    waits_for = snapshot.diagnosis.progress or (JUDGING if snapshot.is_reading else "")
    return f"no finding has a fix to try{f' yet: {waits_for}' if waits_for else ''}"


def warnings_of(snapshot: Snapshot) -> list[str]:
    """Warnings before a run is started in place of one that goes on."""
    from perftui.facts.step.steps import step_breakdown

    if not snapshot.goes_on:
        return []
    # They are known before they are judged.
    steps = snapshot.ask(step_breakdown)
    steady = steps.count if steps else 0
    first = "The running training is stopped first: two trainings at once would disturb each other."
    too_early = (
        f"This run has {steady} of the {FEWEST_STEPS} steady steps that a comparison needs; if "
        "stopped now, it cannot serve as the baseline. Wait a little, then try again."
    )
    return [first, too_early] if steady < FEWEST_STEPS else [first]
