"""`perftui doctor` and `perftui probe`: what keeps profiling from working here, and peak rates."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from perftui.doctor.row import Row, ok, unknown, warn
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import DONE, ERROR, log, write, write_object
from perftui_tui.commands.run import interpreter
from perftui_tui.commands.terminal import draws_ascii, has_sixteen_colours


def doctor(line: CommandLine) -> int:
    """Look at the machine and the interpreter, and print a row for each topic, worst first; 1
    where one fails.

    Raises:
        UsageError: the interpreter is not there.
    """
    from perftui.doctor.examine import examine
    from perftui.doctor.row import State
    from perftui.report.doctor import as_object, text
    from perftui.run.layout import RUNS_DIRECTORY

    python = interpreter(line)
    runs = Path(line.values.get("runs", RUNS_DIRECTORY)).absolute()
    rows = examine(python, runs, terminal_rows(line, os.environ))
    if "json" in line.flags:
        write_object(as_object(rows, python))
    else:
        write(text(rows))
    return ERROR if any(row.state is State.FAILS for row in rows) else DONE


def probe(line: CommandLine) -> int:
    """Measure the ceilings of the machine, keep and print them; 1 where torch cannot be used.

    Raises:
        UsageError: the interpreter or the path is not there.
    """
    from perftui.probe import probe as probing
    from perftui.probe.ceilings import keep
    from perftui.probe.probe import WorkerError
    from perftui.report.probe import as_object, text

    path = Path(line.values.get("path", "")).absolute()
    if not path.exists():
        raise UsageError(f"--path {path}: no such file or directory")
    python = interpreter(line)
    log(f"measuring for about {probing.SECONDS:.0f} s; Ctrl+C stops")
    try:
        found = probing.probe(python, path, tell=lambda name: log(f"  {name}"))
    except WorkerError as error:
        log(f"perftui: {error}")
        return ERROR
    try:
        kept = keep(found)
    except OSError as error:
        log(f"perftui: the measurements cannot be saved: {error}")
        kept = None
    if "json" in line.flags:
        write_object(as_object(found, kept))
    else:
        write(text(found, kept))
    return DONE


SMALLEST = 80, 24
"""Columns and lines that every screen fits into."""


def terminal_rows(line: CommandLine, environment: Mapping[str, str]) -> tuple[Row, ...]:
    """Rows about the terminal that the output goes to, one that says so where it goes elsewhere."""
    if sys.stdout is None or not sys.stdout.isatty():
        return (unknown("terminal", "the output is not a terminal"),)
    size = shutil.get_terminal_size()
    return (
        kind_row(environment),
        colours_row(environment),
        characters_row(is_ascii=draws_ascii(line), encoding=sys.stdout.encoding),
        size_row(size.columns, size.lines),
    )


def kind_row(environment: Mapping[str, str]) -> Row:
    """Whether the app can be shown, and over what connection."""
    name = environment.get("TERM", "dumb")
    if name == "dumb":
        return warn(
            "terminal",
            "it shows plain text only (TERM=dumb): no app",
            "Set TERM to match the terminal, such as xterm-256color, or use --headless.",
        )
    over = "SSH_CONNECTION" in environment or "SSH_TTY" in environment
    where = ", over SSH" if over else ""
    inside = ", in tmux" if "TMUX" in environment else ""
    return ok("terminal", f"{name}{inside}{where}")


def colours_row(environment: Mapping[str, str]) -> Row:
    """How many colours there are."""
    if environment.get("NO_COLOR"):
        return ok("colours", "none, because NO_COLOR is set")
    if has_sixteen_colours(environment):
        return warn(
            "colours",
            "16, according to TERM and COLORTERM",
            "If the terminal supports more: export COLORTERM=truecolor.",
        )
    is_true = environment.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit")
    return ok("colours", "24 bit" if is_true else "256")


def characters_row(*, is_ascii: bool, encoding: str) -> Row:
    """Whether charts are drawn with blocks or with ASCII."""
    if is_ascii:
        return warn(
            "characters",
            f"charts are drawn in ASCII ({encoding})",
            "Use a UTF-8 locale (export LANG=C.UTF-8), and a terminal other than the Linux "
            "console.",
        )
    return ok("characters", encoding)


def size_row(columns: int, lines: int) -> Row:
    """Whether the screens fit."""
    found = f"{columns} x {lines}"
    least_columns, least_lines = SMALLEST
    if columns >= least_columns and lines >= least_lines:
        return ok("size", found)
    return warn("size", found, f"Enlarge it to at least {least_columns} x {least_lines}.")
