"""`perftui undo [RUN]`: take the last fix out of the source again."""

from __future__ import annotations

from perftui_tui.commands.exit_codes import DONE, ERROR
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log, write
from perftui_tui.commands.target import find_target


def undo(line: CommandLine) -> int:
    """Give the source back what it was before the last fix that was written.

    Raises:
        UsageError: nothing was written beside that run.
    """
    from perftui.fixes.apply import SourceChangedError, last_applied, patch_store, undoing
    from perftui.fixes.apply import undo as take_back

    store = patch_store(find_target(line).path)
    applied = last_applied(store)
    if applied is None:
        raise UsageError(f"nothing has been written to the source that {store} knows of")
    try:
        patch = undoing(applied, store)
        write(f"{patch.diff()}\n")
        if "dry-run" not in line.flags:
            log(f"{take_back(applied, store)} is what it was before {applied.title}")
    except (SourceChangedError, OSError) as error:
        log(f"perftui: {error}")
        return ERROR
    return DONE
