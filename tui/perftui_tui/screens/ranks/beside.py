"""One rank beside the others: each part of its step, and by how much it differs."""

from __future__ import annotations

from statistics import median

from perftui.facts.ranks.rank_table import WAITS_IN, WAITS_IN_TRACE, RankRow, RankTable
from perftui.run.columns import phase_name
from perftui_tui.look.format import share
from perftui_tui.look.rows import Row, crop, row
from perftui_tui.look.units import format_ns

NAME_CELLS, TIME_CELLS, SHARE_CELLS = 24, 12, 9
STEP = "step"
NOTABLE = 0.01
"""Share of a step: parts that differ by less are dim."""


def rank_beside(table: RankTable | None, rank: int | None, cells: int) -> list[Row]:
    """The parts that differ most first, then the step; nothing without another rank.

    Of the others it is the median, of each part its own: theirs need not sum to their step. A part
    in which ranks wait for each other is neither better nor worse where it is longer.
    """
    known = [one for one in table.rows if one.mean] if table else []
    mine = next((one for one in known if one.rank == rank), None)
    others = [one for one in known if one.rank != rank]
    if mine is None or not others:
        return []
    names = dict.fromkeys(name for one in known for name, _ in one.parts)
    found = [(name, mine.part(name), _usual(others, name)) for name in names]
    found = [one for one in found if one[1] or one[2]]
    found.sort(key=lambda one: -abs(one[1] - one[2]))
    found.append((STEP, mine.mean, round(median(one.mean for one in others))))
    titles = (f"rank {mine.rank}", "others, p50", "difference")
    head = "".join(f"{title:>{TIME_CELLS}}" for title in titles)
    rows = [row((f"{'part':<{NAME_CELLS}}{head}{'of step':>{SHARE_CELLS}}", "dim"))]
    rows += [_line(*one, mine.mean) for one in found]
    return [crop(one, cells) for one in rows]


def _usual(others: list[RankRow], name: str) -> int:
    return round(median(one.part(name) for one in others))


def _line(name: str, own: int, usual: int, step: int) -> Row:
    difference = own - usual
    sign = "+" if difference > 0 else ""
    style = "bad" if difference > 0 else "good"
    if abs(difference) < NOTABLE * step or name in (WAITS_IN, WAITS_IN_TRACE):
        style = "dim"
    by = f"{sign + format_ns(difference):>{TIME_CELLS}}"
    part = f"{('-' if difference < 0 else sign) + share(abs(difference), step):>{SHARE_CELLS}}"
    figures = f"{format_ns(own):>{TIME_CELLS}}{format_ns(usual):>{TIME_CELLS}}"
    return row(f"{phase_name(name):<{NAME_CELLS}}{figures}", (by + part, style))
