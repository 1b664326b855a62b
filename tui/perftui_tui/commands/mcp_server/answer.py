"""From a call of a tool to its answer: the command line, what it printed, and what is left out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perftui.report.encode import SCHEMA
from perftui.trace.text import printable
from perftui_tui.commands.mcp_server.arguments import ArgumentError, command_line, whole_number
from perftui_tui.commands.mcp_server.child import Ended, Told, run_command
from perftui_tui.commands.mcp_server.limits import TooLongError, csv_rows, limited
from perftui_tui.commands.mcp_server.tools import ROWS, TableOutput, Tool

OURS = "perftui: "
"""Begins the line on stderr that says why a command failed."""
MOST_ERROR = 4_000
"""Characters of an error that are passed on, its last ones."""


class ToolError(RuntimeError):
    """A tool failed; the message is what its command said."""


async def answer(
    tool: Tool, given: Mapping[str, Any], common: Sequence[str], told: Told
) -> dict[str, Any]:
    """What the command of ``tool`` prints as JSON for these arguments, cut to a bounded size.

    ``common`` are options of each command.

    Raises:
        ToolError: it cannot be carried out, or failed.
    """
    try:
        words = _words(tool, given, common)
        rows = whole_number(given, "rows", 1, ROWS)
        skip = whole_number(given, "skip", 0, 0)
    except ArgumentError as error:
        raise ToolError(f"{tool.name}: {error}") from error
    try:
        ended = await run_command(words, told, _directory(given))
    except (OSError, ValueError) as error:
        # No such directory, or a text that cannot be a word of a command line.
        raise ToolError(f"{tool.name} cannot be started: {error}") from error
    if not ended.out:
        raise ToolError(_why(ended))
    if tool.outputs == (TableOutput,):
        return {**_table(ended, skip, rows, given["table"])}
    found = _json(ended)
    if tool.name == "diagnose":
        found["exit_code"] = ended.code
    try:
        return limited(found, rows)
    except TooLongError as error:
        raise ToolError(
            f"the answer is too long, {error}: leave out full, or run in a shell: "
            f"perftui {shlex.join(words)}"
        ) from error


def _words(tool: Tool, given: Mapping[str, Any], common: Sequence[str]) -> list[str]:
    brief = ["--brief"] if "full" in tool.takes and not given.get("full") else []
    return command_line((*tool.command, *brief, *common), tool.arguments, given)


def _directory(given: Mapping[str, Any]) -> Path | None:
    return Path(given["directory"]) if given.get("directory") else None


def _why(ended: Ended) -> str:
    ours = [line for line in ended.lines if line.startswith(OURS)]
    lines = ours[-1:] or ended.lines
    said = "\n".join(printable(line).removeprefix(OURS) for line in lines)[-MOST_ERROR:]
    return said or f"the command ended with exit code {ended.code} and printed nothing"


def _json(ended: Ended) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(ended.out)
    except ValueError as error:
        raise ToolError(f"the command printed no JSON: {printable(ended.out[:200])}") from error
    return found


def _table(ended: Ended, skip: int, rows: int, name: str) -> TableOutput:
    text, total = csv_rows(ended.out, skip, rows)
    notes = [printable(line).removeprefix(f"{name}: ") for line in ended.lines]
    return {
        "schema": SCHEMA,
        "table": name,
        "csv": "\n".join(map(printable, text.split("\n"))),
        "skip": skip,
        "total_rows": total,
        "note": "\n".join(notes) or None,
    }
