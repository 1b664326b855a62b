"""Rows of styled cells: how pure drawing hands its result to a widget."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.cells import cell_len

Cell = tuple[str, str]
"""One character and the name of its style; no style is the plain background."""

Row = tuple[tuple[str, str], ...]
"""Runs of text and the name of their style."""

BLANK: Cell = (" ", "")


def merged(cells: Sequence[Cell]) -> Row:
    """Cells as runs. A blank joins the run on its left: fewer colour codes for the same picture."""
    styles, current = [], ""
    for glyph, style in cells:
        if glyph != " " or _paints_blanks(style):
            current = style
        elif _paints_blanks(current):
            current = ""
        styles.append(current)
    pairs = zip((glyph for glyph, _ in cells), styles, strict=True)
    return tuple(
        ("".join(glyph for glyph, _ in run), style)
        for style, run in groupby(pairs, key=lambda pair: pair[1])
    )


def _paints_blanks(style: str) -> bool:
    """Whether a blank in this style can be seen."""
    return style.endswith("-name") or style == "selected-label"


def text_of(row: Row) -> str:
    """What a row says, without its styles."""
    return "".join(text for text, _ in row)


def put(cells: list[Cell], start: int, text: str, style: str) -> None:
    """Write ``text`` (of single-cell characters) over ``cells``; what falls outside is left out."""
    for offset, glyph in enumerate(text):
        if 0 <= start + offset < len(cells):
            cells[start + offset] = (glyph, style)


def narrow(text: str) -> str:
    """``text`` with each character that is not one cell wide replaced, so cells can be counted."""
    if text.isascii():
        return text
    return "".join(glyph if cell_len(glyph) == 1 else "?" for glyph in text)
