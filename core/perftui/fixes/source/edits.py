"""Edits planned for a source file; ``patching`` makes and proves them."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from perftui.script.names import refuse_unbound
from perftui.script.program import (
    Decided,
    Literal,
    NothingToChangeError,
    PatchRefusedError,
    Program,
    Span,
)
from perftui.script.steps import Every
from perftui.script.training import step_loop, training_loop

_Place = TypeVar("_Place")


@dataclass(frozen=True)
class _At:
    at: Span
    """The expression or statement that is changed, the first one of several."""


@dataclass(frozen=True)
class AddKeyword(_At):
    """A keyword after the last argument of a call, before any ``**`` of it."""

    name: str
    text: str
    """The expression that is passed."""


@dataclass(frozen=True)
class RemoveKeyword(_At):
    """A keyword taken out of a call."""

    name: str


@dataclass(frozen=True)
class ReplaceExpression(_At):
    """Another expression in place of one; brackets around it stay."""

    text: str


@dataclass(frozen=True)
class ReplaceLiteral(ReplaceExpression):
    """Another literal in place of one."""


@dataclass(frozen=True)
class RemoveStatement(_At):
    """A statement taken out with its line; ``pass`` stands there where its block has no other."""


@dataclass(frozen=True)
class ReplaceStatement(_At):
    """Other statements in place of one; comments above it stay."""

    text: str
    """The statements, at no indentation."""


@dataclass(frozen=True)
class InsertLine(_At):
    """A line of its own behind the line on which a statement ends."""

    text: str
    before: bool = False
    """Whether it comes before the statement, and before comments that stand above that."""


@dataclass(frozen=True)
class WrapBlock(_At):
    """Statements of one block put under ``header:``, a ``with`` or an ``if``."""

    last: Span
    """The last of them; of several on one line the first, which stands for all of these."""
    header: str


Edit = (
    AddKeyword
    | RemoveKeyword
    | ReplaceExpression
    | RemoveStatement
    | ReplaceStatement
    | InsertLine
    | WrapBlock
)


def from_the_end(edits: Iterable[Edit]) -> list[Edit]:
    """``edits`` from the end of the file on, so that each leaves the places of the next ones valid;
    at one statement first what comes behind it."""

    def place(edit: Edit) -> tuple[Span, bool]:
        return edit.at, not (isinstance(edit, InsertLine) and edit.before)

    return sorted(edits, key=place, reverse=True)


def literal_text(value: Literal, quote: str = '"') -> str:
    """``value`` as Python writes it, a string in ``quote`` where that needs no escapes; refused
    where it is infinite or no number, which no literal is."""
    if isinstance(value, float) and not math.isfinite(value):
        raise PatchRefusedError(f"{value} cannot be written as a literal")
    text = repr(value)
    if isinstance(value, str) and "'" not in value and '"' not in value:
        return f"{quote}{text[1:-1]}{quote}"
    return text


def edit_of(now: Decided, value: Literal) -> Edit:
    """The edit after which what ``now`` decides is ``value``."""
    text = literal_text(value, now.quote)
    if now.keyword is None:
        return ReplaceLiteral(now.place, text)
    return AddKeyword(now.place, now.keyword, text)


_AFTER_HEAD = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith),
)
"""Statements after which imports are no longer those at the top of the file."""


def edits_at(
    places: Iterable[_Place], edits_of: Callable[[_Place], Iterable[Edit]], nothing: str
) -> list[Edit]:
    """The edits of all ``places`` that can certainly be changed; refused if none can, for the first
    reason, or because the file has ``nothing`` of the kind."""
    refusals: list[PatchRefusedError] = []

    def certain(place: _Place) -> list[Edit]:
        try:
            return [*edits_of(place)]
        except PatchRefusedError as refusal:
            refusals.append(refusal)
            return []

    edits = [edit for place in places for edit in certain(place)]
    if not edits:
        raise refusals[0] if refusals else NothingToChangeError(nothing)
    return edits


def insert_before(
    program: Program, statement: ast.stmt, text: str, known: Collection[str] = ()
) -> InsertLine:
    """``text``, one line, before ``statement``; names in ``known`` are defined by another edit;
    refused where the statement does not begin its line, or a name that ``text`` reads may have no
    value there."""
    if _chain(program, statement)[0] is not statement:
        raise PatchRefusedError(f"line {statement.lineno} begins with another statement")
    refuse_unbound(program, statement, text, before=True, known=known)
    return InsertLine(program.span(statement), text, before=True)


def insert_before_training(program: Program, model: str, text: str) -> InsertLine:
    """``text``, one line about ``model``, before the outermost loop that trains it; refused where
    the model may go by another name there, or a name in ``text`` may have no value."""
    loop = training_loop(program)
    if program.scope(loop) is not program.scope(step_loop(program)):
        calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
        passed = (value for call in calls for value in call.args)
        if not any(isinstance(value, ast.Name) and value.id == model for value in passed):
            raise PatchRefusedError(f"{model} may go by another name before the training")
    return insert_before(program, loop, text)


def insert_behind(
    program: Program, statement: ast.stmt, text: str, known: Collection[str] = ()
) -> InsertLine:
    """``text``, one line, behind ``statement``; names in ``known`` are defined by another edit;
    refused where the line would not run, or a name that it reads may have no value there."""
    chain = _chain(program, statement)
    last, after = chain[-1], program.block(statement)
    if isinstance(last, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
        raise PatchRefusedError(f"nothing after line {last.end_lineno} runs")
    if any(_is_future(node) for node in after[after.index(last) + 1 :]):
        raise PatchRefusedError("nothing may come before an import from __future__")
    refuse_unbound(program, last, text, known=known)
    return InsertLine(program.span(chain[0]), text)


def insert_after_imports(program: Program, text: str) -> InsertLine:
    """``text``, one line, after the last of the imports at the top of the file; refused where there
    are none, or a name that ``text`` reads may have no value there."""
    body = program.tree.body
    head = next((at for at, node in enumerate(body) if isinstance(node, _AFTER_HEAD)), len(body))
    imports = [node for node in body[:head] if isinstance(node, (ast.Import, ast.ImportFrom))]
    if not imports:
        raise PatchRefusedError("the file has no imports at its top")
    return insert_behind(program, imports[-1], text)


def wrap(program: Program, first: ast.stmt, last: ast.stmt, header: str) -> WrapBlock:
    """The statements of one block from ``first`` to ``last`` under ``header:``; refused where they
    share a line with others, mean something else in a block, or a name in ``header`` may have no
    value before."""
    ending = _chain(program, last)
    if _chain(program, first)[0] is not first or ending[-1] is not last:
        lines = f"lines {first.lineno} to {last_line(last)}"
        raise PatchRefusedError(f"{lines} begin or end within a line of several statements")
    block = program.block(first)
    _refuse_unlike(program, block[block.index(first) : block.index(last) + 1])
    refuse_unbound(program, first, f"{header}: pass", before=True)
    return WrapBlock(program.span(first), program.span(ending[0]), header)


def remove(program: Program, statement: ast.stmt) -> RemoveStatement:
    """``statement`` taken out; refused where it shares its line with others."""
    if len(_chain(program, statement)) > 1:
        raise PatchRefusedError(f"line {statement.lineno} holds several statements")
    return RemoveStatement(program.span(statement))


def replace_statement(program: Program, statement: ast.stmt, text: str) -> ReplaceStatement:
    """The statements of ``text`` in place of ``statement``, with the comments on its lines; refused
    where it shares its line with others."""
    if len(_chain(program, statement)) > 1:
        raise PatchRefusedError(f"line {statement.lineno} holds several statements")
    comments = program.comments(statement.lineno, last_line(statement))
    comment = " ".join(dict.fromkeys(re.findall(r"#[^#]*[^#\s]", comments)))
    first, *others = text.split("\n")
    first = f"{first}  {comment}" if comment else first
    return ReplaceStatement(program.span(statement), "\n".join((first, *others)))


def line_end(body: Sequence[ast.stmt], at: int) -> int:
    """Number of the first statement after ``at`` that does not begin where the one before ends."""
    after = range(at + 1, len(body))
    return next((i for i in after if body[i].lineno != body[i - 1].end_lineno), len(body))


def _chain(program: Program, statement: ast.stmt) -> list[ast.stmt]:
    """``statement`` and those that stand on the same lines, between semicolons; refused where they
    stand behind a colon, such as that of an ``if``."""
    block = program.block(statement)
    begin = block.index(statement)
    while begin and last_line(block[begin - 1]) == block[begin].lineno:
        begin -= 1
    line, column = program.span(block[begin])[:2]
    if program.lines[line - 1][:column].strip(" \t\f\ufeff"):
        raise PatchRefusedError(f"the statement at line {line} does not begin its line")
    return block[begin : line_end(block, begin)]


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


def first_line(node: ast.stmt) -> int:
    """The line on which ``node`` begins, with its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(node.lineno for node in decorators)])


