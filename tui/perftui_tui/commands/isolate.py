"""`perftui isolate [RUN]`: what each side of a training costs, by leaving it out."""

from __future__ import annotations

import threading

from perftui_tui.commands.exit_codes import ERROR
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log, write, write_object
from perftui_tui.commands.target import find_target


def isolate(line: CommandLine) -> int:
    """Run the training with one side left out after the other, and say what each could gain.

    Raises:
        UsageError: there is no such run, or it is too short.
    """
    from perftui.experiments.isolate import Isolation
    from perftui.experiments.isolate import isolate as run_each
    from perftui.experiments.trial_runs import TrialError, run_at
    from perftui.facts.fact import UnknownError
    from perftui.report.isolation import as_object, text
    from perftui.run.layout import trials_of
    from perftui.run.manifest import ManifestError

    root = find_target(line).path.resolve()
    found = Isolation()
    try:
        run = run_at(root)
        log("three runs for each part left out; Ctrl+C stops")
        steps = line.number("max-steps")
        for found in run_each(run, trials_of(root), threading.Event(), steps):
            log(f"run {found.runs}: {found.newest}")
    except (UnknownError, ManifestError) as error:
        raise UsageError(f"{root} cannot be run again: {error}") from error
    except TrialError as error:
        log(f"perftui: {error}")
        return ERROR
    if "json" in line.flags:
        write_object(as_object(found, run), brief=False)
    else:
        write(text(found))
    return 0
