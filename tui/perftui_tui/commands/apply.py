"""`perftui apply FIX [RUN]`: write a fix to the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from perftui_tui.commands.exit_codes import DONE, ERROR
from perftui_tui.commands.fix_choice import Choice, choose
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log, write, write_object

if TYPE_CHECKING:
    from perftui.fixes.model import FixOption


def apply(line: CommandLine) -> int:
    """Write the fix to the source, or with ``--dry-run`` print its diff only.

    Raises:
        UsageError: it cannot be written, or not to this source.
    """
    from perftui.fixes.apply import SourceChangedError, apply_patch, check_unchanged, patch_store
    from perftui.run.origin import check_run

    choice = choose(line, lambda option: option.patch is not None)
    option, patch = choice.option, choice.option.patch
    if option.is_written:
        log(f"{option.fix} is already written; perftui diagnose {choice.root} runs with it")
        _print(choice, "written already", line)
        return DONE
    if patch is None:
        raise UsageError(f"{option.fix} cannot be written: {_why(option)}")
    is_dry = "dry-run" in line.flags
    try:
        check_unchanged(patch)
        if not is_dry:
            check_run(choice.root, choice.run.manifest)
            apply_patch(patch, patch_store(choice.root), option.title, option.fix)
    except (SourceChangedError, OSError) as error:
        log(f"perftui: {error}")
        return ERROR
    if not is_dry:
        log(f"{patch.path} written; perftui undo {choice.root} undoes it")
    _print(choice, "dry run" if is_dry else "written", line)
    return DONE


def _print(
    choice: Choice, outcome: Literal["written", "dry run", "written already"], line: CommandLine
) -> None:
    if "json" in line.flags:
        from perftui.report.change import apply_object

        write_object(apply_object(choice.option, choice.root, outcome))
    elif choice.option.patch is not None:
        write(f"{choice.option.patch.diff()}\n")


def _why(option: FixOption) -> str:
    return option.why_not or option.advice or "what decides it is not certain"
