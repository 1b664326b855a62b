"""In which function a line of source stands."""

from __future__ import annotations

import ast
from pathlib import Path

from perftui.facts.source.source_search import LARGEST, tree_of

MODULE = "<module>"
"""What Python calls the code of a file outside functions."""

_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def function_at(file: str, line: int) -> str:
    """``Images.__getitem__`` or ``<module>``; empty where the file cannot be read here."""
    path = Path(file)
    try:
        known = path.stat()
        if path.suffix != ".py" or not path.is_file() or known.st_size > LARGEST:
            return ""
    except (OSError, ValueError):
        return ""
    tree = tree_of(path, known.st_mtime_ns)
    return ".".join(_names(tree, line)) or MODULE if getattr(tree, "body", None) else ""


def _names(node: ast.AST, line: int) -> list[str]:
    for child in ast.iter_child_nodes(node):
        first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if first is None or last is None or not first <= line <= last:
            # What has no lines of its own, as the arguments of a function, holds no function.
            continue
        inner = _names(child, line)
        return [child.name, *inner] if isinstance(child, _NAMED) else inner
    return []
