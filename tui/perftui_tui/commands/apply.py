"""`perftui apply FIX [RUN]` and `perftui undo [RUN]`: a fix in the source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from perftui.facts.fact import Facts
from perftui.fixes.apply_and_undo import (
    SourceChangedError,
    apply_patch,
    check_unchanged,
    last_applied,
    patch_store,
    undoing,
)
from perftui.fixes.apply_and_undo import undo as take_back
from perftui.fixes.catalogue import CATALOGUE
from perftui.fixes.option import FixOption
from perftui.format import did_you_mean
from perftui.report.findings_as_json import apply_object, undo_object
from perftui.report.next_command import fixes_after
from perftui.report.report import make_report
from perftui.run.origin import check_run
from perftui.run.reader import RunSnapshot
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import DONE, ERROR, log, refusing, waiting, write, write_object
from perftui_tui.commands.target import find_target, subject_of


def undo(line: CommandLine) -> int:
    """Give the source back what it was before the last fix that was written."""
    root = find_target(line).path
    store = patch_store(root)
    applied = last_applied(store)
    if applied is None:
        raise UsageError(f"no fix is on record as written to the source in {store}")
    is_dry = "dry-run" in line.flags
    with refusing(SourceChangedError, OSError, code=ERROR):
        patch = undoing(applied, store)
        if not is_dry:
            take_back(applied, store)
    if not is_dry:
        log(f"{patch.path} restored to what it was before {applied.title}")
    if "json" in line.flags:
        write_object(undo_object(applied, patch, root, "dry run" if is_dry else "taken back"))
    else:
        write(f"{patch.diff()}\n")
    return DONE


@dataclass(frozen=True)
class Choice:
    """A fix of a run."""

    run: RunSnapshot
    facts: Facts
    option: FixOption
    others: tuple[str, ...] = ()
    """Fixes to try next for the same finding."""


def choose(line: CommandLine, is_possible: Callable[[FixOption], bool]) -> Choice:
    """Read ``FIX [RUN]``: by default the first fix that is possible, and the newest run."""
    words = line.words
    name = words[0] if words and words[0] in CATALOGUE else None
    near = did_you_mean(words[0], CATALOGUE) if words and not name else ""
    if name is None and (len(words) == 2 or (near and not Path(words[0]).exists())):
        raise UsageError(f"no fix is called {words[0]}.{near or ' perftui report lists fixes.'}")
    target = find_target(replace(line, words=words[1:] if name else words))
    subject = subject_of(target)
    with waiting(f"judging {target.path.name}"):
        report = make_report(subject)
    run = report.subject.run
    if run is None:
        raise UsageError(f"{target.path} is a trace: there is no script to change or run again")
    offered = {option.fix: option for option in report.fixes}
    if name is None and offered:
        possible = (fix for fix, option in offered.items() if is_possible(option))
        name = next(possible, next(iter(offered)))
    if name is None or name not in offered:
        there = ", ".join(offered) or "none"
        asked = f"{name} addresses no finding" if name else "there is no fix for these findings"
        raise UsageError(f"{asked} of {run.root.name}; offered: {there}")
    return Choice(run, report.facts, offered[name], fixes_after(name, report))


def apply(line: CommandLine) -> int:
    """Write the fix to the source, or with ``--dry-run`` print its diff only."""
    choice = choose(line, lambda option: option.patch is not None)
    option, patch = choice.option, choice.option.patch
    if option.is_written:
        log(f"{option.fix} is already written; perftui diagnose {choice.run.root} runs with it")
        _print(choice, "written already", line)
        return DONE
    if patch is None:
        why = option.why_not or option.advice or "what decides it is not certain"
        raise UsageError(f"{option.fix} cannot be written: {why}")
    is_dry = "dry-run" in line.flags
    with refusing(SourceChangedError, OSError, code=ERROR):
        check_unchanged(patch)
        if not is_dry:
            check_run(choice.run.root, choice.run.manifest)
            apply_patch(patch, patch_store(choice.run.root), option.title, option.fix)
    if not is_dry:
        log(f"{patch.path} written; perftui undo {choice.run.root} undoes it")
    _print(choice, "dry run" if is_dry else "written", line)
    return DONE


def _print(
    choice: Choice, outcome: Literal["written", "dry run", "written already"], line: CommandLine
) -> None:
    if "json" in line.flags:
        write_object(apply_object(choice.option, choice.run.root, outcome))
    elif choice.option.patch is not None:
        write(f"{choice.option.patch.diff()}\n")
