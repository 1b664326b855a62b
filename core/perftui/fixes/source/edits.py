"""Edits that are planned for a source file; ``rewriting`` makes them."""

from __future__ import annotations

from dataclasses import dataclass

Literal = bool | int
Position = tuple[int, int]
"""Line from 1, column in characters from 0."""


@dataclass(frozen=True)
class AddKeyword:
    """``name=value`` in the call that begins at ``position``."""

    position: Position
    name: str
    value: Literal
    text: str | None = None
    """The expression that is written, where it is no literal; ``value`` is what it comes to."""


@dataclass(frozen=True)
class ReplaceLiteral:
    """Another literal in place of the one at ``position``."""

    position: Position
    name: str
    """The argument whose value the literal decides."""
    before: object
    value: Literal


Edit = AddKeyword | ReplaceLiteral
