"""`perftui mcp`: tools for coding agents, over the Model Context Protocol."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial

from perftui_tui.commands.line import CommandLine, UsageError

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
