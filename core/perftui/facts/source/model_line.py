"""The line that makes the model: the place of what is decided once for all of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from perftui.facts.fact import Facts, fact
from perftui.facts.place import Place
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import text_of
from perftui.facts.source.source_search import own_files, tree_of

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
