"""`perftui diagnose SCRIPT`: run a training and print the report, its own output kept apart."""

from __future__ import annotations

from dataclasses import replace

from perftui_tui.commands.exit_codes import DONE
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log
from perftui_tui.commands.report import print_report
from perftui_tui.commands.run import launch_of
from perftui_tui.commands.target import Target


def diagnose(line: CommandLine) -> int:
    """Run what ``line`` names to its end, then print what was found.

    The script prints into the run's own log. Interrupted, the training is asked to stop, and what
    was recorded so far is reported.

    Raises:
        UsageError: it cannot be started.
    """
    from perftui.recorder.launch import start
    from perftui.run.layout import RunLayout
    from perftui.run.requests import STOP, request
    from perftui.run.run_state import wait_until_over

    launch = launch_of(line)
    try:
        root = start(launch)
    except OSError as error:
        raise UsageError(
            f"the run cannot be recorded in {launch.runs}: {error.strerror or error}"
        ) from error
    log(f"recording {root}")
    try:
        manifest = wait_until_over(root, float("inf"))
    except KeyboardInterrupt:
        request(RunLayout(root), STOP)
        manifest = wait_until_over(root, float("inf"))
    print_report(Target(root), replace(line, action="report"))
    return manifest.exit_code or DONE
