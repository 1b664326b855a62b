"""Functions and classes of the user's own source, by name."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Definition:
    """A function of the user's own, with what the names around it are."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    file: str
    around: dict[str, str] = field(default_factory=dict, hash=False, compare=False)


@dataclass(frozen=True)
class Definitions:
    """Functions and the methods of classes, by name; those of names given twice are left out."""

    functions: dict[str, Definition]
    classes: dict[str, dict[str, Definition]]


def definitions(trees: Iterable[tuple[str, ast.AST]]) -> Definitions:
    """What is defined at the top of these files."""
    functions: dict[str, list[Definition]] = {}
    classes: dict[str, list[dict[str, Definition]]] = {}
    for file, tree in trees:
        for node in getattr(tree, "body", []):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                functions.setdefault(node.name, []).append(Definition(node, file))
            elif isinstance(node, ast.ClassDef):
                methods = (one for one in node.body if isinstance(one, ast.FunctionDef))
                plain = {one.name: Definition(one, file) for one in methods if is_plain(one)}
                classes.setdefault(node.name, []).append(plain)
    return Definitions(
        {
            name: one[0]
            for name, one in functions.items()
            if len(one) == 1 and is_plain(one[0].node)
        },
        {name: one[0] for name, one in classes.items() if len(one) == 1},
    )


def is_plain(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a call does what its text says: neither a generator nor wrapped."""
    yields = (isinstance(one, (ast.Yield, ast.YieldFrom)) for one in ast.walk(node))
    return not node.decorator_list and not any(yields)
