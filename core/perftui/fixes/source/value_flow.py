"""Whether a value that some statements give a name may be what is read elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perftui.fixes.source.names import certainly_binds
from perftui.fixes.source.program import Loop, Program
from perftui.fixes.source.scopes import bindings_of

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def names_bound(program: Program, statement: ast.stmt) -> set[str]:
    """Names that ``statement`` gives a value in its own scope."""
    own = program.scope(statement)
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name)
        and not isinstance(node.ctx, ast.Load)
        and program.scope(node) is own
        and not _is_of_comprehension(program, node)
    }


def later_reads(program: Program, statement: ast.stmt, name: str) -> Iterator[ast.Name]:
    """What reads outside of ``statement`` the value that this may have given ``name``."""
    inside = set(ast.walk(statement))
    # `total += x` reads what it adds to, which the syntax tree does not show as a read.
    added = (node.target for node in program.statements() if isinstance(node, ast.AugAssign))
    onto = (node for node in added if isinstance(node, ast.Name) and node.id == name)
    for use in (*program.loads(name), *onto):
        if use in inside or not inside.intersection(bindings_of(program, use)):
            continue
        if not _is_of_comprehension(program, use, name) and not _is_set_anew(
            program, statement, use
        ):
            yield use


def _is_of_comprehension(program: Program, node: ast.Name, name: str = "") -> bool:
    """Whether a comprehension around ``node`` has that name for itself."""
    for above in program.ancestors(node):
        if isinstance(above, ast.stmt):
            return False
        if isinstance(above, _COMPREHENSIONS):
            own = (n for gen in above.generators for n in ast.walk(gen.target))
            if any(isinstance(one, ast.Name) and one.id == (name or node.id) for one in own):
                return True
    return False


def _is_set_anew(program: Program, statement: ast.stmt, use: ast.Name) -> bool:
    """Whether on each way from ``statement`` to ``use`` the name gets another value."""
    if program.scope(use) is not program.scope(statement):
        return False
    loops = [one for one in program.ancestors(use) if isinstance(one, Loop)]
    around = set(program.ancestors(statement))
    shared = next((loop for loop in loops if loop in around), None)
    for setting in _settings(program, use):
        if _place(statement) < _place(setting):
            return True
        is_later = _place(statement) > _place(use)
        within = setting is shared or shared in set(program.ancestors(setting))
        if is_later and (shared is None or within):
            return True
    return False


def _settings(program: Program, use: ast.Name) -> Iterator[ast.stmt]:
    """Statements that certainly give the name a value before ``use`` runs, each time it does."""
    inner: ast.AST = use
    for above in program.ancestors(use):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            break
        if isinstance(inner, ast.stmt):
            fields = (block for _, block in ast.iter_fields(above) if isinstance(block, list))
            block = next((block for block in fields if inner in block), [inner])
            for before in block[: block.index(inner)]:
                if _sets(before, use.id):
                    yield before
        if isinstance(above, (ast.With, ast.AsyncWith)) and _sets(above, use.id):
            yield above
        if isinstance(above, (ast.For, ast.AsyncFor)) and inner in above.body:
            targets = (node for node in ast.walk(above.target) if isinstance(node, ast.Name))
            yield from (above for node in targets if node.id == use.id)
        inner = above


def _sets(statement: ast.stmt, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in certainly_binds(statement)
    )


def _place(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
