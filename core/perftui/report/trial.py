"""What a trial found, as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict, cast

import msgspec
from msgspec import Meta

from perftui import format as fmt
from perftui.experiments.trial_runs import Costs, Progress
from perftui.experiments.verdict import CONFIDENCE, LossCheck, Outcome
from perftui.fixes.model import FixOption
from perftui.report.encode import (
    LETTERS,
    High,
    InForce,
    Low,
    Notes,
    Ns,
    Ratio,
    Schema,
    cut_lists,
    fitting_lines,
    whole,
)
from perftui.report.findings import Numerics
from perftui.report.next_command import apply_command, try_command
from perftui.report.output_text import cut
from perftui.run.reader import RunSnapshot
from perftui.run.worker_curve import LEVEL, CurvePoint, WorkerCurve
from perftui.trace.text import printable

Advice = Annotated[
    str | None, Meta(description="What to write by hand, where perftui apply cannot.")
]


Workers = Annotated[
    list[CurvePoint],
    Meta(
        description=(
            "Step times with several numbers of loader workers, one run each; the best was "
            "tried. Empty for other fixes, and if the number was already known."
        )
    ),
]


class PairOutput(TypedDict):
    """Two runs, without the fix and with it."""

    before_ns: Ns
    after_ns: Ns
    ratio: float
    runs: list[str]


class TrialOutput(TypedDict):
    """`perftui try`: the gain of a fix, from pairs of runs with it and without."""

    schema: Schema
    fix: str
    title: str
    run: Annotated[str, Meta(description="Identifier of the run that was repeated.")]
    outcome: Outcome
    headline: str
    ratio: Ratio
    low: Low
    high: High
    noise: Annotated[
        float | None,
        Meta(description="By how much two identical runs or blocks differ here, as a share."),
    ]
    block_steps: Annotated[
        int | None,
        Meta(description="Steps in a block, if pairs are blocks of a run; null if pairs are runs."),
    ]
    pairs: list[PairOutput]
    workers: Workers
    changes: InForce
    risks: list[str]
    changes_numerics: Numerics
    costs: Costs
    losses: LossCheck
    notes: Notes
    advice: Advice
    next: Annotated[
        list[str], Meta(description="The exact command to run next; empty if there is none.")
    ]


class BriefTrial(TypedDict):
    """`perftui try --json --brief`: at most 2,000 bytes."""

    schema: Schema
    fix: str
    outcome: Outcome
    headline: str
    ratio: Ratio
    low: float | None
    high: float | None
    noise: float | None
    pairs: Annotated[int, Meta(description="Number of pairs of runs.")]
    workers: Workers
    changes: InForce
    risks: list[str]
    changes_numerics: Numerics
    losses: LossCheck
    notes: Notes
    advice: Advice
    next: list[str]


SCHEMA = 1

CONFIDENCE_TEXT = f"the range holds the true ratio with {fmt.percent(CONFIDENCE)} confidence"
"""Of the two numbers in brackets behind a gain."""


def text(
    option: FixOption, run: RunSnapshot, progress: Progress, others: Sequence[str] = ()
) -> str:
    """The verdict first, then what it rests on and what to do next. ``others`` are fixes of the
    same finding, to be tried where this one gains nothing."""
    lines = [f"{option.title}: {progress.verdict.headline}"]
    if progress.workers:
        lines.append(f"  a step {workers_text(progress)}")
    if progress.changes:
        lines.append(f"  in force: {', '.join(progress.changes)}")
    if progress.noise is not None:
        lines.append(f"  {noise_text(progress)}")
    if progress.verdict.estimate is not None:
        lines.append(f"  {CONFIDENCE_TEXT}")
    rest = (*progress.costs.sentences, *progress.notes, progress.losses.sentence)
    lines += [f"  {line}" for line in rest]
    lines += [f"  risk: {risk.value}" for risk in option.risks]
    if by_hand := _by_hand(option):
        lines.append(f"  by hand: {by_hand}")
    return "\n".join((*map(printable, lines), *_next_line(option, run, progress, others))) + "\n"


def brief_text(
    option: FixOption, run: RunSnapshot, progress: Progress, others: Sequence[str] = ()
) -> str:
    """The verdict, the next command and the losses, then as much else as there is room for."""
    losses, following = f"  {progress.losses.sentence}", _next_line(option, run, progress, others)
    verdict, *rest = text(option, run, progress, others).splitlines()
    first = (cut(verdict, LETTERS), *following, cut(losses, LETTERS))
    left = (line for line in rest if line not in (*following, losses))
    return fitting_lines((*first, *(cut(line, LETTERS) for line in left)))


def brief_object(
    option: FixOption, run: RunSnapshot, progress: Progress, others: Sequence[str] = ()
) -> BriefTrial:
    """The brief trial as JSON, without the individual pairs."""
    found: Any = {**as_object(option, run, progress, others), "pairs": len(progress.pairs)}
    for name in ("title", "run", "costs", "block_steps"):
        del found[name]
    found["headline"] = cut(found["headline"], LETTERS)
    found["advice"] = whole(found["advice"])
    found["next"] = whole(found["next"]) or []
    cut_lists(found, "notes", "changes", "risks")
    return cast(BriefTrial, found)


def noise_text(progress: Progress) -> str:
    """``two runs of the same differ by 1.3 % here``, or blocks of runs, and how long those are."""
    share = fmt.percent(progress.noise or 0.0)
    if progress.block_steps is None:
        return f"two identical runs differ by {share} here"
    runs = len({pair.before.root for pair in progress.pairs})
    within = f"{fmt.several(progress.block_steps, 'step')} within {fmt.several(runs, 'run')}"
    return f"pairs of blocks of {within}; two identical blocks differ by {share} here"


def workers_text(progress: Progress) -> str:
    """``takes 12 ms with 1 worker, 9.1 ms with 2``, and once one is chosen, why."""
    first, *others = progress.workers
    times = [f"{fmt.duration(first.step_ns)} with {fmt.several(first.workers, 'worker')}"]
    times += [f"{fmt.duration(one.step_ns)} with {one.workers}" for one in others]
    return f"takes {', '.join(times)}{_why_chosen(progress)}"


def worker_line(progress: Progress) -> str:
    """The newest number of workers that was run with, or which of them is tried, and why."""
    newest = progress.workers[-1]
    if progress.option is not None:
        return f"{progress.option.title}{_why_chosen(progress)}"
    return f"{fmt.several(newest.workers, 'worker')}: {fmt.duration(newest.step_ns)} a step"


def _why_chosen(progress: Progress) -> str:
    """``: 2 is the fewest within 3 % of the fastest``; empty while numbers are still tried."""
    best = WorkerCurve(progress.workers).best
    if progress.option is None or best is None or len(progress.workers) < 2:
        return ""
    if best == min(progress.workers, key=lambda one: one.step_ns).workers:
        return f": {best} is the fastest"
    return f": {best} is the fewest within {LEVEL * 100:.0f} % of the fastest"


def _by_hand(option: FixOption) -> str | None:
    """The line to write, where we cannot: None where there is a patch."""
    return option.advice or None if option.patch is None else None


def _next_line(
    option: FixOption, run: RunSnapshot, progress: Progress, others: Sequence[str]
) -> list[str]:
    following = _next(option, run, progress, others)
    return [printable(f"  next: {shlex.join(following)}")] if following else []


def as_object(
    option: FixOption, run: RunSnapshot, progress: Progress, others: Sequence[str] = ()
) -> TrialOutput:
    """The trial as JSON; times are integer nanoseconds, shares and ratios plain numbers."""
    found = progress.verdict.estimate
    return {
        "schema": SCHEMA,
        "fix": option.fix,
        "title": option.title,
        "run": run.manifest.run_id,
        "outcome": progress.verdict.outcome,
        "headline": progress.verdict.headline,
        "ratio": found.ratio if found else None,
        "low": found.low if found else None,
        "high": found.high if found else None,
        "noise": progress.noise,
        "block_steps": progress.block_steps,
        "pairs": [
            {
                "before_ns": pair.before.step_ns,
                "after_ns": pair.after.step_ns,
                "ratio": pair.ratio,
                "runs": [str(pair.before.root), str(pair.after.root)],
            }
            for pair in progress.pairs
        ],
        "workers": [msgspec.to_builtins(one) for one in progress.workers],
        "changes": list(progress.changes),
        "risks": [risk.value for risk in option.risks],
        "changes_numerics": option.changes_numerics,
        "costs": msgspec.to_builtins(progress.costs),
        "losses": msgspec.to_builtins(progress.losses),
        "notes": list(progress.notes),
        "advice": _by_hand(option),
        "next": _next(option, run, progress, others),
    }


def _next(
    option: FixOption, run: RunSnapshot, progress: Progress, others: Sequence[str]
) -> list[str]:
    """The command that goes on from here; none where nothing is to be done."""
    if progress.verdict.outcome is Outcome.FASTER and option.patch is not None:
        return apply_command(option.fix, run.root)
    if progress.verdict.outcome is not Outcome.FASTER and others:
        return try_command(others[0], run.root)
    return []
