"""`perftui replay PATH`: open a recorded run or a trace."""

from __future__ import annotations

from pathlib import Path

from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log
from perftui_tui.commands.report import kind, print_report, read_metrics
from perftui_tui.commands.target import Target, find_target
from perftui_tui.commands.terminal import why_headless


def replay(line: CommandLine) -> int:
    """Open it in the app; without a terminal, print the report instead.

    Raises:
        UsageError: it is neither a run nor a trace that can be opened.
    """
    target = find_target(line)
    check(target.path)
    reason = why_no_screen(target, line)
    if reason is not None:
        if reason:
            log(f"perftui: {reason}, so printing the report instead")
        return print_report(target, line)
    from perftui_tui.commands.show import show

    metrics = read_metrics(target, line)
    return show(
        target.path, line, is_replay=True, notes=target.notes, ranks=target.ranks, metrics=metrics
    )


def why_no_screen(target: Target, line: CommandLine) -> str | None:
    """Why the app cannot or shall not show it; None where it can."""
    from perftui.report.kind import Kind

    reason = why_headless(line)
    if reason is not None:
        return reason
    special = kind(target)
    if special is Kind.MEMORY_SNAPSHOT and "ncu" not in line.values:
        return None
    if special is not None:
        return f"there is no screen for a {special.value}"
    return None


def check(target: Path) -> None:
    """Refuse, before the screen is taken, what cannot be opened at all.

    Raises:
        UsageError: the run's manifest is damaged, or the file cannot be read or is empty.
    """
    from perftui.run.layout import RunLayout
    from perftui.run.manifest import ManifestError, read_manifest

    if target.is_dir():
        try:
            read_manifest(RunLayout(target).manifest)
        except ManifestError as error:
            raise UsageError(f"the run is damaged: {error}") from error
        return
    if target.suffix == ".py":
        raise UsageError(f"{target.name} is a script: run it with perftui {target.name}")
    try:
        with target.open("rb") as file:
            start = file.read(1)
    except OSError as error:
        raise UsageError(f"{target} cannot be read: {error.strerror}") from error
    if not start:
        raise UsageError(f"{target} is empty; record the trace again")
