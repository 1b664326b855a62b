"""Finds in the user's own source what calls an operator, or the model again, by its text.

Samples show more, where there are enough of them. What is found here is the only place that can be
meant: where two fit, none is named.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from perftui.facts.fact import Facts
from perftui.facts.source.lines import LineShare
from perftui.facts.source.source_search import own_files
from perftui.script.program import tree_of
from perftui.script.same_input import second_calls

FITS = 0.5
"""Share of the operators of a turn that the text of a loop has to call, to be that loop."""

FEWEST_NAMES = 2
"""Operators of a turn that the text of a loop has to call at least, but for loops over parameters:
one alone may be in any loop."""

_WEIGHTS = re.compile(r"param|grad|weight|state_dict|buffers")

_LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

_BY_SYNTAX: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Add: ("add",),
    ast.Sub: ("sub", "rsub"),
    ast.Mult: ("mul",),
    ast.Div: ("div", "reciprocal"),
    ast.Pow: ("pow",),
    ast.MatMult: ("matmul",),
    ast.USub: ("neg",),
    ast.Eq: ("eq",),
    ast.NotEq: ("ne",),
    ast.Lt: ("lt", "gt"),
    ast.LtE: ("le", "ge"),
    ast.Gt: ("gt", "lt"),
    ast.GtE: ("ge", "le"),
    ast.Or: ("is_nonzero", "item"),
    ast.And: ("is_nonzero", "item"),
    ast.If: ("is_nonzero", "item"),
    ast.Subscript: ("select", "slice", "index", "narrow"),
}
"""What Python's own syntax calls of torch."""

_PREFIXES = ("linalg_", "native_", "special_", "fft_")


@dataclass(frozen=True)
class _Loop:
    """An innermost loop."""

    line: int
    calls: frozenset[str]
    """Names of operators that its text may call in each turn."""
    indexes: bool
    """Whether the loop takes pieces of something by what it loops over."""
    over_weights: bool
    """Whether the loop goes over parameters, gradients or the like, by their names."""


def call_of(facts: Facts, operator: str) -> LineShare | None:
    """The only line that calls ``operator`` (``aten::topk``) by its name; None where there are
    several or none."""
    name = _name_of(operator)
    found = {
        (str(path), line)
        for path, changed in own_files(facts)
        for called, line in _calls(path, changed)
        if called == name
    }
    return only_line(found)


def loop_of(facts: Facts, operators: Sequence[str], *, pieces: bool = False) -> LineShare | None:
    """The innermost loop whose text calls most of ``operators``, half of them at least; None where
    two do, or none does. With ``pieces`` only loops count that index by what they loop over."""
    wanted = {_name_of(operator) for operator in operators}
    fits = {
        (str(path), loop.line): len(wanted & loop.calls)
        for path, changed in own_files(facts)
        for loop in _loops(path, changed)
        if (loop.indexes or not pieces)
        and len(wanted & loop.calls) >= (1 if loop.over_weights else FEWEST_NAMES)
    }
    most = max(fits.values(), default=0)
    is_that = most >= FITS * len(wanted)
    return only_line({place for place, fit in fits.items() if fit == most}) if is_that else None


def call_repeated(facts: Facts) -> LineShare | None:
    """In the function that runs backward, the second call that is made there with the same
    arguments, or the first behind backward; None where several are repeated, or none is."""
    found = {
        (str(path), line) for path, changed in own_files(facts) for line in _repeated(path, changed)
    }
    return only_line(found)


def same_call(facts: Facts) -> LineShare | None:
    """The second of two calls of a module, or of a method of one, that a step makes with the same
    input before one backward pass; None where there is none, or the same is also called with other
    input: two views of a batch through one encoder are no repetition."""
    return only_line(set(second_calls(own_files(facts))))


def only_line(found: set[tuple[str, int]]) -> LineShare | None:
    """The line that is ``found``, by file and number; None where several are, or none is."""
    if len(found) != 1:
        return None
    file, line = found.pop()
    return LineShare(file, line, "", "", 0)


def _name_of(operator: str) -> str:
    """How Python calls an operator: ``aten::linalg_svdvals`` is called as ``svdvals``."""
    name = operator.removeprefix("aten::").strip("_")
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return "norm" if name == "vector_norm" else name


