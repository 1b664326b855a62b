"""`perftui undo [RUN]`: take the last fix out of the source again."""

from __future__ import annotations

from perftui_tui.commands.exit_codes import DONE, ERROR
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log, write, write_object
from perftui_tui.commands.target import find_target


def undo(line: CommandLine) -> int:
    """Give the source back what it was before the last fix that was written.

    Raises:
        UsageError: nothing was written beside that run.
    """
    from perftui.fixes.apply import SourceChangedError, last_applied, patch_store, undoing
    from perftui.fixes.apply import undo as take_back
    from perftui.report.change import undo_object

    root = find_target(line).path
    store = patch_store(root)
    applied = last_applied(store)
    if applied is None:
        raise UsageError(f"no fix is on record as written to the source in {store}")
    is_dry = "dry-run" in line.flags
    try:
        patch = undoing(applied, store)
        if not is_dry:
            take_back(applied, store)
    except (SourceChangedError, OSError) as error:
        log(f"perftui: {error}")
        return ERROR
    if not is_dry:
        log(f"{patch.path} restored to what it was before {applied.title}")
    if "json" in line.flags:
        write_object(undo_object(applied, patch, root, "dry run" if is_dry else "taken back"))
    else:
        write(f"{patch.diff()}\n")
    return DONE
