"""`perftui doctor` and `perftui probe`: what keeps profiling from working here, and peak rates."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from perftui.doctor.machine import examine
from perftui.doctor.row import Row, State, ok, unknown, warn
from perftui.probe import probe as probing
from perftui.probe.ceilings import keep
from perftui.probe.probe import WorkerError
from perftui.report.machine import doctor_object, doctor_text, probe_object, probe_text
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import (
    DONE,
    ERROR,
    draws_ascii,
    has_sixteen_colours,
    log,
    refusing,
    write_result,
)
from perftui_tui.commands.run import interpreter
from perftui_tui.commands.target import runs_directory


def doctor(line: CommandLine) -> int:
    """Look at the machine and the interpreter, and print a row for each topic, worst first; 1
    where one fails."""
    python = interpreter(line)
    rows = examine(python, runs_directory(line), terminal_rows(line, os.environ))
    write_result(line.flags, lambda: doctor_object(rows, python), lambda: doctor_text(rows))
    return ERROR if any(row.state is State.FAILS for row in rows) else DONE


def probe(line: CommandLine) -> int:
    """Measure the ceilings of the machine, keep and print them; 1 where torch cannot be used."""
    path = line.values.get("path", Path()).absolute()
    if not path.exists():
        raise UsageError(f"--path {path}: no such file or directory")
    python = interpreter(line)
    log(f"measuring for about {probing.SECONDS:.0f} s; Ctrl+C stops")
    with refusing(WorkerError, code=ERROR):
        rates = probing.probe(python, path, tell=lambda name: log(f"  {name}"))
    try:
        file = keep(rates)
    except OSError as error:
        log(f"perftui: the measurements cannot be saved: {error}")
        file = None
    write_result(line.flags, probe_object, probe_text, rates, file)
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
        _characters_row(is_ascii=draws_ascii(line.flags), encoding=sys.stdout.encoding),
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
    """The number of colours."""
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


def _characters_row(*, is_ascii: bool, encoding: str) -> Row:
    if not is_ascii:
        return ok("characters", encoding)
    return warn(
        "characters",
        f"charts are drawn in ASCII ({encoding})",
        "Use a UTF-8 locale (export LANG=C.UTF-8), and a terminal other than the Linux console.",
    )


def size_row(columns: int, lines: int) -> Row:
    """Whether the screens fit."""
    text = f"{columns} x {lines}"
    if columns >= SMALLEST[0] and lines >= SMALLEST[1]:
        return ok("size", text)
    return warn("size", text, "Enlarge it to at least {} x {}.".format(*SMALLEST))
