"""`perftui report PATH`: the diagnosis as text or JSON, without a terminal."""

from __future__ import annotations

import sys
from dataclasses import replace

from perftui_tui.commands.failure import UsageError
from perftui_tui.commands.line import CommandLine
from perftui_tui.commands.target import Target, find_target


def report(line: CommandLine) -> int:
    """Print the report of what ``line`` names, of the newest run where it names nothing.

    Raises:
        UsageError: it cannot be read.
    """
    return print_report(find_target(line), as_json="json" in line.flags)


def print_report(target: Target, *, as_json: bool) -> int:
    """Print the report of ``target``.

    Raises:
        UsageError: it cannot be read.
    """
    from perftui.report.as_json import encode
    from perftui.report.report import make_report
    from perftui.report.subject import SubjectError, load_subject
    from perftui.report.text import render

    try:
        subject = load_subject(target.path)
        made = make_report(replace(subject, notes=(*target.notes, *subject.notes)))
    except (SubjectError, OSError) as error:
        raise UsageError(str(error)) from error
    sys.stdout.write(encode(made) if as_json else render(made))
    return 0
