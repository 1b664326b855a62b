"""What the file sets an attribute to, where it does so once."""

from __future__ import annotations

import ast

from perftui.fixes.source.namespaces import is_set
from perftui.fixes.source.program import Program, assigned_value
from perftui.fixes.source.readers import attributes
from perftui.fixes.source.scopes import bindings_of


def stored(program: Program, value: ast.Attribute) -> ast.expr | None:
    """What the file sets the attribute ``value`` to: once, by ``self.x = ...`` in a method or by
    ``x = ...`` in the body of its class; None where that is not certain."""
    if not isinstance(value.value, ast.Name) or _is_set_unseen(program):
        return None
    stores = attributes(program, value.attr, ast.Store)
    in_classes = [
        node
        for node in program.bindings(value.attr)
        if isinstance(program.scope(node), ast.ClassDef)
    ]
    if value.value.id == "self" and len(stores) == 1 and not in_classes:
        is_own = ast.unparse(stores[0].value) == "self"
        is_same = _class_around(program, stores[0]) is _class_around(program, value)
        return assigned_value(program, stores[0]) if is_own and is_same else None
    if len(in_classes) != 1 or is_set(program, value.attr):
        return None
    owner = program.scope(in_classes[0])
    is_own = _is_of(program, value, value.value, owner)
    return assigned_value(program, in_classes[0]) if is_own else None


def _is_set_unseen(program: Program) -> bool:
    """Whether attributes of some object may be set by computed names."""
    named = (
        len(call.args) > 1 and isinstance(call.args[1], ast.Constant)
        for call in program.calls("setattr")
    )
    return not all(named) or bool(attributes(program, "__dict__", ast.Load))


def _class_around(program: Program, node: ast.AST) -> ast.AST | None:
    return next((one for one in program.ancestors(node) if isinstance(one, ast.ClassDef)), None)


def _is_of(program: Program, value: ast.Attribute, of: ast.Name, owner: ast.AST) -> bool:
    """Whether ``value`` is read from the class ``owner``, or from what ``owner()`` has made."""
    if not isinstance(owner, ast.ClassDef) or owner.decorator_list:
        return False
    if of.id == "self":
        return _class_around(program, value) is owner
    bindings = bindings_of(program, of)
    made = assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    if isinstance(made, ast.Call) and isinstance(made.func, ast.Name):
        is_plain = not made.args and not made.keywords
        return is_plain and bindings_of(program, made.func) == [owner]
    return bindings == [owner]
