"""What a fix is: a row of what it changes in a training, and what is against that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from perftui.facts.fact import Facts
from perftui.fixes.apply import applied_to, patch_store
from perftui.fixes.change import (
    CallChange,
    LineChange,
    NamedLine,
    Plan,
    SourceChange,
    changed_lines,
    edited_since,
    has_subject,
    source_change,
)
from perftui.fixes.command_line import script_of
from perftui.fixes.model import WRITTEN, FixOption, Risk
from perftui.fixes.source.calls import each_changed
from perftui.run.manifest import Override
from perftui.script.names import qualified_name
from perftui.script.program import PatchRefusedError, parse_program, read_source


def stands_in_source(fix: str, change: CallChange | LineChange, facts: Facts) -> bool:
    """Whether ``change`` was written after the run began: by us, or by whoever edited the file.

    What stood there before the run is none: the run shows what it was like with it.
    """
    if change.file is None or not edited_since(Path(change.file), facts.manifest):
        return False
    if _was_applied(fix, change, facts):
        return True
    return isinstance(change, CallChange) and not change.uncertain and _calls_have_it(change)


def _was_applied(fix: str, change: CallChange | LineChange, facts: Facts) -> bool:
    """Whether our record says so; of a patch whose fix was not noted, the title decides."""
    if facts.run is None:
        return False
    began = facts.run.manifest.started_ns
    return any(
        applied.applied_ns > began and (applied.fix or applied.title) in (fix, change.title)
        for applied in applied_to(Path(change.file or ""), patch_store(facts.run.root))
    )


def _calls_have_it(change: CallChange) -> bool:
    """Whether every such call of the file has the arguments: lines may have moved, so which of
    several the run was about is not certain."""
    try:
        program = parse_program(read_source(Path(change.file or "")))
        names = change.spec.names
        calls = [call for call in program.calls() if qualified_name(program, call.func) in names]
        plan = change.spec.plan or each_changed
        return bool(calls) and not any(
            plan(change.spec, program, call, change.as_written) for call in calls
        )
    except PatchRefusedError:
        return False


@dataclass(frozen=True)
class EnvironmentChange:
    """Variables of the environment that the training is started with."""

    title: str
    variables: Mapping[str, str]
    risks: tuple[Risk, ...] = ()
    why_not: str = ""
    """Why it would be wrong here; empty where nothing is against it."""

    @property
    def words(self) -> str:
        """The variables as they stand before a command."""
        return " ".join(f"{name}={value}" for name, value in self.variables.items())


Change = CallChange | LineChange | EnvironmentChange


@dataclass(frozen=True)
class Fix:
    """One answer to findings."""

    id: str
    what: str
    """What the fix does, in one line of a table."""
    explanation: str
    """What changes and what does not, in a few sentences for a person."""
    change: Callable[[Facts], Change | None]
    """The change as it would be made here; None where there is nothing that it could change."""
    risks: tuple[Risk, ...] = ()
    """All that a change may name, of which it names those of its case."""


def line_fix(
    *,
    id: str,  # noqa: A002 - as the field is called
    what: str,
    explanation: str,
    at: Callable[..., NamedLine | None],
    rules: tuple[str, ...],
    title: str,
    plan: Plan,
    advice: str,
    risks: tuple[Risk, ...] = (),
    is_one_of_several: bool = False,
) -> Fix:
    """A fix that is the same change wherever one of ``rules`` has a finding.

    ``at`` says where ``plan`` begins: ``place_of``, ``script_with_finding``, ``place_or_script``.
    One of several that answer the same findings is offered only where the file has its subject.
    """

    def change(facts: Facts) -> LineChange | None:
        place = at(facts, *rules)
        if place is None:
            return None
        where = f"{place.short}: " if place.short else ""
        made = LineChange(title, place.file, place.line, plan, f"{where}{advice}", risks)
        return made if not is_one_of_several or has_subject(made, facts) else None

    return Fix(id, what, explanation, change, risks)


def option(fix: Fix, facts: Facts) -> FixOption | None:
    """``fix`` as it can be offered for a run; reads and parses source files."""
    change = fix.change(facts)
    return offered(fix, change, facts) if change else None


def offered(fix: Fix, change: Change, facts: Facts) -> FixOption:
    """``change`` as it can be tried and written for a run; reads and parses source files."""
    if isinstance(change, EnvironmentChange):
        return _of_environment(fix, change)
    override: Override | None = None
    script = script_of(facts.manifest)
    script_word = script.word if script else None
    if isinstance(change, LineChange):
        written = changed_lines(change, facts)
        # Where the text can be tried, that is what would be written.
        if written.patch is None or script_word is None:
            override = change.override
    elif change.why_not:
        written = SourceChange(why_not=change.why_not)
    else:
        written = source_change(change, facts)
        patch_is_more = written.patch is not None and written.patch.changes_beside
        if not patch_is_more or script_word is None:
            override = Override(
                change.target, dict(change.arguments), change.file, change.line, fix.id
            )
    is_possible = isinstance(change, LineChange) or not change.why_not
    is_written = is_possible and not written.patch and stands_in_source(fix.id, change, facts)
    notes = written.patch.notes if written.patch else ()
    if isinstance(change, CallChange):
        notes = () if change.why_not else change.notes(written.patch)
    return FixOption(
        fix=fix.id,
        title=change.title,
        explanation=" ".join((fix.explanation, *notes)),
        risks=change.risks if is_possible else (),
        override=override,
        patch=written.patch,
        why_not=WRITTEN if is_written else written.why_not,
        advice=change.advice if is_possible else "",
        file=change.file,
        line=change.line,
        argv=written.argv,
        script_word=script_word,
        is_written=is_written,
    )


def _of_environment(fix: Fix, change: EnvironmentChange) -> FixOption:
    if change.why_not:
        return FixOption(fix.id, change.title, fix.explanation, why_not=change.why_not)
    return FixOption(
        fix.id,
        change.title,
        fix.explanation,
        change.risks,
        override=Override("environment", dict(change.variables), fix=fix.id),
        why_not="it is set where the training is started",
        advice=f"{change.words} before the command",
    )
