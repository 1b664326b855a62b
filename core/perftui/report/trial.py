"""What trials, tunings and isolations found, as text and as JSON."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict, cast

import msgspec
from msgspec import Meta

from perftui import format as fmt
from perftui.experiments.isolate import Isolated, Isolation, Side
from perftui.experiments.journal import Attempt, Journal, Kept
from perftui.experiments.trial_runs import Costs, Progress
from perftui.experiments.trial_verdict import CONFIDENCE, LossCheck, Outcome
from perftui.experiments.tune import Tuned
from perftui.fixes.option import FixOption, Patch
from perftui.report.findings import Numerics
from perftui.report.next_command import apply_command, try_command, undo_command
from perftui.report.output_text import (
    LETTERS,
    SCHEMA,
    High,
    InForce,
    Low,
    Notes,
    Ns,
    Ratio,
    Schema,
    cut,
    cut_lists,
    fitting_lines,
    whole,
)
from perftui.report.report import make_report
from perftui.report.subject import load_subject
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


CONFIDENCE_TEXT = f"the range holds the true ratio with {fmt.percent(CONFIDENCE)} confidence"
"""Of the two numbers in brackets behind a gain."""


def trial_text(
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
    verdict, *rest = trial_text(option, run, progress, others).splitlines()
    first = (cut(verdict, LETTERS), *following, cut(losses, LETTERS))
    left = (line for line in rest if line not in (*following, losses))
    return fitting_lines((*first, *(cut(line, LETTERS) for line in left)))


def brief_object(
    option: FixOption, run: RunSnapshot, progress: Progress, others: Sequence[str] = ()
) -> BriefTrial:
    """The brief trial as JSON, without the individual pairs."""
    found: Any = {**trial_object(option, run, progress, others), "pairs": len(progress.pairs)}
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


def trial_object(
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


class TuningOutput(TypedDict):
    """`perftui tune`: all fixes tried one by one, and what was kept."""

    schema: Schema
    run: str
    outcome: Annotated[Outcome, Meta(description="All kept fixes together.")]
    headline: str
    ratio: Ratio
    low: Low
    high: High
    kept: list[Attempt]
    not_kept: list[Attempt]
    base: Annotated[str, Meta(description="Directory of the run recorded with all kept fixes.")]
    diff: Annotated[
        str | None, Meta(description="Unified diff of what was written; null if nothing was.")
    ]
    undo: Annotated[list[list[str]], Meta(description="The commands that undo it, in this order.")]
    losses: LossCheck | None


def tuning_text(tuned: Tuned, root: Path) -> str:
    """The headline, the ladder, what was not kept, how to take it back, and the diff."""
    journal = tuned.journal
    lines = [headline(tuned.final)]
    if journal.kept:
        lines.append(f"  {1.0:5.2f}x  as it was")
    for ratio, one in journal.ladder:
        lines.append(f"  {ratio:5.2f}x  + {one.title} ({one.headline})")
        if one.kept is Kept.OVERRIDE:
            lines.append(f"          not in the source; by hand: {one.advice}")
    lines += [f"  not kept: {one.title} ({one.headline})" for one in journal.left]
    if tuned.final:
        lines.append(f"  {tuned.final.losses.sentence}")
    if journal.files:
        files = ", ".join(journal.files)
        lines.append(f"  written to {files}; perftui undo {root} undoes the last one")
    return "\n".join(map(printable, (*lines, *_diff(journal).splitlines()))) + "\n"


def tuning_object(tuned: Tuned, root: Path) -> TuningOutput:
    """The tuning of the run ``root`` as JSON."""
    found = tuned.final.verdict.estimate if tuned.final else None
    written = [one for one in tuned.journal.kept if one.kept is Kept.WRITTEN]
    return {
        "schema": SCHEMA,
        "run": root.name,
        "outcome": tuned.final.verdict.outcome if tuned.final else Outcome.NO_DIFFERENCE,
        "headline": headline(tuned.final),
        "ratio": found.ratio if found else None,
        "low": found.low if found else None,
        "high": found.high if found else None,
        "kept": [msgspec.to_builtins(one) for one in tuned.journal.kept],
        "not_kept": [msgspec.to_builtins(one) for one in tuned.journal.left],
        "base": tuned.journal.base,
        "diff": _diff(tuned.journal) or None,
        "undo": [undo_command(root) for _ in written],
        "losses": msgspec.to_builtins(tuned.final.losses) if tuned.final else None,
    }


def _diff(journal: Journal) -> str:
    """What was written, file by file; of a file that is gone since, or whose copy is, nothing."""
    diffs = []
    for path, copy in journal.originals.items():
        with suppress(OSError):
            before, after = (Path(one).read_bytes() for one in (copy, path))
            diffs.append(Patch(Path(path), before, after, becomes="tuned").diff("as it was"))
    return "\n".join(filter(None, diffs))


def headline(final: Progress | None) -> str:
    """What a tuning came to as a whole; ``final`` is None where nothing was kept."""
    return final.verdict.headline if final else "nothing was kept: no fix is proven here"


def offers(root: Path) -> Sequence[FixOption]:
    """The fixes for what the run in ``root`` shows, best first.

    Raises:
        SubjectError: the run cannot be read.
    """
    return make_report(load_subject(root)).fixes


Middle = Annotated[int | None, Meta(description="Median of the runs, ns; null if there is none.")]


class SideOutput(TypedDict):
    """The training with one part left out."""

    side: Side
    what: Annotated[str, Meta(description="What was done, in words.")]
    step_ns: Middle
    runs_ns: Annotated[
        list[int],
        Meta(
            description="Per run, ns per step; for the loader alone, ns for the batches of a step."
        ),
    ]
    at_most: Annotated[
        float | None,
        Meta(description="The unchanged step time over that: the speed-up without the whole part."),
    ]
    sentence: str
    problem: Annotated[str | None, Meta(description="Why it has no time.")]


class IsolationOutput(TypedDict):
    """`perftui isolate`: what each part of a training costs at most."""

    schema: Schema
    run: Annotated[str, Meta(description="Identifier of the run that was repeated.")]
    step_ns: Middle
    runs_ns: Annotated[list[int], Meta(description="The unchanged step time, ns, in each run.")]
    sides: list[SideOutput]


NOTHING = 1.05
"""Times as fast, below which a side has nothing to give: three runs show no less."""

FROM = {
    Side.INPUT: "a faster data loader",
    Side.TRAINING: "everything but the loader",
    Side.WORKER: "a loader of one worker",
    Side.OUTPUT: "less printing, logging and saving",
}
"""What a gain would come from."""


def isolation_text(found: Isolation) -> str:
    """The step as it is, then a line for each side."""
    whole = found.step_ns
    if whole is None:
        return "no run finished\n"
    lines = [f"a step takes {fmt.duration(whole)} unchanged ({_apart(found.as_it_is)})"]
    lines += [f"  {_line(one, found)}" for one in found.sides]
    return "\n".join(map(printable, lines)) + "\n"


def isolation_object(found: Isolation, run: RunSnapshot) -> IsolationOutput:
    """The isolation as JSON; times are integer nanoseconds."""
    return {
        "schema": SCHEMA,
        "run": run.manifest.run_id,
        "step_ns": found.step_ns,
        "runs_ns": list(found.as_it_is),
        "sides": [_side(one, found) for one in found.sides],
    }


def _side(one: Isolated, found: Isolation) -> SideOutput:
    return {
        "side": one.experiment.side,
        "what": one.experiment.what,
        "step_ns": one.step_ns,
        "runs_ns": list(one.times),
        "at_most": _ratio(one, found),
        "sentence": _sentence(one, found),
        "problem": one.problem or None,
    }


def _line(one: Isolated, found: Isolation) -> str:
    if one.step_ns is None:
        return f"{one.experiment.what}: not measured: {one.problem or 'no run finished'}"
    each = " for the batches of a step" if one.experiment.times_batches else ""
    took = f"{fmt.duration(one.step_ns)}{each} ({_apart(one.times)})"
    return f"{one.experiment.what}: {took}; {_sentence(one, found)}"


def _sentence(one: Isolated, found: Isolation) -> str:
    """The result of one part; empty if it was not measured."""
    ratio = _ratio(one, found)
    if ratio is None or one.step_ns is None:
        return ""
    if one.experiment.side is Side.WORKER:
        return _workers(one.step_ns, found)
    what = FROM[one.experiment.side]
    is_clear = ratio >= NOTHING and max(one.times) < min(found.as_it_is)
    return f"at most {ratio:.2f}x from {what}" if is_clear else f"nothing from {what}"


def _workers(worker_ns: int, found: Isolation) -> str:
    """How many workers would keep up, where the step without its loader is known."""
    step = next((one.step_ns for one in found.sides if one.experiment.side is Side.INPUT), None)
    if step is None:
        return "how many workers would keep up is not known"
    count = math.ceil(worker_ns / step)
    verb = "keeps" if count == 1 else "keep"
    return f"{fmt.several(count, 'worker')} {verb} up with a step of {fmt.duration(step)}"


def _ratio(one: Isolated, found: Isolation) -> float | None:
    whole, step = found.step_ns, one.step_ns
    return whole / step if whole is not None and step else None


def _apart(times: tuple[int, ...]) -> str:
    """``11 to 12 ms in 3 runs``."""
    runs = fmt.several(len(times), "run")
    return f"{fmt.duration(min(times))} to {fmt.duration(max(times))} in {runs}"