@lru_cache(maxsize=64)
def _calls(path: Path, changed: int) -> tuple[tuple[str, int], ...]:
    found = (node for node in ast.walk(tree_of(path, changed)) if isinstance(node, ast.Call))
    return tuple((called(node), node.lineno) for node in found)


@lru_cache(maxsize=64)
def _loops(path: Path, changed: int) -> tuple[_Loop, ...]:
    found = []
    for node in ast.walk(tree_of(path, changed)):
        if isinstance(node, _LOOPS):
            inside = list(_turn(node))
            names = frozenset(name for each in inside for name in _names(each))
            if "backward" not in names and not any(isinstance(each, _LOOPS) for each in inside):
                over = " ".join(map(ast.unparse, _over(node)))
                is_over = _WEIGHTS.search(over) is not None
                found.append(_Loop(node.lineno, names, _indexes(node, inside), is_over))
    return tuple(found)


@lru_cache(maxsize=64)
def _repeated(path: Path, changed: int) -> tuple[int, ...]:
    tree = tree_of(path, changed)
    scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, _SCOPES))]
    return tuple(line for scope in scopes for line in _repeated_in(scope))


def _repeated_in(scope: ast.AST) -> Iterator[int]:
    calls = sorted(
        (node for node in _own(scope) if isinstance(node, ast.Call)),
        key=lambda node: (node.lineno, node.col_offset),
    )
    back = [node for node in calls if called(node) == "backward"]
    if len(back) != 1:
        return
    loss, line = ast.unparse(back[0].func).removesuffix(".backward"), back[0].lineno
    alike: dict[str, list[int]] = {}
    for node in calls:
        if _may_be_model(node) and loss not in map(ast.unparse, node.args):
            alike.setdefault(ast.unparse(node), []).append(node.lineno)
    for lines in alike.values():
        if len(lines) > 1 and lines[0] < line:
            yield next((one for one in lines if one > line), lines[1])


def _may_be_model(call: ast.Call) -> bool:
    """Whether ``call`` is of a name, or an attribute of ``self``, with nothing but variables."""
    named, given = call.func, call.args
    of_self = isinstance(named, ast.Attribute) and isinstance(named.value, ast.Name)
    is_name = isinstance(named, ast.Name) and not hasattr(builtins, named.id)
    is_own = is_name or (of_self and ast.unparse(named).startswith("self."))
    plain = (ast.Name, ast.Attribute, ast.Subscript, ast.Starred)
    return is_own and bool(given) and all(isinstance(one, plain) for one in given)


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Nodes of ``scope`` without those of functions and classes defined in it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if not isinstance(node, _SCOPES):
            yield node
            waiting += ast.iter_child_nodes(node)


def called(call: ast.Call) -> str:
    """Name of the function or method that is called, without underscores around it."""
    named = call.func
    name = named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
    return str(name).strip("_")


def _names(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Call):
        return (called(node),)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return ("select", "slice", "index_put", "copy", "fill")
    return _BY_SYNTAX.get(type(node), ())


def _turn(loop: ast.AST) -> Iterator[ast.AST]:
    """Nodes of what is done in each turn of ``loop``."""
    for name in ("body", "elt", "key", "value"):
        part = getattr(loop, name, None) or []
        for each in part if isinstance(part, list) else [part]:
            yield from ast.walk(each)


def _over(loop: ast.AST) -> list[ast.expr]:
    """What ``loop`` goes over."""
    made = [one.iter for one in getattr(loop, "generators", [])]
    return [*made, *([loop.iter] if isinstance(loop, ast.For) else [])]


def _indexes(loop: ast.AST, inside: Sequence[ast.AST]) -> bool:
    made = [one.target for one in getattr(loop, "generators", [])]
    targets = [*made, *([loop.target] if isinstance(loop, ast.For) else [])]
    bound = {each.id for one in targets for each in ast.walk(one) if isinstance(each, ast.Name)}
    return any(
        isinstance(each, ast.Subscript)
        and any(isinstance(one, ast.Name) and one.id in bound for one in ast.walk(each.slice))
        for each in inside
    )
