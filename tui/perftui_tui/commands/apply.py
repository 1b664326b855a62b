"""`perftui apply FIX [RUN]`: write a fix to the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui_tui.commands.exit_codes import DONE, ERROR
from perftui_tui.commands.fix_choice import choose
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log, write

if TYPE_CHECKING:
    from perftui.fixes.model import FixOption


def apply(line: CommandLine) -> int:
    """Write the fix to the source, or with ``--dry-run`` print its diff only.

    Raises:
        UsageError: it cannot be written, or not to this source.
    """
    from perftui.fixes.apply import SourceChangedError, apply_patch, check_unchanged, patch_store

    choice = choose(line)
    patch = choice.option.patch
    if patch is None:
        raise UsageError(f"{choice.option.fix} cannot be written: {_why(choice.option)}")
    try:
        check_unchanged(patch)
        write(f"{patch.diff()}\n")
        if "dry-run" not in line.flags:
            apply_patch(patch, patch_store(choice.root), choice.option.title)
            log(f"{patch.path} written; perftui undo {choice.root} takes it back")
    except (SourceChangedError, OSError) as error:
        log(f"perftui: {error}")
        return ERROR
    return DONE


def _why(option: FixOption) -> str:
    return option.why_not or option.advice or "what decides it is not certain"
