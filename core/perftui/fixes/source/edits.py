"""Edits that are planned for a source file; ``rewriting`` makes them and ``proof`` checks them."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

Literal = bool | int | float | str | None
Span = tuple[int, int, int, int]
"""First line from 1, its column in characters from 0, last line, and the column after the end."""


class PatchRefusedError(ValueError):
    """The change is not certain to do what was meant; the message says why, for a person."""


class NothingToChangeError(PatchRefusedError):
    """The file has nothing of what the change is about."""


def refusal_of(found: Iterable[object], nothing: str) -> PatchRefusedError:
    """The first reason, a string, among what was ``found`` at places that might be changed; where
    there is none the file has ``nothing`` of it."""
    why = next((one for one in found if isinstance(one, str)), "")
    return PatchRefusedError(why) if why else NothingToChangeError(nothing)


@dataclass(frozen=True)
class _At:
    at: Span
    """The expression or statement that is changed, the first one of several."""


@dataclass(frozen=True)
class AddKeyword(_At):
    """A keyword after the last argument of a call, before any ``**`` of it."""

    name: str
    text: str
    """The expression that is given."""


@dataclass(frozen=True)
class RemoveKeyword(_At):
    """A keyword taken out of a call."""

    name: str


@dataclass(frozen=True)
class ReplaceLiteral(_At):
    """Another literal in place of one."""

    text: str


@dataclass(frozen=True)
class ReplaceExpression(_At):
    """Another expression in place of one; brackets around it stay."""

    text: str


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
    """The last one of them; of several on one line the first, which stand for all of these."""
    header: str


Edit = (
    AddKeyword
    | RemoveKeyword
    | ReplaceLiteral
    | ReplaceExpression
    | RemoveStatement
    | ReplaceStatement
    | InsertLine
    | WrapBlock
)


def from_the_end(edits: Iterable[Edit]) -> list[Edit]:
    """``edits`` so that what is made in a block leaves the places of those after it as they are:
    from its end on, and at one statement first what comes behind it."""
    return sorted(edits, key=_place, reverse=True)


def _place(edit: Edit) -> tuple[Span, bool]:
    return edit.at, not (isinstance(edit, InsertLine) and edit.before)


@dataclass(frozen=True)
class Decided:
    """What decides a value now, and where another one is to be written."""

    value: Literal
    place: Span
    """The literal, or the call that lacks ``keyword``."""
    keyword: str | None = None
    quote: str = '"'
    """The quotation mark of the literal that stands there."""
    readers: tuple[ast.expr, ...] = field(default=(), compare=False)
    """What else in the file reads the value, and gets another one with it."""

    def is_a(self, kind: type[object] | None) -> bool:
        """Whether the value is of ``kind``: True is no number, but 1 does for 1.0."""
        return type(self.value) is kind or (type(self.value), kind) == (int, float)

    def edit(self, value: Literal) -> Edit:
        """The edit after which the value is ``value``."""
        text = literal_text(value, self.quote)
        if self.keyword is None:
            return ReplaceLiteral(self.place, text)
        return AddKeyword(self.place, self.keyword, text)


def literal_text(value: Literal, quote: str = '"') -> str:
    """``value`` as Python writes it, a string in ``quote`` where that needs no escapes.

    Raises:
        PatchRefusedError: it is infinite or no number, which no literal is.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise PatchRefusedError(f"{value} cannot be written as a literal")
    text = repr(value)
    if isinstance(value, str) and "'" not in value and '"' not in value:
        return f"{quote}{text[1:-1]}{quote}"
    return text


def is_literal(node: ast.expr | None) -> bool:
    """Whether ``node`` is a number with or without a sign, a string, a truth value or None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float)
    return isinstance(node, ast.Constant) and isinstance(node.value, Literal)


def literal_value(node: ast.expr) -> Literal:
    """The value of a node that ``is_literal``."""
    value: Literal = ast.literal_eval(node)
    return value
