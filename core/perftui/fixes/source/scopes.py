"""Which assignment a name refers to, by Python's rules of scopes."""

from __future__ import annotations

import ast

from perftui.fixes.source.program import Program


def bindings_of(program: Program, name: ast.Name) -> list[ast.AST]:
    """What gives ``name`` a value in the scope that it is read from."""
    everywhere = program.bindings(name.id)
    if _is_handed_between(program, name.id):
        return everywhere
    for scope in _scopes(program, name):
        own = [node for node in everywhere if program.scope(node) is scope]
        if own:
            return own
    return []


def readers_of(program: Program, name: ast.Name) -> list[ast.Name]:
    """All that read what ``name`` reads, itself among them."""
    own = bindings_of(program, name)
    return [load for load in program.loads(name.id) if bindings_of(program, load) == own]


def may_be_replaced(program: Program, binding: ast.AST) -> bool:
    """Whether what is set at module level may be set anew by what the syntax does not show."""
    if not isinstance(program.scope(binding), ast.Module):
        return False
    line = getattr(binding, "lineno", 0)
    later = (
        node.lineno > line
        for node in program.statements()
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
    )
    if any(later) or program.calls("exec", "globals"):
        return True
    # Of a module it is `sys.modules[...]` that is handed to setattr, or a name that holds it.
    targets = [call.args[0] for call in program.calls("setattr") if call.args]
    return any(isinstance(target, (ast.Subscript, ast.Call)) for target in targets)


def _scopes(program: Program, name: ast.Name) -> list[ast.AST]:
    """Scopes whose names ``name`` sees, innermost first; of a class only from right within it."""
    inner = program.scope(name)
    found = [inner]
    while not isinstance(inner, ast.Module):
        inner = program.scope(inner)
        if not isinstance(inner, ast.ClassDef):
            found.append(inner)
    return found


def _is_handed_between(program: Program, name: str) -> bool:
    return any(
        isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names
        for node in program.statements()
    )
