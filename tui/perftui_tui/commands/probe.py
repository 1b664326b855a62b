"""`perftui probe`: the peak rates of this machine."""

from __future__ import annotations

from pathlib import Path

from perftui_tui.commands.exit_codes import DONE, ERROR
from perftui_tui.commands.interpreter import interpreter
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log, write, write_object


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
