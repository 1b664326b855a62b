"""What trials, tunings and isolations found, as text and as JSON."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict, cast

import msgspec

from perftui import format as fmt
from perftui.experiments.isolate import Isolated, Isolation, Side
from perftui.experiments.journal import Attempt, Journal, Kept
from perftui.experiments.trial_runs import Costs, Progress
from perftui.experiments.trial_verdict import CONFIDENCE, LossCheck, Outcome, is_tested
from perftui.experiments.tune import Tuned
from perftui.facts.data_loader.loader import LEVEL, CurvePoint, WorkerCurve
from perftui.fixes.option import FixOption, Patch
from perftui.report.findings_as_json import Numerics
from perftui.report.next_command import command
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
    filled,
    fitting_lines,
    said,
    whole,
)
from perftui.report.report import make_report
from perftui.report.subject import load_subject
from perftui.run.reader import RunSnapshot
from perftui.trace.text import printable

Advice = Annotated[str | None, said("What to write by hand, where perftui apply cannot.")]


Workers = Annotated[
    list[CurvePoint],
    said(
        "Step times with several numbers of loader workers, one run each; the best was tried. "
        "Empty for other fixes, and if the number was already known."
    ),
]


class PairOutput(TypedDict):
    """Two runs, without the fix and with it."""

    before_ns: Ns
    after_ns: Ns
    ratio: float
    runs: list[str]


class _Trial(TypedDict):
    schema: Schema
    fix: str
    outcome: Outcome
    headline: str
    ratio: Ratio
    low: Low
    high: High
    noise: Annotated[
        float | None, said("By how much two identical runs or blocks differ here, as a share.")
    ]
    workers: Workers
    changes: InForce
    risks: list[str]
    changes_numerics: Numerics
    losses: LossCheck
    notes: Notes
    advice: Advice
    next: Annotated[list[str], said("The exact command to run next; empty if there is none.")]


class TrialOutput(_Trial):
    """`perftui try`: the gain of a fix, from pairs of runs with it and without."""

    title: str
    run: Annotated[str, said("Identifier of the run that was repeated.")]
    block_steps: Annotated[
        int | None, said("Steps in a block, if pairs are blocks of a run; null if pairs are runs.")
    ]
    pairs: list[PairOutput]
    costs: Costs


class BriefTrial(_Trial):
    """`perftui try --json --brief`: at most 2,000 bytes."""

    pairs: Annotated[int, said("Number of pairs of runs.")]


CONFIDENCE_TEXT = f"the range holds the true ratio with {fmt.percent(CONFIDENCE)} confidence"
"""Explains the two numbers in brackets behind a gain."""


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
    if progress.verdict.estimate is not None and is_tested(len(progress.pairs)):
        lines.append(f"  {CONFIDENCE_TEXT}")
    rest = (*progress.costs.sentences, *progress.notes, progress.losses.sentence)
    lines += [f"  {line}" for line in rest]
    lines += [f"  risk: {risk.value}" for risk in option.risks]
    if option.patch is None and option.advice:
        lines.append(f"  by hand: {option.advice}")
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
    trial, names = trial_object(option, run, progress, others), BriefTrial.__annotations__.keys()
    brief: Any = {name: value for name, value in trial.items() if name in names}
    brief["pairs"] = len(progress.pairs)
    brief["headline"] = cut(brief["headline"], LETTERS)
    brief["advice"] = whole(brief["advice"])
    brief["next"] = whole(brief["next"]) or []
    cut_lists(brief, "notes", "changes", "risks")
    return cast(BriefTrial, brief)


def noise_text(progress: Progress) -> str:
    """``two identical runs differ by 1.3 % here``, or the same of blocks, with their length."""
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
    times += [f"{fmt.duration(point.step_ns)} with {point.workers}" for point in others]
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
    if best == min(progress.workers, key=lambda point: point.step_ns).workers:
        return f": {best} is the fastest"
    return f": {best} is the fewest within {LEVEL * 100:.0f} % of the fastest"


def _next_line(
    option: FixOption, run: RunSnapshot, progress: Progress, others: Sequence[str]
) -> list[str]:
    following = _next(option, run, progress, others)
    return [printable(f"  next: {shlex.join(following)}")] if following else []


def trial_object(
    option: FixOption, run: RunSnapshot, progress: Progress, others: Sequence[str] = ()
) -> TrialOutput:
    """The trial as JSON; times are integer nanoseconds, shares and ratios plain numbers."""
    return filled(
        TrialOutput,
        option,
        progress,
        progress.verdict,
        progress.verdict.estimate,
        schema=SCHEMA,
        run=run.manifest.run_id,
        pairs=[
            filled(
                PairOutput,
                pair,
                before_ns=pair.before.step_ns,
                after_ns=pair.after.step_ns,
                runs=[str(pair.before.root), str(pair.after.root)],
            )
            for pair in progress.pairs
        ],
        advice=option.advice or None if option.patch is None else None,
        next=_next(option, run, progress, others),
    )


def _next(
    option: FixOption, run: RunSnapshot, progress: Progress, others: Sequence[str]
) -> list[str]:
    """The command that goes on from here; none where nothing is to be done."""
    if progress.verdict.outcome is Outcome.FASTER and option.patch is not None:
        return command("apply", option.fix, run.root)
    if progress.verdict.outcome is not Outcome.FASTER and others:
        return command("try", others[0], run.root)
    return []


class TuningOutput(TypedDict):
    """`perftui tune`: all fixes tried one by one, and what was kept."""

    schema: Schema
    run: str
    outcome: Annotated[Outcome, said("All kept fixes together.")]
    headline: str
    ratio: Ratio
    low: Low
    high: High
    kept: list[Attempt]
    not_kept: list[Attempt]
    base: Annotated[str, said("Directory of the run recorded with all kept fixes.")]
    diff: Annotated[str | None, said("Unified diff of what was written; null if nothing was.")]
    undo: Annotated[list[list[str]], said("The commands that undo it, in this order.")]
    losses: LossCheck | None


def tuning_text(tuned: Tuned, root: Path) -> str:
    """The headline, the ladder, what was not kept, how to take it back, and the diff."""
    journal = tuned.journal
    lines = [headline(tuned.final)]
    if journal.kept:
        lines.append(f"  {1.0:5.2f}x  as it was")
    for ratio, attempt in journal.ladder:
        lines.append(f"  {ratio:5.2f}x  + {attempt.title} ({attempt.headline})")
        if attempt.kept is Kept.OVERRIDE:
            lines.append(f"          not in the source; by hand: {attempt.advice}")
    lines += [f"  not kept: {attempt.title} ({attempt.headline})" for attempt in journal.left]
    if tuned.final:
        lines.append(f"  {tuned.final.losses.sentence}")
    if journal.files:
        files = ", ".join(journal.files)
        lines.append(f"  written to {files}; perftui undo {root} undoes the last one")
    return "\n".join(map(printable, (*lines, *_diff(journal).splitlines()))) + "\n"


def tuning_object(tuned: Tuned, root: Path) -> TuningOutput:
    """The tuning of the run ``root`` as JSON."""
    written = [attempt for attempt in tuned.journal.kept if attempt.kept is Kept.WRITTEN]
    return filled(
        TuningOutput,
        tuned.journal,
        tuned.final,
        tuned.final and tuned.final.verdict.estimate,
        schema=SCHEMA,
        run=root.name,
        outcome=tuned.final.verdict.outcome if tuned.final else Outcome.NO_DIFFERENCE,
        headline=headline(tuned.final),
        not_kept=msgspec.to_builtins(tuned.journal.left),
        diff=_diff(tuned.journal) or None,
        undo=[command("undo", root) for _ in written],
    )


def _diff(journal: Journal) -> str:
    """Diffs of the written files; one that is gone since, or whose copy is, is left out."""
    diffs = []
    for path, copy in journal.originals.items():
        with suppress(OSError):
            before, after = (Path(file).read_bytes() for file in (copy, path))
            diffs.append(Patch(Path(path), before, after, becomes="tuned").diff("as it was"))
    return "\n".join(filter(None, diffs))


def headline(final: Progress | None) -> str:
    """One-line result of a tuning; ``final`` is None where nothing was kept."""
    return final.verdict.headline if final else "nothing was kept: no fix is proven here"


def offers(root: Path) -> Sequence[FixOption]:
    """The fixes for what the run in ``root`` shows, best first. Raises SubjectError if the run
    cannot be read."""
    return make_report(load_subject(root)).fixes


Middle = Annotated[int | None, said("Median of the runs, ns; null if there is none.")]


class SideOutput(TypedDict):
    """The training with one part left out."""

    side: Side
    what: Annotated[str, said("What was done, in words.")]
    step_ns: Middle
    runs_ns: Annotated[
        list[int], said("Per run, ns per step; for the loader alone, ns for the batches of a step.")
    ]
    at_most: Annotated[
        float | None,
        said("The unchanged step time over that: the speed-up without the whole part."),
    ]
    sentence: str
    problem: Annotated[str | None, said("Why it has no time.")]


class IsolationOutput(TypedDict):
    """`perftui isolate`: what each part of a training costs at most."""

    schema: Schema
    run: Annotated[str, said("Identifier of the run that was repeated.")]
    step_ns: Middle
    runs_ns: Annotated[list[int], said("The unchanged step time, ns, in each run.")]
    sides: list[SideOutput]


NOTHING = 1.05
"""Least speed-up from a side that counts: three runs show no less."""

FROM = {
    Side.INPUT: "a faster data loader",
    Side.TRAINING: "everything but the loader",
    Side.WORKER: "a loader of one worker",
    Side.OUTPUT: "less printing, logging and saving",
}
"""Where a gain would come from, by side."""


def isolation_text(isolation: Isolation) -> str:
    """The step as it is, then a line for each side."""
    whole = isolation.step_ns
    if whole is None:
        return "no run finished\n"
    lines = [f"a step takes {fmt.duration(whole)} unchanged ({_range(isolation.as_it_is)})"]
    lines += [f"  {_line(part, isolation)}" for part in isolation.sides]
    return "\n".join(map(printable, lines)) + "\n"


def isolation_object(isolation: Isolation, run: RunSnapshot) -> IsolationOutput:
    """The isolation as JSON; times are integer nanoseconds."""
    return filled(
        IsolationOutput,
        isolation,
        schema=SCHEMA,
        run=run.manifest.run_id,
        runs_ns=list(isolation.as_it_is),
        sides=[
            filled(
                SideOutput,
                part,
                runs_ns=list(part.times),
                at_most=_ratio(part, isolation),
                sentence=_sentence(part, isolation),
                problem=part.problem or None,
            )
            for part in isolation.sides
        ],
    )


def _line(part: Isolated, isolation: Isolation) -> str:
    if part.step_ns is None:
        return f"{part.what}: not measured: {part.problem or 'no run finished'}"
    unit = " for the batches of a step" if part.times_batches else ""
    took = f"{fmt.duration(part.step_ns)}{unit} ({_range(part.times)})"
    return f"{part.what}: {took}; {_sentence(part, isolation)}"


def _sentence(part: Isolated, isolation: Isolation) -> str:
    """The result of one part; empty if it was not measured."""
    ratio = _ratio(part, isolation)
    if ratio is None or part.step_ns is None:
        return ""
    if part.side is Side.WORKER:
        return _workers(part.step_ns, isolation)
    what = FROM[part.side]
    is_clear = ratio >= NOTHING and max(part.times) < min(isolation.as_it_is)
    return f"at most {ratio:.2f}x from {what}" if is_clear else f"nothing from {what}"


def _workers(worker_ns: int, isolation: Isolation) -> str:
    """How many workers would keep up, where the step without its loader is known."""
    step = next((row.step_ns for row in isolation.sides if row.side is Side.INPUT), None)
    if step is None:
        return "how many workers would keep up is not known"
    count = math.ceil(worker_ns / step)
    verb = "keeps" if count == 1 else "keep"
    return f"{fmt.several(count, 'worker')} {verb} up with a step of {fmt.duration(step)}"


def _ratio(part: Isolated, isolation: Isolation) -> float | None:
    whole, step = isolation.step_ns, part.step_ns
    return whole / step if whole is not None and step else None


def _range(times: tuple[int, ...]) -> str:
    """``11 to 12 ms in 3 runs``."""
    runs = fmt.several(len(times), "run")
    return f"{fmt.duration(min(times))} to {fmt.duration(max(times))} in {runs}"
