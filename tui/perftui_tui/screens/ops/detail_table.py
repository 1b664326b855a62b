"""A small table on the page of an operator or a kernel: titles, rows with bars, links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from perftui.analysis.ops.call_detail import Part
from perftui.trace.text import printable
from perftui_tui.charts.blocks import block_bar
from perftui_tui.look.units import MISSING, format_count, format_ns, format_percent
from perftui_tui.screens.ops.linked_lines import LinkedLine, Target
from perftui_tui.tables.rows import LEFT, RIGHT, fit

MOST_ROWS = 12
"""Callers, kernels or shapes that are listed; the rest is summed up in a line."""

WIDE = 16
"""Cells of an exact time."""

_CELL, _BAR = 10, 12


def line(*spans: tuple[str, str]) -> LinkedLine:
    """A line that leads nowhere."""
    return LinkedLine(spans)


@dataclass(frozen=True)
class DetailTable:
    """Draws titles and rows, ``width`` cells wide."""

    width: int

    def title(
        self, title: str, *heads: str, bar: bool = False, cell: int = _CELL
    ) -> list[LinkedLine]:
        """A blank line, then the title with the heads of the columns."""
        return [line(("", "")), line((self._cells(title, heads, cell, bar=bar), "dim"))]

    def row(
        self,
        name: str,
        cells: Sequence[str],
        target: Target | None,
        fraction: float | None = None,
        cell: int = _CELL,
    ) -> LinkedLine:
        """A name and its cells, with a bar of ``fraction`` where there is room."""
        text = self._cells(printable(name), cells, cell, bar=fraction is not None)
        if fraction is None or not self._has_bars:
            return LinkedLine(((text, ""),), target)
        return LinkedLine(((text, ""), (f" {block_bar(fraction, _BAR)}", "chart")), target)

    def shares(
        self,
        title: str,
        things: str,
        parts: Sequence[Part],
        target_of: Callable[[Part], Target | None],
    ) -> Iterator[LinkedLine]:
        """The first parts with their share of the time of all, and the sum of the rest."""
        whole = sum(part.time for part in parts)
        yield from self.title(title, things, "time", "share", bar=True)
        for part in parts[:MOST_ROWS]:
            fraction = part.time / whole if whole else 0.0
            cells = [format_count(part.count), format_ns(part.time), format_percent(fraction)]
            yield self.row(part.label, cells, target_of(part), fraction)
        yield from self.rest(parts)

    def rest(self, parts: Sequence[Part]) -> Iterator[LinkedLine]:
        """The sum of the parts that are not listed."""
        if len(parts) > MOST_ROWS:
            rest, whole = parts[MOST_ROWS:], sum(part.time for part in parts)
            time = sum(part.time for part in rest)
            share = format_percent(time / whole) if whole else MISSING
            yield line((f"{format_count(len(rest))} more: {format_ns(time)}, {share}", "dim"))

    @property
    def _has_bars(self) -> bool:
        return self.width >= 70

    def _cells(self, name: str, cells: Iterable[str], cell: int, *, bar: bool) -> str:
        """The name takes what the cells leave, but never less than a third."""
        shown = list(cells)
        whole = self.width - (_BAR + 1 if bar and self._has_bars else 0)
        while shown and whole - len(shown) * (cell + 1) < whole // 3:
            shown.pop()
        rest = whole - len(shown) * (cell + 1)
        return " ".join(
            [fit(name, rest, LEFT, middle=True), *(fit(each, cell, RIGHT) for each in shown)]
        )
