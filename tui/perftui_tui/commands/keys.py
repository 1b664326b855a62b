"""`perftui keys`: every key and what it does, as the file that changes them."""

from __future__ import annotations

from perftui_tui.commands.line import CommandLine
from perftui_tui.commands.output import log


def keys(line: CommandLine) -> int:  # noqa: ARG001 - every command takes the line
    """Print the table with a person's own keys; 1 where their file has something wrong."""
    from perftui_tui.keys.keymap import file_text, key_file, read_overrides

    path = key_file()
    overrides = read_overrides(path)
    print(file_text(overrides, path))
    for complaint in overrides.complaints:
        log(f"perftui: {complaint}")
    return 1 if overrides.complaints else 0
