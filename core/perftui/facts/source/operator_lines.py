"""Which line of the user's code calls an operator, as far as samples of the stack show.

Ten samples a second see a line for the time it takes, over all of a run; a window of two steps
they meet once or twice. So the lines of the operator's phase are taken, by their time, and of
those the one whose text calls it, where the script is there to be read.
"""

from __future__ import annotations

import ast
import linecache
import re
from functools import lru_cache
from pathlib import Path

from perftui.analysis.steps.phases import BACKWARD
from perftui.facts.fact import Facts
from perftui.facts.place import Place
from perftui.facts.source.lines import LinesByTime, LineShare
from perftui.facts.source.part_lines import part_lines
from perftui.facts.source.source_calls import call_of
from perftui.facts.source.source_search import own_files, tree_of

_SHORT = re.compile(r"aten::_?(?P<name>\w+?)_?$")


def line_of(facts: Facts, phase: str, pattern: str = "", *, only: bool = False) -> LineShare | None:
    """The line of ``phase`` that takes longest, of those whose text ``pattern`` is found in where
    there are any; None if no sample shows any, or with ``only`` if there are none. Backward
    is also known by the only line that runs it."""
    found = lines_of(facts, phase)
    if found is None:
        return call_of(facts, "backward") if phase == BACKWARD and not only else None
    lines = [line for line in found.lines if line.file]
    if pattern:
        named = [line for line in lines if re.search(pattern, text_of(line))]
        if named or only:
            lines = named
    return lines[0] if lines else None


def lines_of(facts: Facts, phase: str) -> LinesByTime | None:
    """The lines at which a phase's time passes, longest first; None if no sample shows any."""
    return part_lines(facts, phase)


def line_with(facts: Facts, names: frozenset[str]) -> LineShare | None:
    """The first line of the user's own files that uses one of ``names``: for what is decided once,
    where no sample comes by; None where there is none."""
    for path, changed in own_files(facts):
        line = _first_use(path, changed, names)
        if line:
            return LineShare(str(path), line, "", "", 0)
    return None


@lru_cache(maxsize=64)
def _first_use(path: Path, changed: int, names: frozenset[str]) -> int:
    """0 where there is none, or the text is no Python."""
    used = (
        node.end_lineno or node.lineno
        for node in ast.walk(tree_of(path, changed))
        if (isinstance(node, ast.Attribute) and node.attr in names)
        or (isinstance(node, ast.Name) and node.id in names)
    )
    return min(used, default=0)


def text_of(line: LineShare) -> str:
    """The text of a line, empty where the file cannot be read."""
    return linecache.getline(line.file, line.line)


def place_of(facts: Facts, line: LineShare | None, operator: str | None = None) -> Place | None:
    """The place of a finding about ``operator``: its line where that is known."""
    if line is None:
        return Place(rank=facts.rank_number, operator=operator) if operator else None
    return Place(rank=facts.rank_number, operator=operator, file=line.file, line=line.line)


def calls_of(operator: str) -> str:
    """A pattern for the text of a call of ``operator``: ``aten::sort`` is found in ``x.sort()``."""
    found = _SHORT.match(operator)
    words = (found["name"] if found else operator).split("_")
    stem = "_".join(words[1:] if words[0] in ("linalg", "native", "fft") else words)
    return rf"\b{re.escape(stem.removesuffix('_backward').rstrip('0123456789'))}"


def at(line: LineShare | None) -> str:
    """`` at FILE:LINE``, to end a clause with; empty where no line is known. Where no sample was
    there, only the text of the line shows it."""
    if line is None:
        return ""
    return f" at {line.short}" if line.held else f" probably at {line.short}"
