"""What a fix is: a row of what it changes in a training, and what is against that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perftui.facts.fact import Facts
from perftui.fixes.call_source import CallChange, SourceChange, source_change
from perftui.fixes.model import FixOption
from perftui.run.manifest import Override


@dataclass(frozen=True)
class Fix:
    """One answer to findings."""

    id: str
    what: str
    """What the fix does, in one line of a table."""
    explanation: str
    """What changes and what does not, in a few sentences for a person."""
    change: Callable[[Facts], CallChange | None]
    """The change as it would be made here; None where there is nothing that it could change."""


def option(fix: Fix, facts: Facts) -> FixOption | None:
    """``fix`` as it can be offered for a run; reads and parses source files."""
    change = fix.change(facts)
    return offered(fix, change, facts) if change else None


def offered(fix: Fix, change: CallChange, facts: Facts) -> FixOption:
    """``change`` as it can be tried and written for a run; reads and parses source files."""
    if change.why_not:
        written, override = SourceChange(why_not=change.why_not), None
    else:
        written = source_change(change, facts)
        override = Override(change.target, dict(change.arguments), change.file, change.line, fix.id)
    return FixOption(
        fix=fix.id,
        title=change.title,
        explanation=fix.explanation,
        risks=change.risks if override else (),
        override=override,
        patch=written.patch,
        why_not=written.why_not,
        advice=change.advice if override else "",
        file=change.file,
        line=change.line,
        argv=written.argv,
    )
