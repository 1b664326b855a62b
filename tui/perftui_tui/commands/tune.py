"""`perftui tune [RUN]`: try all fixes one by one, and keep what is proven."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.commands.exit_codes import ERROR, NO_DIFFERENCE, code_of
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log, write
from perftui_tui.commands.target import find_target

if TYPE_CHECKING:
    from perftui.experiments.journal import Journal
    from perftui.experiments.tune import Keeping, Trying, Tuned


def tune(line: CommandLine) -> int:
    """Tune the training of a run; a tuning that was interrupted goes on.

    Raises:
        UsageError: there is no such run, or it is too short.
    """
    from perftui.experiments.trial_runs import TrialError
    from perftui.report.tuning import as_object, text

    root = find_target(line).path.resolve()
    steps = line.number("max-steps") or _steps(root)
    log(
        f"each fix is tried with pairs of runs of {steps} steps; Ctrl+C stops, the same command "
        "continues"
    )
    try:
        tuned = _run(root, steps, time.monotonic() + line.seconds("budget"))
    except TrialError as error:
        log(f"perftui: {error}")
        return ERROR
    if "json" in line.flags:
        from perftui.report.encode import encode_object

        write(encode_object(as_object(tuned, root)), as_json=True)
    else:
        write(text(tuned, root), as_json=False)
    return code_of(tuned.final.verdict.outcome) if tuned.final else NO_DIFFERENCE


def _steps(root: Path) -> int:
    from perftui.experiments.trial_runs import steps_of_each
    from perftui.facts.fact import Facts, UnknownError
    from perftui.run.manifest import ManifestError
    from perftui.run.reader import RunReader

    try:
        return steps_of_each(Facts(RunReader(root).poll(), None))
    except (UnknownError, ManifestError) as error:
        raise UsageError(f"{root} cannot be tuned: {error}") from error


def _run(root: Path, steps: int, deadline: float) -> Tuned:
    from perftui.experiments.tune import Tuned, tune
    from perftui.report.tuning import offers
    from perftui.run.layout import trials_of

    known = 0
    for event in tune(root, trials_of(root), steps, offers, threading.Event(), deadline):
        if isinstance(event, Tuned):
            return event
        known = _log(event, known)
    raise UsageError("the tuning did not finish")


def _log(event: Trying | Keeping | Journal, known: int) -> int:
    """Log what is new, of a journal the attempts after the ``known`` first; returns how many there
    are."""
    from perftui.experiments.journal import Journal, Kept
    from perftui.experiments.tune import Keeping
    from perftui.report.trial import worker_line

    if isinstance(event, Journal):
        for one in event.attempts[known:]:
            log(f"{one.title}: {one.headline}{'' if one.kept is Kept.NO else ', kept'}")
        return len(event.attempts)
    title = event.option.title
    if isinstance(event, Keeping):
        how = f"written to {event.path}" if event.path else "kept, but cannot be written"
        log(f"{title}: {how}; recording the training with it")
    elif event.progress.workers and not event.progress.pairs:
        log(f"{title}: {worker_line(event.progress)}")
    elif event.progress.pairs:
        count, headline = len(event.progress.pairs), event.progress.verdict.while_running
        log(f"{title}, pair {count}: {event.progress.pairs[-1].ratio:.2f}x, {headline}")
    return known
