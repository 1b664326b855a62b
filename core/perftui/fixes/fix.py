"""What a fix is: a row of what it changes in a training, and what is against that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perftui.facts.fact import Facts
from perftui.fixes.call_source import CallChange, SourceChange, source_change
from perftui.fixes.launched_script import launched_script
from perftui.fixes.line_change import LineChange, changed_lines
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
    change: Callable[[Facts], CallChange | LineChange | None]
    """The change as it would be made here; None where there is nothing that it could change."""


def option(fix: Fix, facts: Facts) -> FixOption | None:
    """``fix`` as it can be offered for a run; reads and parses source files."""
    change = fix.change(facts)
    return offered(fix, change, facts) if change else None


def offered(fix: Fix, change: CallChange | LineChange, facts: Facts) -> FixOption:
    """``change`` as it can be tried and written for a run; reads and parses source files."""
    override: Override | None = None
    script_word = _script_word(facts)
    if isinstance(change, LineChange):
        written = changed_lines(change, facts)
        # Where the text can be tried, that is what would be written.
        if written.patch is None or script_word is None:
            override = change.override
    elif change.why_not:
        written = SourceChange(why_not=change.why_not)
    else:
        written = source_change(change, facts)
        override = Override(change.target, dict(change.arguments), change.file, change.line, fix.id)
    is_possible = override is not None or isinstance(change, LineChange)
    return FixOption(
        fix=fix.id,
        title=change.title,
        explanation=fix.explanation,
        risks=change.risks if is_possible else (),
        override=override,
        patch=written.patch,
        why_not=written.why_not,
        advice=change.advice if is_possible else "",
        file=change.file,
        line=change.line,
        argv=written.argv,
        script_word=script_word,
    )


def _script_word(facts: Facts) -> int | None:
    """Which word of the run's command is the path of its script; None where none is."""
    manifest = facts.manifest
    script = launched_script(manifest.command, Path(manifest.cwd)) if manifest else None
    return script.word if script else None
