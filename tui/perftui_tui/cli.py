"""The `perftui` command."""

from __future__ import annotations

import sys

from perftui.own_path import look_there_last


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code; see ``commands.dispatch``."""
    look_there_last()
    # Only what is imported from here on cannot be a module of the training's.
    from perftui_tui.commands.dispatch import dispatch

    return dispatch(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
