"""The `perftui` command."""

from __future__ import annotations

import os
import sys

from perftui.own_path import look_there_last


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code.

    2 is an error of ours, with one line on stderr; otherwise the code is the script's."""
    look_there_last()
    # Only what is imported from here on cannot be a module of the training's.
    from perftui_tui.commands.output import log
    from perftui_tui.commands.table import COMPLETE, overview

    words = sys.argv[1:] if arguments is None else arguments
    if words in ([], ["-h"], ["--help"]) and COMPLETE not in os.environ:
        print(overview())
        return 0
    # Help starts without the parser.
    from perftui_tui.commands.line import UsageError, carry_out, parse

    try:
        return carry_out(parse(words))
    except UsageError as error:
        from perftui.trace.remote import named

        log(f"perftui: {named(str(error))}")
        return error.code
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
