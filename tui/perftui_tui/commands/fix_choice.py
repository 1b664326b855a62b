"""From the command line to a recorded run and one of the fixes that are offered for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.target import find_target

if TYPE_CHECKING:
    from perftui.facts.fact import Facts
    from perftui.fixes.model import FixOption
    from perftui.run.reader import RunSnapshot


@dataclass(frozen=True)
class Choice:
    """A fix of a run."""

    run: RunSnapshot
    facts: Facts
    option: FixOption
    others: tuple[str, ...] = ()
    """What else can be tried about the same finding."""

    @property
    def root(self) -> Path:
        """The directory of the run."""
        return self.run.root


def choose(line: CommandLine, is_possible: Callable[[FixOption], bool]) -> Choice:
    """``FIX [RUN]``: the run is the newest where none is named, the fix the first that is possible.

    Raises:
        UsageError: there is no such run, or no such fix is offered for it.
    """
    from perftui.fixes.catalogue import CATALOGUE
    from perftui.report.next_command import fixes_after
    from perftui.report.report import make_report
    from perftui.report.subject import SubjectError, load_subject

    words = line.words
    name = words[0] if words and words[0] in CATALOGUE else None
    if len(words) == 2 and name is None:
        raise UsageError(f"{words[0]!r} is not a fix; there are {', '.join(CATALOGUE)}")
    target = find_target(replace(line, words=words[1:] if name else words))
    try:
        report = make_report(load_subject(target.path, rank=target.rank or 0))
    except (SubjectError, OSError) as error:
        raise UsageError(str(error)) from error
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
