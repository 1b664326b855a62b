"""`perftui schema`: JSON Schema of what the commands print as JSON."""

from __future__ import annotations

from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import write


def schema(line: CommandLine) -> int:
    """Print the schema of one output, or one that fits them all.

    Raises:
        UsageError: there is no output of that name.
    """
    from perftui.report.encode import encode_object
    from perftui.report.schema import OUTPUTS, all_schemas, schema_of

    name = line.words[0] if line.words else None
    if name is not None and name not in OUTPUTS:
        raise UsageError(f"{name!r} prints no JSON; there are {', '.join(OUTPUTS)}")
    write(encode_object(schema_of(name) if name else all_schemas()), as_json=True)
    return 0
