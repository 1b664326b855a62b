"""`perftui report` as data for other programs: a table, stacks, or a trace with our tracks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log, write, write_data
from perftui_tui.commands.redacting import text_of

if TYPE_CHECKING:
    from perftui.report.report import Report


def print_data(report: Report, form: str, line: CommandLine) -> None:
    """Print the table that ``line`` names, print the stacks, or write the trace, as ``form`` says.

    Raises:
        UsageError: there is nothing to print, or the file cannot be written.
    """
    if report.redaction is not None:
        # Readers of these forms have no line for it.
        log(report.redaction.head)
    if form == "csv":
        _print_table(report, line.values["csv"])
    elif form == "folded":
        _print_stacks(report)
    else:
        _write_trace(report, Path(line.values["perfetto"]))


def _print_table(report: Report, name: str) -> None:
    from perftui.report.csv_tables import csv_text, table_named
    from perftui.report.output_text import replaced

    table = table_named(name, report)
    if table.note:
        log(f"{name}: {text_of(lambda _: replaced(table.note), report)}")
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    write_data(text_of(lambda _: csv_text(table, for_terminal=is_terminal), report))


def _print_stacks(report: Report) -> None:
    from perftui.report.folded_stacks import NoStacksError, render

    try:
        write_data(text_of(render, report))
    except NoStacksError as error:
        raise UsageError(f"--folded prints stacks: {error}") from error


def _write_trace(report: Report, path: Path) -> None:
    from perftui.report.perfetto import PerfettoError, write_perfetto
    from perftui.report.redaction.redactor import RedactionError
    from perftui.trace.model import TraceError
    from perftui.trace.text import printable

    try:
        written = write_perfetto(report, path)
    except (PerfettoError, RedactionError, TraceError) as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
    tracks = ", ".join(f"{one.name} ({len(one.spans):,})" for one in written.tracks)
    events = "all events of the trace" if written.has_original else "its kernels and copies"
    write(f"{printable(str(path))}: {events}, and tracks of perftui: {tracks or 'none'}\n")
    write("Open it at https://ui.perfetto.dev\n")
