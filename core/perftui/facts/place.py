"""Where a number came from: the time, the operator and the line of the user's code.

Apart from facts, which need NumPy: the app's first picture waits for what it imports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from perftui import format as fmt


class SourceLine(Protocol):
    """A line of source code, such as ``LineShare``; unknown parts are None."""

    @property
    def file(self) -> str | None:
        """Path of the file."""

    @property
    def line(self) -> int | None:
        """Number of the line, from 1."""


@dataclass(frozen=True)
class Place:
    """Where a number came from, so that a screen can jump there; unknown fields are None."""

    rank: int | None = None
    step: int | None = None
    start: int | None = None
    """ns since the trace began."""
    end: int | None = None
    trace_row: int | None = None
    operator: str | None = None
    file: str | None = None
    line: int | None = None

    @property
    def source(self) -> str | None:
        """``file:line``, if known."""
        return fmt.source(self.file, self.line)

    @property
    def short(self) -> str:
        """File name and line, without directories; empty if unknown."""
        return (self.source or "").rpartition("/")[2]

    @property
    def at(self) -> str:
        """`` at FILE:LINE``, to end a clause with; empty if unknown."""
        return f" at {self.short}" if self.short else ""
