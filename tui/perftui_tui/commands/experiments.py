"""`perftui try`, `tune`, `isolate` and `compare`: what is measured by many runs of a training; and
`perftui apply` and `undo`: a fix in its source."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from perftui import format as fmt
from perftui.experiments.comparison import Comparison, with_repeats
from perftui.experiments.comparison import compare as compared
from perftui.experiments.history import found_repeats, past_run, repeats_of
from perftui.experiments.isolate import Isolation
from perftui.experiments.isolate import isolate as run_each
from perftui.experiments.job import Job, begin, follow, read_job
from perftui.experiments.journal import Journal, Kept
from perftui.experiments.trial_runs import (
    NO_PAIRS,
    Progress,
    TrialError,
    TrialSetup,
    facts_of,
    run_at,
    steps_of_each,
)
from perftui.experiments.trial_verdict import Stage
from perftui.experiments.tune import Keeping, Trying, Tuned
from perftui.experiments.tune import tune as tune_training
from perftui.facts.fact import Facts, UnknownError
from perftui.fixes.apply_and_undo import (
    SourceChangedError,
    apply_patch,
    check_unchanged,
    last_applied,
    patch_store,
    undoing,
)
from perftui.fixes.apply_and_undo import undo as take_back
from perftui.fixes.catalogue import CATALOGUE
from perftui.fixes.option import FixOption
from perftui.format import did_you_mean
from perftui.report import comparison
from perftui.report.findings_as_json import apply_object, undo_object
from perftui.report.next_command import fixes_after
from perftui.report.report import make_report
from perftui.report.trial import (
    brief_object,
    brief_text,
    isolation_object,
    isolation_text,
    offers,
    trial_object,
    trial_text,
    tuning_object,
    tuning_text,
    worker_line,
)
from perftui.run.layout import trials_of
from perftui.run.manifest import ManifestError
from perftui.run.origin import check_run
from perftui.run.reader import RunSnapshot
from perftui_tui.commands.line import BEHIND, CommandLine, UsageError
from perftui_tui.commands.output import (
    DONE,
    ERROR,
    NO_DIFFERENCE,
    code_of,
    end_as_interrupted,
    log,
    refusing,
    waiting,
    write,
    write_object,
    write_result,
)
from perftui_tui.commands.target import Target, find_target, subject_of
from perftui_tui.reading.experiment_state import TrialPlan, TrialState, plan_of


@dataclass(frozen=True)
class Choice:
    """A fix of a run."""

    run: RunSnapshot
    facts: Facts
    option: FixOption
    others: tuple[str, ...] = ()
    """Fixes to try next for the same finding."""


def choose(line: CommandLine, is_possible: Callable[[FixOption], bool]) -> Choice:
    """Read ``FIX [RUN]``: by default the first fix that is possible, and the newest run."""
    words = line.words
    name = words[0] if words and words[0] in CATALOGUE else None
    near = did_you_mean(words[0], CATALOGUE) if words and not name else ""
    if name is None and (len(words) == 2 or (near and not Path(words[0]).exists())):
        raise UsageError(f"no fix is called {words[0]}.{near or ' perftui report lists fixes.'}")
    target = find_target(replace(line, words=words[1:] if name else words))
    subject = subject_of(target)
    with waiting(f"judging {target.path.name}"):
        report = make_report(subject)
    run = report.subject.run
    if run is None:
        raise UsageError(f"{target.path} is a trace: there is no script to change or run again")
    offered = {option.fix: option for option in report.fixes}
    if name is None and offered:
        possible = (fix for fix, option in offered.items() if is_possible(option))
        name = next(possible, next(iter(offered)))
    if name is None or name not in offered:
        by_hand = f"perftui report {run.root.name} shows what to do by hand"
        there = f"offered: {', '.join(offered)}" if offered else by_hand
        asked = f"{name} addresses no finding" if name else "there is no fix for these findings"
        raise UsageError(f"{asked} of {run.root.name}; {there}")
    return Choice(run, report.facts, offered[name], fixes_after(name, report))


def try_fix(line: CommandLine) -> int:
    """Run the training again and again until it is known what the fix gains."""
    choice = choose(line, lambda option: option.is_triable)
    if not choice.option.is_triable:
        raise UsageError(f"{choice.option.fix} cannot be tried: {choice.option.why_not_tried}")
    with refusing(UnknownError, where="the run cannot be tried again"):
        steps = line.values.get("max-steps") or steps_of_each(choice.facts)
    end_as_interrupted()
    plan = plan_of(choice.facts, choice.option, steps)
    log(f"{choice.option.title}: {plan.label}. {plan.note}")
    with refusing(TrialError, code=ERROR):
        progress = _run_pairs(choice, plan)
    shown = (brief_object, brief_text) if "brief" in line.flags else (trial_object, trial_text)
    option = progress.option or choice.option
    write_result(line.flags, *shown, option, choice.run, progress, choice.others)
    return code_of(progress.verdict.outcome)


def _run_pairs(choice: Choice, plan: TrialPlan) -> Progress:
    """Make the pairs of the trial, or follow the one that runs already, and log them."""
    root, cancelled, left = choice.run.root, threading.Event(), threading.Event()
    _begin(choice, plan.steps)
    told, job = NO_PAIRS, None
    try:
        with waiting(lambda: _how_far(job, plan)):
            for job in follow(root, cancelled, left):
                if job.progress != told:
                    for line in _lines(job.progress, len(told.pairs) or job.earlier):
                        log(line)
                    told = job.progress
    except KeyboardInterrupt:
        log("stopping the trial and its training")
        cancelled.set()
        *_, job = follow(root, cancelled, left)
        pairs = fmt.several(len(job.progress.pairs), "pair")
        log(f"stopped after {pairs}: the same command goes on from there")
        raise
    if job is None or job.stage is not Stage.DONE:
        raise TrialError(job.problem if job and job.problem else "the trial was stopped")
    return told


def _how_far(job: Job | None, plan: TrialPlan) -> str:
    """``pair 2, the run with the fix: 4 s; about 30 s to pair 6``."""
    from perftui_tui.panes.experiments import rest

    if job is None or job.run is None:
        return "starting the first run"
    now = time.time()
    state = TrialState(job, plan, root=Path(job.root), began=job.began_ns / 1e9)
    return f"{job.run.text}: {now - job.run_began_ns / 1e9:.0f} s; {rest(state, now)}"


def _begin(choice: Choice, steps: int) -> None:
    """Begin the trial, unless it runs already."""
    job = read_job(choice.run.root)
    if job is None or job.stage.is_over:
        job = begin(choice.run, choice.option, steps)
    elif job.option.fix == choice.option.fix:
        log("this trial runs already; here is how it stands")
    else:
        advice = "wait for its end, or stop it in the app"
        raise UsageError(f"a trial of {job.option.title} is running: {advice}")
    if job.earlier:
        log(f"goes on after {fmt.several(job.earlier, 'pair')} of an earlier trial")


def _lines(progress: Progress, told: int) -> Iterator[str]:
    """A line for each pair after those that were ``told``; before the first, of the workers."""
    if not progress.pairs:
        yield worker_line(progress)
    for number, pair in enumerate(progress.pairs[told:], told + 1):
        before, after = (fmt.duration(run.step_ns) for run in (pair.before, pair.after))
        yield f"pair {number}: {before} -> {after} a step, {pair.ratio:.2f}x"


def tune(line: CommandLine) -> int:
    """Tune the training of a run; a tuning that was interrupted goes on."""
    root = find_target(line).path.resolve()
    with refusing(UnknownError, ManifestError, where=f"{root} cannot be tuned"):
        steps = line.values.get("max-steps") or steps_of_each(facts_of(root))
    log(f"each fix takes pairs of runs of {steps} steps; Ctrl+C stops, the same command continues")
    with refusing(TrialError, code=ERROR):
        tuned = _run_tuning(root, steps, time.monotonic() + line.values.get("budget", float("inf")))
    write_result(line.flags, tuning_object, tuning_text, tuned, root)
    return code_of(tuned.final.verdict.outcome) if tuned.final else NO_DIFFERENCE


def _run_tuning(root: Path, steps: int, deadline: float) -> Tuned:
    logged, title = 0, "the training"
    end_as_interrupted()
    with waiting("looking for fixes to try") as tell:
        setup = TrialSetup(
            trials_of(root), steps, threading.Event(), lambda run: tell(f"{title}: {run.text}")
        )
        for event in tune_training(root, setup, offers, deadline):
            if isinstance(event, Tuned):
                return event
            logged = _log(event, logged)
            if not isinstance(event, Journal):
                title = event.option.title
    raise UsageError("the tuning did not finish")


def _log(event: Trying | Keeping | Journal, logged: int) -> int:
    """Log what is new, from a journal the attempts after the first ``logged``; returns how many are
    logged now."""
    if isinstance(event, Journal):
        for attempt in event.attempts[logged:]:
            log(f"{attempt.title}: {attempt.headline}{'' if attempt.kept is Kept.NO else ', kept'}")
        return len(event.attempts)
    title = event.option.title
    if isinstance(event, Keeping):
        how = f"written to {event.path}" if event.path else "kept, but cannot be written"
        log(f"{title}: {how}; recording the training with it")
    elif event.progress.pairs or event.progress.workers:
        for line in _lines(event.progress, len(event.progress.pairs) - 1):
            log(f"{title}, {line}")
    return logged


def isolate(line: CommandLine) -> int:
    """Run the training with one side left out after the other, and say what each could gain."""
    root = find_target(line).path.resolve()
    result = Isolation()
    with (
        refusing(UnknownError, ManifestError, where=f"{root} cannot be run again"),
        refusing(TrialError, code=ERROR),
    ):
        run = run_at(root)
        end_as_interrupted()
        log("three runs for each part left out; Ctrl+C stops")
        steps = line.values.get("max-steps")
        with waiting("run 1") as tell:
            for result in run_each(run, trials_of(root), threading.Event(), steps):
                log(f"run {result.runs}: {result.newest}")
                tell(f"run {result.runs + 1}")
    write_result(line.flags, lambda: isolation_object(result, run), lambda: isolation_text(result))
    return DONE


def compare(line: CommandLine) -> int:
    """Print which of two runs or traces is faster, by how much, and whether that means anything."""
    sides = _sides(line)
    subjects = [subject_of(_target(line, side[0])) for side in sides]
    first, second = (Facts(subject.run, subject.analysis) for subject in subjects)
    with waiting("comparing"):
        result = _repeats(compared(first, second), line, sides)
    if "brief" in line.flags:
        write_result(line.flags, comparison.brief_object, comparison.brief_text, result)
    else:
        write_result(line.flags, comparison.as_object, comparison.text, result)
    return code_of(result.verdict)


def _sides(line: CommandLine) -> tuple[list[str], list[str]]:
    """The words of each side: one each, or several with ``--`` between."""
    words = list(line.words)
    if BEHIND in words:
        at = words.index(BEHIND)
        sides = words[:at], words[at + 1 :]
    else:
        sides = words[:1], words[1:2]
    if not all(sides) or BEHIND in sides[1] or (BEHIND not in words and len(words) != 2):
        raise UsageError(
            "compare takes two runs or traces, perftui compare BEFORE AFTER, or several runs each, "
            "perftui compare BEFORE... -- AFTER..."
        )
    return sides


def _target(line: CommandLine, word: str) -> Target:
    return find_target(replace(line, words=(word,)))


def _repeats(
    result: Comparison, line: CommandLine, sides: tuple[list[str], list[str]]
) -> Comparison:
    """``result`` with the repeats that are named, else with all runs that repeat the two."""
    if max(map(len, sides)) > 1:
        if result.of_traces:
            raise UsageError("compare takes several runs of each side, but one trace")
        first, second = ([_target(line, word).path for word in side] for side in sides)
        return with_repeats(result, repeats_of(first, second))
    if result.of_traces or "no-repeats" in line.flags:
        return result
    return with_repeats(result, found_repeats(past_run(result.before), past_run(result.after)))


def apply(line: CommandLine) -> int:
    """Write the fix to the source, or with ``--dry-run`` print its diff only."""
    choice = choose(line, lambda option: option.patch is not None)
    option, patch = choice.option, choice.option.patch
    if option.is_written:
        log(f"{option.fix} is already written; perftui diagnose {choice.run.root} runs with it")
        _print(choice, "written already", line)
        return DONE
    if patch is None:
        why = option.why_not or option.advice or "what decides it is not certain"
        raise UsageError(f"{option.fix} cannot be written: {why}")
    is_dry = "dry-run" in line.flags
    with refusing(SourceChangedError, OSError, code=ERROR):
        check_unchanged(patch)
        if not is_dry:
            check_run(choice.run.root, choice.run.manifest)
            apply_patch(patch, patch_store(choice.run.root), option.title, option.fix)
    if not is_dry:
        log(f"{patch.path} written; perftui undo {choice.run.root} undoes it")
    _print(choice, "dry run" if is_dry else "written", line)
    return DONE


def _print(
    choice: Choice, outcome: Literal["written", "dry run", "written already"], line: CommandLine
) -> None:
    if "json" in line.flags:
        write_object(apply_object(choice.option, choice.run.root, outcome))
    elif choice.option.patch is not None:
        write(f"{choice.option.patch.diff()}\n")


def undo(line: CommandLine) -> int:
    """Give the source back what it was before the last fix that was written."""
    root = find_target(line).path
    store = patch_store(root)
    applied = last_applied(store)
    if applied is None:
        raise UsageError(f"no fix is on record as written to the source in {store}")
    is_dry = "dry-run" in line.flags
    with refusing(SourceChangedError, OSError, code=ERROR):
        patch = undoing(applied, store)
        if not is_dry:
            take_back(applied, store)
    if not is_dry:
        log(f"{patch.path} restored to what it was before {applied.title}")
    if "json" in line.flags:
        write_object(undo_object(applied, patch, root, "dry run" if is_dry else "taken back"))
    else:
        write(f"{patch.diff()}\n")
    return DONE
