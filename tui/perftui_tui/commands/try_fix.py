"""`perftui try FIX [RUN]`: what a fix gains, by pairs of runs with it and without."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.commands.exit_codes import ERROR, code_of
from perftui_tui.commands.fix_choice import Choice, choose
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log, write, write_object

if TYPE_CHECKING:
    from perftui.experiments.trial_runs import Progress
    from perftui.fixes.model import FixOption


def try_fix(line: CommandLine) -> int:
    """Run the training again and again until it is known what the fix gains.

    Raises:
        UsageError: the fix cannot be tried, or the training is too short.
    """
    from perftui.experiments.trial_runs import TrialError

    choice = choose(line, lambda option: option.is_triable)
    if not choice.option.is_triable:
        raise UsageError(f"{choice.option.fix} cannot be tried: {choice.option.why_not_tried}")
    steps = line.number("max-steps") or _steps(choice)
    log(f"{choice.option.title}: {_how(choice, steps)}")
    try:
        progress = _run(choice, steps)
    except TrialError as error:
        log(f"perftui: {error}")
        return ERROR
    _print(replace(choice, option=progress.option or choice.option), progress, line)
    return code_of(progress.verdict.outcome)


def _steps(choice: Choice) -> int:
    from perftui.experiments.trial_runs import steps_of_each
    from perftui.facts.fact import UnknownError

    try:
        return steps_of_each(choice.facts)
    except UnknownError as error:
        raise UsageError(f"the run cannot be tried again: {error}") from error


def _how(choice: Choice, steps: int) -> str:
    """What is run, and how long that takes at least, as far as the recorded run tells."""
    from perftui import format as fmt
    from perftui.experiments.trial import block_plan
    from perftui.experiments.trial_runs import run_seconds, runs_of
    from perftui.experiments.verdict import LOOKS

    blocks = block_plan(choice.facts, choice.option, steps)
    how = f"pairs of runs of {steps} steps, with it and without"
    if blocks:
        how = f"runs of {steps} steps that switch it on and off every {blocks.steps}"
    seconds = run_seconds(choice.facts, steps)
    if seconds is None:
        return how
    fewest = runs_of(LOOKS[0][0], blocks.pairs if blocks else None)
    return f"{how}; at least about {fmt.rough_time(fewest * seconds)}"


def _run(choice: Choice, steps: int) -> Progress:
    from perftui.experiments.trial import trial
    from perftui.run.layout import trials_of

    directory = trials_of(choice.root)
    made = trial(choice.run, choice.option, directory, steps, threading.Event())
    progress = None
    for progress in made:
        log(_line(progress))
        _keep(progress.option or choice.option, progress, directory)
    if progress is None:
        raise UsageError("no pair of runs finished")
    return progress


def _keep(option: FixOption, progress: Progress, directory: Path) -> None:
    """Write what is proven so far, for the app to show with the fix."""
    from perftui.experiments.journal import keep_proof

    try:
        keep_proof(option, progress, directory, time.time_ns())
    except OSError as error:
        log(f"perftui: the result cannot be saved in {directory}: {error.strerror or error}")


def _line(progress: Progress) -> str:
    from perftui import format as fmt

    if not progress.pairs:
        from perftui.report.trial import worker_line

        return worker_line(progress)
    pair = progress.pairs[-1]
    before, after = (fmt.duration(one.step_ns) for one in (pair.before, pair.after))
    return f"pair {len(progress.pairs)}: {before} -> {after} a step, {pair.ratio:.2f}x"


def _print(choice: Choice, progress: Progress, line: CommandLine) -> None:
    from perftui.report.trial import as_object, brief_object, brief_text, text

    brief, of = "brief" in line.flags, (choice.option, choice.run, progress, choice.others)
    if "json" in line.flags:
        write_object(brief_object(*of) if brief else as_object(*of), brief=brief)
    else:
        write(brief_text(*of) if brief else text(*of))
