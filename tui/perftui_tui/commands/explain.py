"""`perftui explain`: what a finding or a fix means."""

from __future__ import annotations

from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import write


def explain(line: CommandLine) -> int:
    """Print the findings and fixes that are named, or all findings in a list; JSON holds both.

    Raises:
        UsageError: there is none of that name.
    """
    from perftui.report import explain as explaining

    unknown = [word for word in line.words if word not in explaining.names()]
    if unknown:
        known = ", ".join(explaining.names())
        raise UsageError(f"{unknown[0]!r} is neither a finding nor a fix; there are {known}")
    if "json" in line.flags:
        write(explaining.as_json(*line.words), as_json=True)
    elif line.words:
        write("\n\n".join(map(explaining.explain, line.words)) + "\n")
    else:
        write(f"{explaining.overview()}\n")
    return 0
