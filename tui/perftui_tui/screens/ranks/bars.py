"""Which rank the others wait for, and each rank's step as a bar on one scale."""

from __future__ import annotations

from perftui.facts.ranks.rank_table import RankRow, RankTable, Straggler
from perftui.run.columns import phase_name
from perftui_tui.charts.bar import apportion
from perftui_tui.look.format import fine_percent, share
from perftui_tui.look.rows import PART_STYLES, Row, Span, crop, fit, row, wrap
from perftui_tui.look.units import format_ns
from perftui_tui.panes.step_bar import EDGE
from perftui_tui.reading.step_breakdown import TRACE_STYLES, name_within

LABEL_WIDTH = 10
LEGEND_GAP = "  "


def rank_headline(table: RankTable | None, cells: int, doing: str = "") -> list[Row]:
    """One to three rows: who is slow, by how much and in what, or that nobody is."""
    if table is None or not table.rows:
        return [row((doing, "dim"))] if doing else []
    rows = _sentence(table, cells)
    for note in (*table.notes, doing):
        if note:
            rows += wrap(note, cells, "dim")
    return rows


def _sentence(table: RankTable, cells: int) -> list[Row]:
    known = [one for one in table.rows if one.steps]
    if table.straggler is not None:
        return _slow(table.straggler, cells)
    if len(table.rows) == 1:
        return wrap("Only one rank trains: there is nothing to compare.", cells, "dim")
    if len(known) < 2 or table.spread is None:
        return wrap("Too few ranks have steady steps yet to compare.", cells, "dim")
    text = (
        f"The ranks are even: the slowest is {fine_percent(100 * max(table.spread, 0))} behind "
        f"the median of the others ({len(known)} ranks)."
    )
    return wrap(text, cells, "good")


def _slow(slow: Straggler, cells: int) -> list[Row]:
    part = phase_name(slow.part)
    most = f", {format_ns(slow.part_lag)} of it in {part}" if slow.part_lag > 0 else ""
    held = "; the others wait for it" if slow.holds_up else ""
    text = f"Rank {slow.rank} is {format_ns(slow.lag)} a step behind the others{most}{held}."
    first, *rest = wrap(text, cells, "bold", " " * 12)
    return [row((" STRAGGLER  ", "bad"), *first[1:]), *rest]


def rank_bars(table: RankTable | None, cells: int, height: int) -> list[Row]:
    """A bar for each rank, all on one scale, and under them what the colours mean."""
    rows = [one for one in table.rows if one.mean] if table else []
    if not rows:
        return []
    longest = max(one.mean for one in rows)
    room = max(1, cells - LABEL_WIDTH - 10)
    drawn = [_bar(one, longest, room) for one in rows[: max(1, height - 1)]]
    hidden = len(rows) - len(drawn)
    legend = _legend(rows, f"and {hidden} more ranks" if hidden else "")
    return [*drawn, crop(legend, cells)]


def _bar(one: RankRow, longest: int, room: int) -> Row:
    whole = max(1, room * one.mean // longest)
    widths = apportion([ns for _, ns in one.parts], whole)
    spans: list[Span] = [
        (_label(name, ns, one.mean, width), f"part-{_style(name)}")
        for (name, ns), width in zip(one.parts, widths, strict=True)
        if width
    ]
    label = fit(row((f"rank {one.rank}", "bold")), LABEL_WIDTH)
    return (*label, *fit(tuple(spans), room), (f" {format_ns(one.mean):>9}", ""))


def _label(name: str, ns: int, whole: int, width: int) -> str:
    """The first that fits: name and share, a shorter name and share, the share, the edge."""
    part, room = share(ns, whole), width - 1
    name = name_within(phase_name(name), room - 1 - len(part))
    text = f"{name} {part}" if name else part
    return EDGE + (text if len(text) <= room else "").ljust(room)


def _style(name: str) -> str:
    style = TRACE_STYLES.get(name, name)
    return style if style in PART_STYLES else "other"


def _legend(rows: list[RankRow], more: str) -> Row:
    names = dict.fromkeys(name for one in rows for name, ns in one.parts if ns)
    spans: list[Span] = [(" " * LABEL_WIDTH, "")]
    for name in names:
        label = phase_name(name)
        spans += [(f"{EDGE}{label} ", f"part-{_style(name)}"), (LEGEND_GAP, "")]
    return row(*spans, (more, "dim"))