def last_line(node: ast.stmt) -> int:
    """The line on which ``node`` ends."""
    return node.end_lineno or node.lineno


def rarer(program: Program, condition: Every, times: int) -> Edit:
    """The edit after which ``condition`` holds ``times`` times less often; refused where a comment
    names the number, or the body uses it."""
    around, right = condition.around, condition.rest.right
    text = ast.unparse(right)
    inside = [node for part in around.body for node in ast.walk(part)]
    if text != "1" and ast.dump(right) in map(ast.dump, inside):
        raise PatchRefusedError(f"line {around.lineno} does something with {text}, its number")
    comments = program.comments(around.lineno - 1, around.body[0].lineno)
    if isinstance(right, ast.Constant) and re.search(rf"\b{text}\b", comments):
        raise PatchRefusedError(f"a comment at line {around.lineno} says {text}: change both")
    return ReplaceExpression(program.span(right), _times(right, times))


def rarer_within(condition: Every, times: int) -> str:
    """The header under which what stands in ``condition``, which also trains, is done so many
    ``times`` as seldom."""
    right = ast.parse(_times(condition.rest.right, times), mode="eval").body
    rest = ast.BinOp(condition.rest.left, ast.Mod(), right)
    compared = (node for node in ast.walk(condition.around.test) if isinstance(node, ast.Compare))
    remainders = (node.comparators[0] for node in compared if node.left is condition.rest)
    remainder = next(remainders, ast.Constant(0))
    return f"if {ast.unparse(ast.Compare(rest, [ast.Eq()], [remainder]))}"


def _times(right: ast.expr, times: int) -> str:
    if isinstance(right, ast.Constant) and type(right.value) is int:
        return str(times * right.value)
    if isinstance(right, (ast.Name, ast.Attribute)):
        return f"({times} * {ast.unparse(right)})"
    raise PatchRefusedError(f"line {right.lineno} may not count steps")
