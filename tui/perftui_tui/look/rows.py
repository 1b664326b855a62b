"""Rows of styled text: what every pane draws, before any terminal or theme is involved.

A row is a tuple of spans, a span a text and the name of a style in ``look.themes``, empty for the
widget's own. Drawing functions return rows, tests compare ``plain(row)``, and ``RowView`` alone
turns names into colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rich.cells import cell_len, chop_cells, set_cell_size

from perftui.trace.text import printable

Span = tuple[str, str]
Row = tuple[Span, ...]

CONTINUED = "↳ "
"""Marks a row that goes on with the one above."""

_WORD = re.compile(r"\S*\d (?:%|[nµm]?s|m|h|[kKMG]?i?B)(?!\w)\S*|\S+")
"""A word, or a figure with its unit, which belong in one row."""


def row(*parts: str | Span) -> Row:
    """A row of ``parts``; a bare text has the widget's own style."""
    return tuple((part, "") if isinstance(part, str) else part for part in parts)


def plain(line: Row) -> str:
    """The text of a row."""
    return "".join(text for text, _ in line)


def width(line: Row) -> int:
    """Terminal cells that a row takes."""
    return sum(cell_len(text) for text, _ in line)


def safe(line: Row) -> Row:
    """The row with every control code spelled out, so that it can only be read, never obeyed."""
    return tuple((printable(text), style) for text, style in line)


_TORN = re.compile(r"(?<=.{24}\S)(?: [\d.,]+)? +\S{0,12}$")
"""The begin of a word at the end of a long text, and a figure whose unit it may be."""


def crop(line: Row, cells: int) -> Row:
    """The row cut to at most ``cells``, behind a word if possible; a cut has an ellipsis."""
    if width(line) <= cells:
        return line
    if cells <= 0:
        return ()
    text = plain(line)
    shown = set_cell_size(text, cells - 1)
    shown += " " * text.startswith(" ", len(shown))
    left = min(cells - 1, cell_len(_TORN.sub("", shown)))
    spans: list[Span] = []
    for text, style in line:
        taken = min(cell_len(text), left)
        if taken:
            spans.append((set_cell_size(text, taken), style))
        left -= taken
        if not left:
            break
    return (*spans, ("…", style))


def fit(line: Row, cells: int) -> Row:
    """The row cut or padded to exactly ``cells``."""
    line = crop(line, cells)
    missing = cells - width(line)
    return (*line, (" " * missing, "")) if missing > 0 else line


def with_fitting(line: Row, figures: Iterable[Span], cells: int, gap: str = "   ") -> Row:
    """The row with those of ``figures`` behind it that fit whole, the first ones first: a figure
    that is cut is wrong."""
    for figure in figures:
        longer = (*line, (gap, ""), figure) if line else (figure,)
        if width(longer) <= cells:
            line = longer
    return line


def packed(items: Iterable[Row], cells: int) -> list[Row]:
    """``items`` beside each other, in as few rows as hold them whole."""
    rows: list[Row] = []
    for item in items:
        longer = (*rows[-1], ("   ", ""), *item) if rows else item
        if rows and width(longer) <= cells:
            rows[-1] = longer
        else:
            rows.append(item)
    return rows


def fold(line: Row, cells: int) -> list[Row]:
    """The row, made safe, broken at blanks into rows of at most ``cells``, later ones marked."""
    # A control code takes no cell, but four once it is spelled out, as it is drawn.
    letters = [(letter, style) for text, style in safe(line) for letter in text]
    rows: list[Row] = []
    room = max(4, cells)
    while True:
        marks: Row = ((CONTINUED, "dim"),) if rows else ()
        count = _breakable(letters, room - width(marks))
        rows.append((*marks, *joined(letters[:count])))
        letters = letters[count:]
        if not letters:
            return rows


def _breakable(letters: list[Span], room: int) -> int:
    """Number of ``letters`` to put in a row of ``room`` cells."""
    used = 0
    for at, (letter, _) in enumerate(letters):
        used += cell_len(letter)
        if used > room:
            near = range(at, at // 2, -1)
            return next((end for end in near if letters[end - 1][0] == " "), max(1, at))
    return len(letters)


def joined(letters: list[Span]) -> Row:
    """Neighbours of one style as one span."""
    spans: list[Span] = []
    for letter, style in letters:
        if spans and spans[-1][1] == style:
            spans[-1] = (spans[-1][0] + letter, style)
        else:
            spans.append((letter, style))
    return tuple(spans)


def spread(left: Row, right: Row, cells: int) -> Row:
    """``left`` at the left edge and ``right`` at the right; ``left`` gives way where both meet."""
    right = crop(right, cells)
    return fit(left, cells - width(right)) + right


def wrap(text: str, cells: int, style: str = "", indent: str = "") -> list[Row]:
    """``text``, made safe, in rows of at most ``cells``, each after ``indent``.

    A figure stays with its unit; a word that is longer goes on in the next row."""
    rows: list[Row] = []
    line = ""
    room = max(2, cells - cell_len(indent))
    for word in _words(text, room):
        joined = f"{line} {word}" if line else word
        if line and cell_len(indent + joined) > cells:
            rows.append(((indent, ""), (line, style)))
            line = word
        else:
            line = joined
    return [*rows, ((indent, ""), (line, style))] if line else rows


def behind(label: Row, text: str, cells: int, style: str = "") -> list[Row]:
    """``text`` in rows of at most ``cells``, the first behind ``label``, the others as far in."""
    first, *others = wrap(text, cells, style, " " * width(label)) or [()]
    return [(*label, *first[1:]), *others]


def _words(text: str, room: int) -> Iterator[str]:
    """The words of ``text``, and figures with their units, in parts of at most ``room`` cells."""
    for word in _WORD.findall(text):
        shown = printable(word)
        for part in [shown] if cell_len(shown) <= room else shown.split():
            yield from chop_cells(part, room)
