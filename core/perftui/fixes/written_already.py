"""Whether the source has since the run what a fix would write into it."""

from __future__ import annotations

from pathlib import Path

from perftui.facts.fact import Facts
from perftui.fixes.apply import applied_to, patch_store
from perftui.fixes.call_source import CallChange, edited_since
from perftui.fixes.line_change import LineChange
from perftui.fixes.source.calls import each_changed
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
