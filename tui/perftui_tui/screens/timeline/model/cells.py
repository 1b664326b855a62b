"""Rows of styled cells: how pure drawing hands its result to a widget."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from perftui_tui.look.rows import Row

Cell = tuple[str, str]
"""One character and the name of its style; no style is the plain background."""

BLANK: Cell = (" ", "")


def merged(cells: Sequence[Cell]) -> Row:
    """Cells as runs. A blank joins the run on its left: fewer colour codes for the same picture."""
    runs: list[tuple[str, str]] = []
    begin, current, paints = 0, "", False
    text = "".join([glyph for glyph, _ in cells])
    for at, (glyph, style) in enumerate(cells):
        if style == current and not (glyph == " " and paints and not style):
            continue
        if glyph == " " and not _paints_blanks(style):
            if not paints:
                continue
            style = ""
        if style != current:
            if at > begin:
                runs.append((text[begin:at], current))
            begin, current, paints = at, style, _paints_blanks(style)
    if len(text) > begin:
        runs.append((text[begin:], current))
    return tuple(runs)


def _paints_blanks(style: str) -> bool:
    """Whether a blank in this style can be seen."""
    return style.endswith("-name") or style == "selected-label" or style.startswith("part-")


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
