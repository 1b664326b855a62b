"""`perftui explain`: what a finding or a fix means."""

from __future__ import annotations

from perftui_tui.commands.line import CommandLine, UsageError


def explain(line: CommandLine) -> int:
    """Print the findings and fixes that are named, or all findings in a list.

    Raises:
        UsageError: there is none of that name.
    """
    from perftui.report import explain as explaining

    if "json" in line.flags:
        print(explaining.as_json(), end="")
        return 0
    if not line.words:
        print(explaining.overview())
        return 0
    unknown = [word for word in line.words if word not in explaining.names()]
    if unknown:
        known = ", ".join(explaining.names())
        raise UsageError(f"{unknown[0]!r} is no finding and no fix; there are {known}")
    print("\n\n".join(explaining.explain(word) for word in line.words))
    return 0
