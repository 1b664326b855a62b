"""`perftui doctor`: what keeps profiling from working here."""

from __future__ import annotations

import os
from pathlib import Path

from perftui_tui.commands.exit_codes import DONE, ERROR
from perftui_tui.commands.interpreter import interpreter
from perftui_tui.commands.line import CommandLine
from perftui_tui.commands.output import write, write_object


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
    from perftui_tui.commands.terminal_rows import terminal_rows

    python = interpreter(line)
    runs = Path(line.values.get("runs", RUNS_DIRECTORY)).absolute()
    rows = examine(python, runs, terminal_rows(line, os.environ))
    if "json" in line.flags:
        write_object(as_object(rows, python))
    else:
        write(text(rows))
    return ERROR if any(row.state is State.FAILS for row in rows) else DONE
