"""From the command line to the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from perftui_tui.commands import usage
from perftui_tui.commands.output import log
from perftui_tui.commands.table import COMMANDS, COMPLETE

if TYPE_CHECKING:
    from perftui_tui.commands.line import CommandLine


def dispatch(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code.

    2 is an error of ours, with one line on stderr; otherwise the code is the script's.
    """
    if list(arguments) in ([], ["-h"], ["--help"]) and COMPLETE not in os.environ:
        print(usage.overview())
        return 0
    # Help starts without the parser.
    from perftui_tui.commands.line import UsageError, parse

    try:
        return _dispatch(parse(list(arguments)))
    except UsageError as error:
        from perftui.trace.remote import named

        log(f"perftui: {named(str(error))}")
        return 2
    except PermissionError as error:
        from perftui.run.origin import ForeignRunError

        if not isinstance(error, ForeignRunError):
            raise
        log(f"perftui: {error}")
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: nobody is left to notify.
        sys.stderr.close()
        return 141


def _dispatch(line: CommandLine) -> int:
    if line.note:
        log(f"perftui: {line.note}")
    if line.action == "printed":
        return 0
    # Each command is a function in the file of its name, which imports what is heavy itself.
    name = line.action if line.action in COMMANDS else "run"
    name = "diagnose" if line.reports else name
    # Some words for commands cannot be names in Python.
    name = {"try": "try_fix"}.get(name, name)
    command = getattr(import_module(f"perftui_tui.commands.{name}"), name)
    return int(command(line))
