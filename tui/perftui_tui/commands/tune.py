"""`perftui tune [RUN]`: try all fixes one by one, and keep what is proven."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.commands.exit_codes import ERROR, NO_DIFFERENCE, code_of
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log, write
from perftui_tui.commands.target import find_target

if TYPE_CHECKING:
    from perftui.experiments.trial.trial import Progress
    from perftui.experiments.tune.tune import Tuned
    from perftui.fixes.model import FixOption


def tune(line: CommandLine) -> int:
    """Tune the training of a run; a tuning that was interrupted goes on.

    Raises:
        UsageError: there is no such run, or it is too short.
    """
    from perftui.experiments.trial.finished import TrialError
    from perftui.report.tuning import as_object, text

    root = find_target(line).path.resolve()
    steps = line.number("max-steps") or _steps(root)
    log(f"each fix is tried by pairs of runs of {steps} steps; Ctrl+C stops, the same goes on")
    try:
        tuned = _run(root, steps, time.monotonic() + line.seconds("budget"))
    except TrialError as error:
        log(f"perftui: {error}")
        return ERROR
    if "json" in line.flags:
        from perftui.report.as_json import encode_object

        write(encode_object(as_object(tuned, root)), as_json=True)
    else:
        write(text(tuned, root), as_json=False)
    return code_of(tuned.final.verdict.outcome) if tuned.final else NO_DIFFERENCE


def _steps(root: Path) -> int:
    from perftui.experiments.trial.runs import steps_of_each
    from perftui.facts.fact import Facts, UnknownError
    from perftui.run.manifest import ManifestError
    from perftui.run.reader import RunReader

    try:
        return steps_of_each(Facts(RunReader(root).poll(), None))
    except (UnknownError, ManifestError) as error:
        raise UsageError(f"{root} cannot be tuned: {error}") from error


def _run(root: Path, steps: int, deadline: float) -> Tuned:
    from perftui.experiments.tune.journal import Attempt
    from perftui.experiments.tune.tune import Trying, Tuned, tune
    from perftui.run.layout import trials_of

    directory = trials_of(root)
    for told in tune(root, directory, steps, _offers, threading.Event(), deadline):
        if isinstance(told, Trying):
            log(f"{told.title}, {_line(told.progress)}")
        elif isinstance(told, Attempt):
            log(f"{told.title}: {told.headline}{', kept' if told.kept.value != 'no' else ''}")
        elif isinstance(told, Tuned):
            return told
    raise UsageError("the tuning came to no end")


def _line(progress: Progress) -> str:
    from perftui.report.trial import workers_text

    if not progress.pairs:
        return f"a step {workers_text(progress)}"
    pair = f"pair {len(progress.pairs)}: {progress.pairs[-1].ratio:.2f}x"
    return f"{pair}, {progress.verdict.headline}"


def _offers(root: Path) -> Sequence[FixOption]:
    from perftui.report.report import make_report
    from perftui.report.subject import load_subject

    return make_report(load_subject(root)).fixes
