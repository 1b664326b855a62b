"""Messages on the terminal the command was typed in, outside the app."""

from __future__ import annotations

import sys


def log(line: str) -> None:
    """Print one line on stderr.

    Names of files and what a run's manifest says may hold anything: a terminal never acts on it.
    """
    from perftui.trace.text import printable

    print(printable(line), file=sys.stderr)
