"""Which line of the user's code calls an operator, as far as samples of the stack show.

Ten samples a second see a line for the time it takes, over all of a run; a window of two steps
they meet once or twice. So the lines of the operator's phase are taken, by their time, and of
those the one whose text calls it, where the script is there to be read.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from perftui.analysis.steps.phases import BACKWARD
from perftui.facts.fact import Facts, fact
from perftui.facts.place import Place
from perftui.facts.source.lines import LinesByTime, LineShare
from perftui.facts.source.part_lines import part_lines
from perftui.facts.source.source_calls import call_of
from perftui.facts.source.source_search import own_files
from perftui.script.program import tree_of

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


_OF_MODELS = ("parameters", "named_parameters")


@fact
def model_line(facts: Facts) -> LineShare | None:
    """The line at which the variable whose parameters are trained gets its model; ``function`` is
    the variable. None where there are several such variables, or none is in the user's files."""
    found = {
        (str(path), line, name)
        for path, changed in own_files(facts)
        for line, name in _models(path, changed)
    }
    if len(found) != 1:
        return None
    file, line, name = found.pop()
    return LineShare(file, line, name, "", 0)


def made_where(facts: Facts, place: Place) -> Place:
    """``place``, or the line that makes the model where no line is known, or one that calls the
    model as a whole: every layer of it is meant then."""
    made = model_line(facts)
    if made is None:
        return place
    if place.file is not None and place.line is not None:
        text = text_of(LineShare(place.file, place.line, "", "", 0))
        if not re.search(rf"(?<![\w.]){re.escape(made.function)}\(", text):
            return place
    return replace(place, rank=facts.rank_number, file=made.file, line=made.line)


def second_call(facts: Facts) -> LineShare | None:
    """The later of the two lines that call the model by its variable; None where there are not just
    two."""
    made = model_line(facts)
    if made is None:
        return None
    lines = [
        (str(path), line)
        for path, changed in own_files(facts)
        for line in _calls(path, changed, made.function)
    ]
    return LineShare(*lines[1], "", "", 0) if len(lines) == 2 else None


@lru_cache(maxsize=64)
def _calls(path: Path, changed: int, name: str) -> tuple[int, ...]:
    nodes = (node for node in ast.walk(tree_of(path, changed)) if isinstance(node, ast.Call))
    return tuple(sorted({node.lineno for node in nodes if ast.unparse(node.func) == name}))


@lru_cache(maxsize=64)
def _models(path: Path, changed: int) -> tuple[tuple[int, str], ...]:
    """Variables whose parameters are asked for, each with the first line that makes its model."""
    nodes = list(ast.walk(tree_of(path, changed)))
    trained = {
        ast.unparse(node.func.value)
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _OF_MODELS
        and isinstance(node.func.value, (ast.Name, ast.Attribute))
    }
    made: dict[str, int] = {}
    for node in nodes:
        for name in _makes(node):
            if name in trained:
                line = getattr(node, "lineno", 0)
                made[name] = min(made.get(name, line), line)
    return tuple((line, name) for name, line in made.items())


def _makes(node: ast.AST) -> Iterator[str]:
    """Variables that ``node`` gives what a call makes, not made of themselves."""
    for target, value in _assigned(node):
        parts = list(ast.walk(value))
        used = {ast.unparse(one) for one in parts if isinstance(one, (ast.Name, ast.Attribute))}
        name = ast.unparse(target)
        if name not in used and any(isinstance(one, ast.Call) for one in parts):
            yield name


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each variable of an assignment with its value: ``a, b = x, y`` has two."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value
