"""Lines of the detail below the timeline, before they are laid out for its width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perftui.trace.model import Trace
from perftui_tui.look.rows import Row, plain, row, wrap


@dataclass(frozen=True)
class Place:
    """Where a line leads to when it is clicked: ns since the trace's origin, and a row."""

    start: int
    end: int
    row: int | None = None


@dataclass(frozen=True)
class Line:
    """One line; ``text`` must be safe to show."""

    text: str
    style: str = ""
    """A name in ``look.palette``."""
    facts: bool = False
    """Two blanks part facts, none of which is broken over two rows."""
    one_row: bool = False
    """Whether the line is cut, not wrapped: rows of a table, and all that lead somewhere."""
    place: Place | None = None


def place_of_event(trace: Trace, row: int) -> Place:
    """The place of the event in a row of ``trace``."""
    start = int(trace.start[row])
    return Place(start, start + int(trace.duration[row]), row)


def cut(text: str, length: int) -> str:
    """At most ``length`` characters; a cut is marked."""
    return text if len(text) <= length else text[: length - 1] + "…"


def laid_out(lines: Sequence[Line], width: int) -> list[tuple[Row, Place | None]]:
    """Rows of at most ``width`` cells with where each leads to; a figure keeps its columns."""
    if width < 2:
        return []
    return [
        (row((text, line.style) if line.style else text), line.place)
        for line in lines
        for text in _wrapped(line, width)
    ]


def _wrapped(line: Line, width: int) -> list[str]:
    if line.one_row or line.place is not None or len(line.text) <= width:
        return [cut(line.text, width)]
    if not line.facts:
        return _broken(line.text, width)
    rows = [""]
    for fact in line.text.split("  "):
        longer = f"{rows[-1]}  {fact}" if rows[-1] else fact
        if len(longer) <= width:
            rows[-1] = longer
        else:
            rows += _broken(fact, width)
    return [text for text in rows if text]


def _broken(text: str, width: int) -> list[str]:
    return [plain(line) for line in wrap(text, width)] or [""]


def plain_text(lines: Sequence[Line]) -> str:
    """The text of all ``lines``, for the clipboard."""
    return "\n".join(line.text for line in lines)
