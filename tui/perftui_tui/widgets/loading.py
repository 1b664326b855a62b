"""The first lines while a file is being read: how far that is, and what can be done meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui_tui.look.format import exported, percent
from perftui_tui.look.rows import Row, Span, row, width

if TYPE_CHECKING:
    from perftui.trace.nsys.report import Exporting

LABEL_WIDTH = 12
LONGEST_BAR = 40
SHORTEST_BAR = 4


def loading(name: str, done: float | Exporting) -> str:
    """What is being done with a file that cannot be shown yet."""
    if not isinstance(done, float):
        return exported(name, done.seconds, done.written)
    return f"reading {name} {percent(100 * done)}" if done < 1 else f"analysing {name}"


def loading_rows(name: str, done: float | Exporting, cells: int) -> list[Row]:
    """The progress with a bar, and what can be done meanwhile."""
    text = f" {loading(name, done)}"
    room = min(LONGEST_BAR, cells - LABEL_WIDTH - width(row(text)) - 2)
    bar: tuple[Span, ...] = ()
    # How far another program has come is not known as a share.
    if isinstance(done, float) and room >= SHORTEST_BAR:
        filled = round(done * room)
        bar = (("━" * filled, "accent"), ("─" * (room - filled), "dim"))
    tracks = " shows the tracks read so far, "
    return [
        row((" READING".ljust(LABEL_WIDTH), "accent"), (text, "bold"), "  ", *bar),
        row((" NEXT".ljust(LABEL_WIDTH), "dim"), " ", ("2", "key"), tracks, ("q", "key"), " quits"),
    ]
