"""What changed between two versions of a file, as a structural comparison of their syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from perftui.fixes.source.syntax_tree import syntax_tree


@dataclass(frozen=True)
class KeywordAdded:
    """A keyword that the call beginning at ``line`` did not have."""

    line: int
    name: str
    value: object = None
    """The literal that it has."""
    text: str | None = None
    """The comparison that it has instead, as ``ast.unparse`` writes it."""


@dataclass(frozen=True)
class LiteralReplaced:
    """A literal at ``line`` that has another value."""

    line: int
    before: object
    after: object


@dataclass(frozen=True)
class OtherChange:
    """Anything else."""

    line: int
    what: str


Change = KeywordAdded | LiteralReplaced | OtherChange


def syntax_delta(before: bytes, after: bytes) -> list[Change]:
    """Every change from ``before`` to ``after``; lines are those of ``before``.

    Raises:
        SyntaxError: one of them does not parse.
    """
    return list(_compared(syntax_tree(before), syntax_tree(after), 1))


def _compared(old: Any, new: Any, line: int) -> Iterator[Change]:
    if type(old) is not type(new):
        yield OtherChange(line, f"{type(old).__name__} became {type(new).__name__}")
    elif isinstance(old, ast.Constant):
        yield from _constants(old, new)
    elif isinstance(old, ast.Call):
        yield from _calls(old, new)
    elif isinstance(old, ast.AST):
        line = getattr(old, "lineno", line)
        for name in old._fields:
            yield from _compared(getattr(old, name, None), getattr(new, name, None), line)
    elif isinstance(old, list):
        if len(old) != len(new):
            yield OtherChange(line, f"{len(old)} items became {len(new)}")
        for pair in zip(old, new, strict=False):
            yield from _compared(*pair, line)
    elif old != new:
        yield OtherChange(line, f"{old!r} became {new!r}")


def _constants(old: ast.Constant, new: ast.Constant) -> Iterator[Change]:
    # 1 == True to Python, but not to a reader.
    same = type(old.value) is type(new.value) and old.value == new.value
    if not same:
        yield LiteralReplaced(old.lineno, old.value, new.value)


def _calls(old: ast.Call, new: ast.Call) -> Iterator[Change]:
    """Keywords may have been added; those that were there must be there still, in order."""
    had = {keyword.arg for keyword in old.keywords}
    kept = [keyword for keyword in new.keywords if keyword.arg in had]
    for keyword in new.keywords:
        if keyword.arg not in had:
            yield _added(old.lineno, keyword)
    yield from _compared(old.func, new.func, old.lineno)
    yield from _compared(old.args, new.args, old.lineno)
    yield from _compared(old.keywords, kept, old.lineno)


def _added(line: int, keyword: ast.keyword) -> Change:
    if keyword.arg is not None and isinstance(keyword.value, ast.Constant):
        return KeywordAdded(line, keyword.arg, keyword.value.value)
    if keyword.arg is not None and isinstance(keyword.value, ast.Compare):
        return KeywordAdded(line, keyword.arg, text=ast.unparse(keyword.value))
    return OtherChange(line, f"{ast.unparse(keyword)} was added")
