"""Whether a backward pass may go through what some statements compute."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from perftui.fixes.source.callers import calls_of
from perftui.fixes.source.program import Function, PatchRefusedError, Program, called_name
from perftui.fixes.source.training_calls import trains
from perftui.fixes.source.value_flow import later_reads, names_bound

_DIFFERENTIATES = re.compile(
    r"^(backward|grad|vjp|jacobian)$|(^|_)(train|fit|backward|optimi[sz]e)"
)
_KEEPS = frozenset({"append", "extend", "add", "update", "insert", "put", "setdefault", "add_"})
_PLAIN = frozenset(
    {
        *("item", "tolist", "detach", "float", "int", "len", "print", "str", "numpy", "bool"),
        *("argmax", "eq", "ne", "ge", "gt", "le", "lt", "round", "format", "accuracy", "bincount"),
    }
)
"""Calls whose results have no gradients, whatever they are given."""
_DEEPEST = 2
_TURNS = 200
"""Statements that are looked at; a longer way is taken to end in a backward pass."""


def refuse_differentiated(program: Program, statement: ast.stmt, depth: int = _DEEPEST) -> None:
    """Nothing where no backward pass of the file goes through what ``statement`` gives a value.

    Raises:
        PatchRefusedError: one may do.
    """
    todo: list[tuple[ast.stmt, str]] = [(statement, one) for one in _kept(program, statement)]
    seen = set(todo)
    while todo:
        source, name = todo.pop()
        for use in _reads(program, source, name):
            around = next(one for one in program.ancestors(use) if isinstance(one, ast.stmt))
            if _is_differentiated(program, use) or len(seen) > _TURNS:
                raise PatchRefusedError(
                    f"line {use.lineno} may run backward through {name}, which the loop sets"
                )
            if _is_plain(program, use):
                continue
            if isinstance(around, ast.Return):
                _refuse_returned(program, around, depth)
            for kept in _kept(program, around) if not _is_block(around) else ():
                if (around, kept) not in seen:
                    seen.add((around, kept))
                    todo.append((around, kept))


def _kept(program: Program, statement: ast.stmt) -> Iterator[str]:
    """Names that ``statement`` sets, or whose objects it adds something to."""
    yield from names_bound(program, statement)
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and called_name(node) in _KEEPS:
            node = node.func
        elif not isinstance(getattr(node, "ctx", None), ast.Store) or isinstance(node, ast.Name):
            continue
        root = node
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if isinstance(root, ast.Name) and root.id != "self":
            yield root.id
        elif isinstance(node, ast.Attribute):
            yield f".{node.attr}"


def _reads(program: Program, source: ast.stmt, name: str) -> Iterator[ast.expr]:
    """What reads ``name``, or of ``.name`` any attribute of that name, outside of ``source``."""
    inside = set(ast.walk(source))
    if name.startswith("."):
        for node in program.nodes:
            is_read = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
            if is_read and node.attr == name[1:] and node not in inside:  # type: ignore[attr-defined]
                yield node  # type: ignore[misc]
    elif name in names_bound(program, source):
        yield from later_reads(program, source, name)
    else:
        # What was added to is read by the same name wherever it is.
        yield from (use for use in program.loads(name) if use not in inside)


def _is_differentiated(program: Program, use: ast.expr) -> bool:
    """Whether ``use`` is what ``backward`` is called of, or given to what trains."""
    for above in program.ancestors(use):
        if isinstance(above, ast.stmt):
            return False
        if isinstance(above, ast.Call):
            name = called_name(above)
            own = program.own_functions(above) if name != "step" else ()
            if _DIFFERENTIATES.search(name) or any(trains(program, one) for one in own):
                return True
            if name in _PLAIN:
                return False
    return False


def _is_plain(program: Program, use: ast.expr) -> bool:
    """Whether what is read ends in a call without gradients, or in a comparison."""
    for above in program.ancestors(use):
        if isinstance(above, ast.stmt):
            # A condition hands nothing on, and neither does a call whose result is dropped.
            return isinstance(above, (ast.If, ast.While, ast.Assert))
        if isinstance(above, ast.Call) and called_name(above) in _PLAIN:
            return True
        if isinstance(above, (ast.Compare, ast.JoinedStr)):
            return True
    return False


def _is_block(statement: ast.stmt) -> bool:
    return isinstance(getattr(statement, "body", None), list) and not isinstance(
        statement, (ast.For, ast.AsyncFor, ast.With, ast.AsyncWith)
    )


def _refuse_returned(program: Program, statement: ast.Return, depth: int) -> None:
    """Nothing where no caller in the file goes backward through the result."""
    function = next(
        (one for one in program.ancestors(statement) if isinstance(one, Function)), None
    )
    calls = calls_of(program, function) if function else None
    if function is None or function.name == "forward":
        raise PatchRefusedError(f"line {statement.lineno} returns what the loop computes")
    for call in calls if calls is not None else program.calls(function.name):
        around = next(one for one in program.ancestors(call) if isinstance(one, ast.stmt))
        is_kept = not _is_plain(program, call) and not isinstance(around, ast.Expr)
        if _is_differentiated(program, call) or (is_kept and not depth):
            raise PatchRefusedError(f"line {call.lineno} may run backward through the result")
        if is_kept and isinstance(around, ast.Return):
            _refuse_returned(program, around, depth - 1)
        elif is_kept:
            refuse_differentiated(program, around, depth - 1)
