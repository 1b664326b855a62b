"""A change of the source around one line: a statement left out, a block under another header."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.facts.place import Place
from perftui.fixes.call_source import SourceChange, why_not_edited
from perftui.fixes.model import Patch, Risk
from perftui.fixes.source.edits import Edit, PatchRefusedError
from perftui.fixes.source.patching import written
from perftui.fixes.source.program import Program, parse_program, read_source

Plan = Callable[[Program, int], Sequence[Edit]]
"""The edits for what stands at a line; raises ``PatchRefusedError`` where it is not certain."""


@dataclass(frozen=True)
class LineChange:
    """A change around ``file:line``; it is tried by running the patched text."""

    title: str
    """What will change, in a few words: ``no gc.collect() in the loop``."""
    file: str
    line: int
    plan: Plan
    advice: str
    """What to write by hand."""
    risks: tuple[Risk, ...] = ()


def changed_lines(change: LineChange, facts: Facts) -> SourceChange:
    """The patch of ``change``, or why there is none; reads the source file."""
    path = Path(change.file)
    if why := why_not_edited(path, "the line is", facts.manifest):
        return SourceChange(why_not=why)
    try:
        source = read_source(path)
        edits = change.plan(parse_program(source), change.line)
        after, _ = written(source, edits)
    except PatchRefusedError as refusal:
        return SourceChange(why_not=str(refusal))
    return SourceChange(Patch(path, source, after))


def is_certain(change: LineChange) -> bool:
    """Whether the source, as it is now, can be changed so; cheap to ask again."""
    path = Path(change.file)
    try:
        return _is_certain(path, path.stat().st_mtime_ns, change.line, change.plan)
    except OSError:
        return False


@lru_cache(maxsize=64)
def _is_certain(path: Path, _: int, line: int, plan: Plan) -> bool:
    """The time when the file was last changed is there for the cache."""
    try:
        plan(parse_program(read_source(path)), line)
    except PatchRefusedError:
        return False
    return True


def is_told(facts: Facts, *rules: str) -> bool:
    """Whether any of ``rules`` has a finding."""
    return any(finding.rule in rules for finding in diagnosis(facts).findings)


def place_of(facts: Facts, *rules: str) -> Place | None:
    """The line in the user's own code that the first finding of ``rules`` names; None where none
    does."""
    for finding in diagnosis(facts).findings:
        place = finding.place
        if finding.rule in rules and place and place.file and place.line:
            return place
    return None
