"""A change of the source around one line: a statement left out, a block under another header."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.facts.place import Place
from perftui.facts.source.source_search import own_files
from perftui.fixes.call_source import SourceChange, edited_since, why_not_edited
from perftui.fixes.launched_script import script_of
from perftui.fixes.model import Patch, Risk
from perftui.fixes.source.edits import Edit
from perftui.fixes.source.patching import written
from perftui.run.manifest import Override
from perftui.script.program import (
    NothingToChangeError,
    PatchRefusedError,
    Program,
    parse_program,
    read_source,
)
from perftui.script.training import training_loop

Plan = Callable[[Program, int], Sequence[Edit]]
"""The edits for what stands at a line; raises ``PatchRefusedError`` where it is not certain."""


@dataclass(frozen=True)
class LineChange:
    """A change around ``file:line``, None where the run names none; it is tried by running the
    patched text."""

    title: str
    """What will change, in a few words: ``no gc.collect() in the loop``."""
    file: str | None
    line: int | None
    plan: Plan
    advice: str
    """What to write by hand."""
    risks: tuple[Risk, ...] = ()
    override: Override | None = None
    """What does the same for one run, where the text is not certain or cannot be tried."""


def changed_lines(change: LineChange, facts: Facts) -> SourceChange:
    """The patch of ``change``, or why there is none; reads the source file."""
    if change.file is None or change.line is None:
        return SourceChange(why_not="the run names no line of the script for it")
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
    if change.file is None or change.line is None:
        return False
    path = Path(change.file)
    return _is_certain(path, _modified(path), change.line, change.plan)


def _modified(path: Path) -> int:
    """When the file was last changed, ns, so that what it led to can be kept; 0 where it is not
    there."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=64)
def _is_certain(path: Path, _: int, line: int, plan: Plan) -> bool:
    try:
        plan(parse_program(read_source(path)), line)
    except PatchRefusedError:
        return False
    return True


def has_subject(change: LineChange, facts: Facts) -> bool:
    """Whether the file has anything of what ``change`` is about: one of several that answer the
    same findings; cheap to ask again. One that was edited since the run may have had it."""
    if change.file is None or change.line is None:
        return True
    path = Path(change.file)
    is_old = edited_since(path, facts.manifest)
    return is_old or _has_subject(path, _modified(path), change.line, change.plan)


@lru_cache(maxsize=64)
def _has_subject(path: Path, _: int, line: int, plan: Plan) -> bool:
    try:
        plan(parse_program(read_source(path)), line)
    except NothingToChangeError:
        return False
    except PatchRefusedError:
        return True
    return True


def has_finding(facts: Facts, *rules: str) -> bool:
    """Whether any of ``rules`` has a finding."""
    return any(finding.rule in rules for finding in diagnosis(facts).findings)


class NamedLine(NamedTuple):
    """A line of the user's own code."""

    file: str
    line: int
    short: str = ""
    """File name and line, without directories; empty where the fix is not about this very line."""


def named_line(place: Place | None) -> NamedLine | None:
    """The line of ``place``; None where it has none."""
    if place is None or not place.file or not place.line:
        return None
    return NamedLine(place.file, place.line, place.short)


def place_of(facts: Facts, *rules: str) -> NamedLine | None:
    """The line that the first finding of ``rules`` names; None where none does."""
    told = (finding for finding in diagnosis(facts).findings if finding.rule in rules)
    return next((line for finding in told if (line := named_line(finding.place))), None)


def place_or_script(facts: Facts, *rules: str) -> NamedLine | None:
    """The line that the first finding of ``rules`` names, else the start of the script; None where
    there is no such finding."""
    place = place_of(facts, *rules)
    return NamedLine(place.file, place.line) if place else script_with_finding(facts, *rules)


def script_with_finding(facts: Facts, *rules: str) -> NamedLine | None:
    """The start of what the run's command runs, where any of ``rules`` has a finding; else None."""
    script = script_of(facts.manifest)
    return NamedLine(str(script.path), 1) if script and has_finding(facts, *rules) else None


def place_of_loop(facts: Facts) -> tuple[str | None, int | None]:
    """File and line of the loop that trains, in the first of the user's own files that has one."""
    for path, _ in own_files(facts):
        line = _line_of_loop(path, _modified(path))
        if line is not None:
            return str(path), line
    return None, None


@lru_cache(maxsize=64)
def _line_of_loop(path: Path, _: int) -> int | None:
    try:
        return training_loop(parse_program(read_source(path))).lineno
    except PatchRefusedError:
        return None
