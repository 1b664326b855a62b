"""Lines of the detail below the timeline, before they are laid out for its width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

from perftui.trace.model import Trace
from perftui_tui.look.rows import Row, plain, row, wrap
from perftui_tui.look.rows import width as width_of

HEAD = "bold"
"""The style of a line that begins a section."""


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


Laid = list[tuple[Row, Place | None]]
"""Rows, each with where it leads to."""


def in_two(lines: Sequence[Line], width: int) -> tuple[Laid, Laid]:
    """Two columns of rows of at most ``width`` cells, as equal as whole sections allow; a section
    begins with a bold line. All in the first where there is only one."""
    sizes = [len(laid_out([line], width)) for line in lines]
    ends = list(accumulate(sizes, initial=0))
    begins = [at for at, line in enumerate(lines) if line.style == HEAD and ends[at]]
    split = min(begins, key=lambda at: max(ends[at], ends[-1] - ends[at]), default=len(lines))
    return laid_out(lines[:split], width), laid_out(lines[split:], width)


def side_by_side(left: Sequence[Row], right: Sequence[Row], at: int) -> list[Row]:
    """Rows of both, those of ``right`` from cell ``at`` on."""
    if not right:
        return list(left)
    nothing: Row = ()
    pairs = zip_longest(left, right, fillvalue=nothing)
    return [(*one, (" " * (at - width_of(one)), ""), *other) for one, other in pairs]


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
