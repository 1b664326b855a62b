"""`perftui explain`, `schema`, `skill`, `mcp` and `keys`: what people and agents look up."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path

from perftui.format import did_you_mean
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log, write


def explain(line: CommandLine) -> int:
    """Print the findings and fixes that are named, or all findings in a list; JSON holds both."""
    from perftui.report import explain as explaining
    from perftui.report.output_text import encode_object

    names = explaining.names()
    for word in line.words:
        if word not in names:
            near = did_you_mean(word, names) or " perftui explain lists all findings."
            raise UsageError(f"no finding or fix is called {word}.{near}")
    if "json" in line.flags:
        write(encode_object(explaining.as_object(*line.words)), as_json=True)
    elif line.words:
        write("\n\n".join(map(explaining.explain, line.words)) + "\n")
    else:
        write(f"{explaining.overview()}\n")
    return 0


def schema(line: CommandLine) -> int:
    """Print the schema of one output, or one that fits them all."""
    from perftui.report.output_text import encode_object
    from perftui.report.schema import OUTPUTS, all_schemas, schema_of

    name = line.words[0] if line.words else None
    if name is not None and name not in OUTPUTS:
        near = did_you_mean(name, OUTPUTS) or f" There are {', '.join(OUTPUTS)}."
        raise UsageError(f"no command {name} prints JSON.{near}")
    write(encode_object(schema_of(name) if name else all_schemas()), as_json=True)
    return 0


def skill(line: CommandLine) -> int:  # noqa: ARG001 - every command takes the line
    """Print the skill."""
    write(Path(__file__).with_name("SKILL.md").read_text())
    return 0


NO_SDK = "mcp needs the Python SDK of the Model Context Protocol: pip install 'perftui[mcp]'"
FOR_A_CLIENT = (
    "mcp serves a coding agent over stdin and stdout, and this is a terminal: add "
    '{"command": "perftui", "args": ["mcp"]} to the MCP servers of the agent; '
    "docs/mcp.md shows how"
)


def mcp(line: CommandLine) -> int:
    """Serve until the client closes stdin."""
    # Its second release split the types from the rest.
    if importlib.util.find_spec("mcp_types") is None or importlib.util.find_spec("mcp") is None:
        raise UsageError(NO_SDK)
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(FOR_A_CLIENT)
    import anyio

    from perftui_tui.commands.mcp_server import serve

    common = [f"--runs={line.values['runs']}"] if "runs" in line.values else []
    anyio.run(partial(serve, allow_run="allow-run" in line.flags, common=common))
    return 0


def keys(line: CommandLine) -> int:  # noqa: ARG001 - every command takes the line
    """Print the table with a person's own keys; 1 where their file has something wrong."""
    from perftui_tui.keys.own_keys import file_text, key_file, read_overrides

    path = key_file()
    overrides = read_overrides(path)
    print(file_text(overrides, path))
    for complaint in overrides.complaints:
        log(f"perftui: {complaint}")
    return 1 if overrides.complaints else 0
