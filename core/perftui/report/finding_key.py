"""A name for a finding that stays the same from run to run."""

from __future__ import annotations

import ast
from hashlib import sha256
from pathlib import Path

from perftui.diagnosis.model import Finding
from perftui.facts.source.source_search import LARGEST
from perftui.script.program import tree_of

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


LONGEST = 100
"""Letters of a key: names of kernels have hundreds."""


def finding_key(finding: Finding) -> str:
    """``rule@file:function``: the same for one cause in every run, however its lines have moved.

    Where the source is not to be read here the function is left out; a finding without a line is
    named by its operator or kernel, or by its rule alone. The end of a long one is a digest.
    """
    key = _key(finding)
    if len(key) <= LONGEST:
        return key
    return f"{key[:LONGEST]}~{sha256(key.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _key(finding: Finding) -> str:
    place = finding.place
    if place is None or not (place.file or place.operator):
        return finding.rule
    if place.file is None:
        return f"{finding.rule}@{place.operator}"
    function = function_at(place.file, place.line) if place.line else ""
    return f"{finding.rule}@{Path(place.file).name}{function and ':'}{function}"
