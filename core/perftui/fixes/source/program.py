"""A source file as a syntax tree that can be asked about names, scopes and parents."""

from __future__ import annotations

import ast
import gc
import io
import re
import threading
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from perftui.fixes.source.edits import Decided, PatchRefusedError, Span, literal_value

_PARSING = threading.Lock()
_NAMED = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler),
    *(ast.MatchAs, ast.MatchStar),
)
"""What gives a value to its own ``name``, where it has one."""
_SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True, eq=False)
class Program:
    """One parsed source file."""

    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(repr=False)
    lines: tuple[str, ...] = field(repr=False)
    """Decoded, without their ends."""

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """Where ``node`` begins and ends; ``ast`` counts columns in UTF-8 bytes."""
        end, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return (
            *(node.lineno, self._characters(node.lineno, node.col_offset)),
            *(end, self._characters(end, end_column)),
        )

    def literal(self, node: ast.expr) -> Decided:
        """The literal ``node``, as what decides a value."""
        span = self.span(node)
        written = self.lines[span[0] - 1][span[1] :]
        quote = next((mark for mark in written if mark in "'\""), '"')
        return Decided(literal_value(node), span, quote=quote)

    def _characters(self, line: int, column: int) -> int:
        return len(self.lines[line - 1].encode()[:column].decode())

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parents of ``node``, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def scope(self, node: ast.AST) -> ast.AST:
        """The function, class or module whose body holds ``node``."""
        return next(above for above in self.ancestors(node) if isinstance(above, _SCOPES))

    def statements(self) -> list[ast.stmt]:
        """Every statement of the file."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt)]

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which ``statement`` stands."""
        fields = (value for _, value in ast.iter_fields(self.parents[statement]))
        return next(value for value in fields if isinstance(value, list) and statement in value)

    def bindings(self, name: str) -> list[ast.AST]:
        """Every node in the file, in any scope, that gives ``name`` a value."""
        return [node for node in ast.walk(self.tree) if name == bound_name(node)]

    def loads(self, name: str) -> list[ast.Name]:
        """Every use of ``name`` in the file."""
        return [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        ]

    def calls(self, *names: str) -> list[ast.Call]:
        """Calls of a plain name or a method among ``names``, all where there is none."""
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return [call for call in calls if not names or called_name(call) in names]


def parse_program(source: bytes) -> Program:
    """Parse ``source``.

    Raises:
        PatchRefusedError: it is not Python that this interpreter can read.
    """
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError) as error:
        raise PatchRefusedError(f"the file does not parse: {error}") from error
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    # Python ends lines at these only; str.splitlines would also end them at a form feed.
    lines = re.split("\r\n|\r|\n", source.decode(encoding))
    return Program(tree, above, tuple(lines))


def syntax_tree(source: bytes) -> ast.Module:
    """The syntax tree of ``source``.

    Some releases of Python count the depth of every tree that is being made in one place
    (python/cpython#106905): where a garbage collection lets another thread parse in between, either
    ends in a SystemError. On 3.11.7 that befell 141 of 800 parses on two threads, and none with
    the collector paused.

    Raises:
        SyntaxError: it is not Python that this interpreter can read.
        ValueError: it holds a null byte.
    """
    with _PARSING:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(source)
        finally:
            if was_enabled:
                gc.enable()


def read_source(path: Path) -> bytes:
    """The bytes of a source file.

    Raises:
        PatchRefusedError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise PatchRefusedError(f"{path} cannot be read: {error.strerror}") from error


def called_name(call: ast.Call) -> str:
    """The last part of what is called: ``add_argument`` of ``parser.add_argument``."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def assigned_value(program: Program, target: ast.AST) -> ast.expr | None:
    """The value of ``target = value``, where ``target`` is the only one; else None."""
    statement = program.parents.get(target)
    if isinstance(statement, ast.Assign) and statement.targets == [target]:
        return statement.value
    if isinstance(statement, ast.AnnAssign) and statement.target is target:
        return statement.value
    return None


def bound_name(node: ast.AST) -> str | None:
    """The name that ``node`` binds by itself, its children left out."""
    if isinstance(node, ast.Name):
        return None if isinstance(node.ctx, ast.Load) else node.id
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.alias):
        return node.asname or node.name.split(".")[0]
    if isinstance(node, ast.MatchMapping):
        return node.rest
    return node.name if isinstance(node, _NAMED) else None
