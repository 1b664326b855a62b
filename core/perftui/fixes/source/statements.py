"""Plans lines that are inserted or taken out, and blocks that are put under a header."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from perftui.fixes.source.edits import InsertLine, RemoveStatement, ReplaceStatement, WrapBlock
from perftui.fixes.source.names import refuse_unbound
from perftui.fixes.source.program import PatchRefusedError, Program

_IMPORTS = (ast.Import, ast.ImportFrom)
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_AFTER_HEAD = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith),
)
"""Statements after which imports are no longer those at the top of the file."""


def insert_after(program: Program, line: int, text: str) -> InsertLine:
    """``text``, one line, after the statement at ``line`` and what else stands on its last line.

    Raises:
        PatchRefusedError: there is no such statement, the new line would not run, or a name that
            it reads may have no value there.
    """
    around = [node for node in program.statements() if _start(node) <= line <= _end(node)]
    if not around:
        raise PatchRefusedError(f"there is no statement at line {line}")
    statement = max(around, key=lambda node: (node.lineno, -node.col_offset, node.end_lineno))
    body = getattr(statement, "body", [])
    if body and line >= _start(body[0]):
        raise PatchRefusedError(f"line {line} is inside a statement of several parts")
    return _inserted(program, statement, text)


def insert_before(
    program: Program, statement: ast.stmt, text: str, known: Collection[str] = ()
) -> InsertLine:
    """``text``, one line, before ``statement``; names in ``known`` are defined by another edit.

    Raises:
        PatchRefusedError: the statement does not begin its line, or a name that ``text`` reads may
            have no value there.
    """
    if _chain(program, statement)[0] is not statement:
        raise PatchRefusedError(f"line {statement.lineno} begins with another statement")
    refuse_unbound(program, statement, text, before=True, known=known)
    return InsertLine(program.span(statement), text, before=True)


def insert_behind(
    program: Program, statement: ast.stmt, text: str, known: Collection[str] = ()
) -> InsertLine:
    """``text``, one line, behind ``statement``; names in ``known`` are defined by another edit.

    Raises:
        PatchRefusedError: the line would not run, or a name that it reads may have no value there.
    """
    return _inserted(program, statement, text, known)


def insert_after_imports(program: Program, text: str) -> InsertLine:
    """``text``, one line, after the last of the imports at the top of the file.

    Raises:
        PatchRefusedError: there are none, or a name that ``text`` reads may have no value there.
    """
    body = program.tree.body
    head = next((at for at, node in enumerate(body) if isinstance(node, _AFTER_HEAD)), len(body))
    imports = [node for node in body[:head] if isinstance(node, _IMPORTS)]
    if not imports:
        raise PatchRefusedError("the file has no imports at its top")
    return _inserted(program, imports[-1], text)


def wrap(program: Program, first: int, last: int, header: str) -> WrapBlock:
    """The statements that fill the lines from ``first`` to ``last``, under ``header:``.

    Raises:
        PatchRefusedError: the lines hold other than whole statements of one block, these mean
            something else in a block, or a name in ``header`` may have no value before.
    """
    lines = f"lines {first} to {last}"
    inside = [n for n in program.statements() if first <= _start(n) and _end(n) <= last]
    outer = [node for node in inside if not set(program.ancestors(node)) & set(inside)]
    blocks = [program.block(node) for node in outer]
    if not outer or any(block is not blocks[0] for block in blocks):
        raise PatchRefusedError(f"{lines} are not statements of one block")
    if _start(outer[0]) != first or _end(outer[-1]) != last:
        raise PatchRefusedError(f"{lines} begin or end within a statement")
    ending = _chain(program, outer[-1])
    if _chain(program, outer[0])[0] is not outer[0] or ending[-1] is not outer[-1]:
        raise PatchRefusedError(f"{lines} begin or end within a line of several statements")
    _refuse_unlike(program, outer)
    refuse_unbound(program, outer[0], f"{header}: pass", before=True)
    return WrapBlock(program.span(outer[0]), program.span(ending[0]), header)


def remove(program: Program, statement: ast.stmt) -> RemoveStatement:
    """``statement`` taken out.

    Raises:
        PatchRefusedError: it shares its line with others.
    """
    if len(_chain(program, statement)) > 1:
        raise PatchRefusedError(f"line {statement.lineno} holds several statements")
    return RemoveStatement(program.span(statement))


def replace_statement(program: Program, statement: ast.stmt, text: str) -> ReplaceStatement:
    """The statements of ``text`` in place of ``statement``, with the comments on its lines.

    Raises:
        PatchRefusedError: it shares its line with others.
    """
    if len(_chain(program, statement)) > 1:
        raise PatchRefusedError(f"line {statement.lineno} holds several statements")
    said = program.comments(statement.lineno, _end(statement))
    kept = " ".join(dict.fromkeys(re.findall(r"#[^#]*[^#\s]", said)))
    first, *others = text.split("\n")
    first = f"{first}  {kept}" if kept else first
    return ReplaceStatement(program.span(statement), "\n".join((first, *others)))


def _inserted(
    program: Program, statement: ast.stmt, text: str, known: Collection[str] = ()
) -> InsertLine:
    chain = _chain(program, statement)
    last, after = chain[-1], program.block(statement)
    if isinstance(last, _LEAVING):
        raise PatchRefusedError(f"nothing after line {last.end_lineno} runs")
    if any(_is_future(node) for node in after[after.index(last) + 1 :]):
        raise PatchRefusedError("nothing may come before an import from __future__")
    refuse_unbound(program, last, text, known=known)
    return InsertLine(program.span(chain[0]), text)


def _chain(program: Program, statement: ast.stmt) -> list[ast.stmt]:
    """``statement`` and those that stand on the same lines, between semicolons.

    Raises:
        PatchRefusedError: they stand behind a colon, such as that of an ``if``.
    """
    block = program.block(statement)
    begin = end = block.index(statement)
    while begin and _end(block[begin - 1]) == block[begin].lineno:
        begin -= 1
    while end + 1 < len(block) and _end(block[end]) == block[end + 1].lineno:
        end += 1
    line, column = program.span(block[begin])[:2]
    if program.lines[line - 1][:column].strip(" \t\f\ufeff"):
        raise PatchRefusedError(f"the statement at line {line} does not begin its line")
    return block[begin : end + 1]


def _refuse_unlike(program: Program, statements: list[ast.stmt]) -> None:
    if any(map(_is_future, statements)):
        raise PatchRefusedError("an import from __future__ cannot be moved")
    parent = program.parents[statements[0]]
    if not isinstance(parent, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    if statements[0] is parent.body[0] and ast.get_docstring(parent, clean=False) is not None:
        raise PatchRefusedError("a docstring cannot be moved")


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _start(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
