"""`perftui diagnose SCRIPT`: run a training and print the report, its own output kept apart."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.commands.exit_codes import DONE
from perftui_tui.commands.line import AGAIN, CommandLine, UsageError
from perftui_tui.commands.output import log
from perftui_tui.commands.report import print_report
from perftui_tui.commands.run import launch_of, options_of_line
from perftui_tui.commands.target import Target, find_target

if TYPE_CHECKING:
    from perftui.recorder.launch import Launch


def diagnose(line: CommandLine) -> int:
    """Run what ``line`` names to its end, then print what was found.

    The script prints into the run's own log. Interrupted, the training is asked to stop, and what
    was recorded so far is reported. Of a recorded run the training is run again, as it was but for
    its source and the options given.

    Raises:
        UsageError: it cannot be started.
    """
    from perftui.recorder.launch import start
    from perftui.run.control import STOP, request
    from perftui.run.layout import RunLayout
    from perftui.run.manifest import StopReason, wait_until_over

    launch = launch_again(line) if line.action == AGAIN else launch_of(line)
    try:
        root = start(launch)
    except OSError as error:
        raise UsageError(
            f"the run cannot be recorded in {launch.runs}: {error.strerror or error}"
        ) from error
    try:
        log(f"recording {root}")
        manifest = wait_until_over(root, float("inf"))
    except KeyboardInterrupt:
        request(RunLayout(root), STOP, reason=StopReason.USER)
        manifest = wait_until_over(root, float("inf"))
    print_report(Target(root), replace(line, action="report"))
    return manifest.exit_code or DONE


def launch_again(line: CommandLine) -> Launch:
    """The launch that repeats the run that ``line`` names, with the options that are given now.

    Raises:
        UsageError: there is no such run, or an option cannot be changed.
    """
    from perftui.experiments.rerun import repeat_launch
    from perftui.run.manifest import ManifestError
    from perftui.run.origin import ForeignRunError
    from perftui.run.reader import RunReader

    if "python" in line.values:
        raise UsageError("a run is repeated with its own interpreter: drop --python")
    place = find_target(line)
    try:
        launch = repeat_launch(RunReader(place.path).poll())
    except ForeignRunError as error:
        raise UsageError(str(error)) from error
    except (ManifestError, OSError) as error:
        raise UsageError(f"{place.path} contains no run to repeat: {error}") from error
    given, usual = options_of_line(line), type(launch.options)()
    changed = {
        name: value
        for name in (field.name for field in fields(given))
        if (value := getattr(given, name)) != getattr(usual, name)
    }
    runs = line.values.get("runs")
    rate = line.number("stack-rate")
    return replace(
        launch,
        options=replace(launch.options, **changed),
        runs=Path(runs).absolute() if runs else launch.runs,
        stack_samples_per_second=launch.stack_samples_per_second if rate is None else rate,
    )
