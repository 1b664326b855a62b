"""Edits that are planned for a source file; ``rewriting`` makes them and ``proof`` checks them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from perftui.fixes.source.program import Decided, Literal, PatchRefusedError, Span


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


def edit_of(now: Decided, value: Literal) -> Edit:
    """The edit after which what ``now`` decides is ``value``."""
    text = literal_text(value, now.quote)
    if now.keyword is None:
        return ReplaceLiteral(now.place, text)
    return AddKeyword(now.place, now.keyword, text)
