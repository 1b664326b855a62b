"""What a fix is: a row that says what it changes in a training, and what speaks against that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from perftui.facts.fact import Facts
from perftui.fixes.call_source import CallSource, Plan, SourceChange
from perftui.fixes.model import FixOption, Risk
from perftui.fixes.source.calls import CallSpec
from perftui.fixes.source.edits import Literal
from perftui.run.manifest import Override


@dataclass(frozen=True)
class CallChange:
    """A call of the training that is to be made with other arguments."""

    target: str
    """What the agent calls it: ``DataLoader``, ``optimizer``."""
    arguments: Mapping[str, Literal]
    title: str
    """What will change, in a few words: ``num_workers 0 -> 2``."""
    file: str | None
    line: int | None
    spec: CallSpec
    plan: Plan
    advice: str
    """The line as it would be written."""
    seen: Mapping[str, Literal] = field(default_factory=dict)
    """What the script called it with, as far as that is known."""
    risks: tuple[Risk, ...] = ()
    why_not: str = ""
    """Why it would be wrong or useless here; then neither tried nor written."""
    uncertain: str = ""
    """Why the source must not be changed, though a run may try it."""


@dataclass(frozen=True)
class Fix:
    """One answer to findings."""

    id: str
    what: str
    """What it does, in one line of a table."""
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
        return _option(fix, change, SourceChange(why_not=change.why_not))
    source = CallSource(facts, change.file, change.line, change.spec)
    written = source.change(change.arguments, change.seen, change.plan, change.uncertain)
    override = Override(change.target, dict(change.arguments), change.file, change.line, fix.id)
    return _option(fix, change, written, override, change.advice)


def _option(
    fix: Fix,
    change: CallChange,
    source: SourceChange,
    override: Override | None = None,
    advice: str = "",
) -> FixOption:
    return FixOption(
        fix=fix.id,
        title=change.title,
        explanation=fix.explanation,
        risks=change.risks if override else (),
        override=override,
        patch=source.patch,
        why_not=source.why_not,
        advice=advice,
        file=change.file,
        line=change.line,
        argv=source.argv,
    )
