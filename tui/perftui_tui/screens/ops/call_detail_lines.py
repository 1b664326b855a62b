"""One operator, module, line or kernel opened, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from perftui.analysis.call_detail import NO_CALL, NOBODY, Detail, Part
from perftui.analysis.kernel_launches import LaunchShapes
from perftui.analysis.lanes import lane_label
from perftui.analysis.tensor_cores import tensor_cores
from perftui.trace.categories import KERNEL
from perftui.trace.model import Trace
from perftui.trace.text import printable
from perftui_tui.charts.axis import exact_ns
from perftui_tui.look.rows import Row, wrap
from perftui_tui.look.units import MISSING, format_count, format_ns, format_percent
from perftui_tui.screens.ops.linked_lines import LinkedLine, Target, ToGroup, ToKernel, ToRow
from perftui_tui.tables.columns import ascii_bar, block_bar
from perftui_tui.tables.rows import LEFT, RIGHT, fit

MOST_PARTS = 12
"""Callers, kernels or shapes that are listed; the rest is summed up in a line."""

_MARGIN = 3
"""Cells left of a line for the cursor, and right of it for the scroll bar."""

_CELL, _WIDE, _BAR = 10, 16, 12


@dataclass(frozen=True)
class Further:
    """What takes longer to find out than a key may; None while it is not known."""

    shapes: Sequence[tuple[str, int, int]] | None = None
    """Shapes with calls and time; empty where they were not recorded."""
    lines: Sequence[Part] | None = None
    """Lines of code that call it; empty where they were not recorded."""
    launches: Mapping[int, LaunchShapes] | None = None
    """By line of the kernel table."""
    line_of: Mapping[tuple[str, str], int] | None = None
    """Lines of the kernel table by name and category."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Why ``shapes``, ``lines`` or ``launches`` could not be read, which are empty then."""

    def launch(self, name: str, category: str) -> LaunchShapes | None:
        """How a kernel was launched, as far as that is known."""
        line = (self.line_of or {}).get((name, category))
        return None if line is None else (self.launches or {}).get(line)


def group_lines(
    detail: Detail, figures: Sequence[str], further: Further, width: int, ascii_only: bool
) -> list[LinkedLine]:
    """An operator, a module or a line of code."""
    page = _Page(detail.trace, width - _MARGIN, ascii_only, further)
    return [
        *page.head(detail, figures, "a call"),
        *page.kernels(detail.kernels),
        *page.callers(detail, "called by", "calls"),
        *((*page.lines(), *page.shapes()) if detail.is_one_operator else ()),
        *page.places(detail, "call"),
    ]


def kernel_lines(
    detail: Detail, category: str, figures: Sequence[str], further: Further, width: int,
    ascii_only: bool,
) -> list[LinkedLine]:  # fmt: skip
    """A kernel, a copy or a set."""
    page = _Page(detail.trace, width - _MARGIN, ascii_only, further)
    return [
        *page.head(detail, figures, "a launch"),
        *page.launches(detail.label, category),
        *page.callers(detail, "launched by", "launches"),
        *page.places(detail, "launch"),
    ]


@dataclass(frozen=True)
class _Page:
    trace: Trace
    width: int
    ascii_only: bool
    further: Further

    def head(self, detail: Detail, figures: Sequence[str], one: str) -> Iterator[LinkedLine]:
        """The whole name, and how long one takes."""
        name = printable(detail.label)
        for begin in range(0, min(len(name), 3 * self.width), max(self.width, 1)):
            yield _line((name[begin : begin + self.width], "bold"))
        for text in _joined(figures, self.width):
            yield _line((text, ""))
        spread = detail.spread
        parts = [
            f"{one}: shortest {format_ns(spread.shortest)}",
            f"median {format_ns(spread.median)}",
            f"longest {format_ns(spread.longest)}",
            f"mean {format_ns(spread.total / spread.count)}",
        ]
        for text in _joined(parts, self.width):
            yield _line((text, ""))
        where = [
            f"{printable(lane_label(self.trace.tracks[int(place.label)]))} "
            f"{format_count(place.count)}x"
            for place in detail.places[:4]
        ]
        more = f" and {len(detail.places) - 4} more" if len(detail.places) > 4 else ""
        yield _line((fit(f"on {', '.join(where)}{more}", self.width, LEFT).rstrip(), "dim"))

    def kernels(self, kernels: Sequence[Part]) -> Iterator[LinkedLine]:
        """What was launched, with what it called."""
        whole = sum(part.time for part in kernels)
        if not kernels:
            yield from self._title("launched nothing on a GPU")
            return
        yield from self._title(
            "launched, with all that it calls",
            "launches", "time", "share", "tensor", "est. occ", "block",
        )  # fmt: skip
        for part in kernels[:MOST_PARTS]:
            category = self.trace.categories[int(self.trace.category[part.row])]
            shapes = self.further.launch(part.label, category)
            cells = [
                format_count(part.count),
                format_ns(part.time),
                format_percent(part.time / whole) if whole else MISSING,
                tensor_cores(part.label).value if category == KERNEL else MISSING,
                _occupancy(shapes),
                _sizes(shapes.shapes[0][1]) if shapes and shapes.shapes else MISSING,
            ]
            yield self._row(part.label, cells, ToKernel(part.label, category))
        yield from self._rest(kernels, whole)

    def callers(self, detail: Detail, title: str, things: str) -> Iterator[LinkedLine]:
        """Who made the calls, with the share of each."""
        whole = sum(part.time for part in detail.callers)
        yield from self._title(title, things, "time", "share", bar=True)
        for part in detail.callers[:MOST_PARTS]:
            fraction = part.time / whole if whole else 0.0
            cells = [format_count(part.count), format_ns(part.time), format_percent(fraction)]
            somebody = part.label not in (NOBODY, NO_CALL)
            target: Target = ToGroup(part.label) if somebody else ToRow(part.row)
            yield self._row(part.label, cells, target, fraction)
        yield from self._rest(detail.callers, whole)
        if detail.inner:
            count = format_count(detail.inner)
            yield _line(
                (f"{count} more run inside another call of it, and are part of that", "dim")
            )

    def lines(self) -> Iterator[LinkedLine]:
        """Which functions call it. Of a frame PyTorch records the line at which its function
        begins (2.13), or the line that it was at as the window opened; older ones the line of the
        call."""
        lines = self.further.lines
        if lines is None:
            yield from self._title("lines of code are being read")
            return
        if "lines" in self.further.unread:
            yield from self._unread("lines of code", "lines")
            return
        if not lines:
            yield from self._title("lines of code were not recorded: --stacks records them")
            return
        whole = sum(part.time for part in lines)
        yield from self._title("called from the functions at", "calls", "time", "share", bar=True)
        for part in lines[:MOST_PARTS]:
            fraction = part.time / whole if whole else 0.0
            cells = [format_count(part.count), format_ns(part.time), format_percent(fraction)]
            yield self._row(part.label, cells, ToRow(part.row), fraction)
        yield from self._rest(lines, whole)

    def shapes(self) -> Iterator[LinkedLine]:
        """Sizes of the inputs."""
        shapes = self.further.shapes
        if shapes is None:
            yield from self._title("input shapes are being read")
            return
        if "shapes" in self.further.unread:
            yield from self._unread("input shapes", "shapes")
            return
        if not shapes:
            yield from self._title("input shapes were not recorded: --shapes records them")
            return
        whole = sum(time for _, _, time in shapes)
        yield from self._title("input shapes", "calls", "time", "share", bar=True)
        for text, count, time in shapes[:MOST_PARTS]:
            fraction = time / whole if whole else 0.0
            cells = [format_count(count), format_ns(time), format_percent(fraction)]
            yield self._row(text or "(no tensor)", cells, None, fraction)
        if len(shapes) > MOST_PARTS:
            rest = shapes[MOST_PARTS:]
            calls = format_count(sum(count for _, count, _ in rest))
            lasting = format_ns(sum(time for _, _, time in rest))
            text = f"{format_count(len(rest))} more shapes: {calls} calls, {lasting}"
            yield _line((text, "dim"))

    def launches(self, name: str, category: str) -> Iterator[LinkedLine]:
        """Grid, block and occupancy of a kernel."""
        if category != KERNEL:
            return
        yield from self._title(f"tensor cores, by its name: {tensor_cores(name).value}")
        if self.further.launches is None:
            yield from self._title("how it was launched is being read")
            return
        if "launches" in self.further.unread:
            yield from self._unread("launches", "launches")
            return
        found = self.further.launch(name, category)
        if found is None:
            yield from self._title("the trace does not say how it was launched")
            return
        if found.occupancy is not None:
            text = f"estimated occupancy {found.occupancy:.0f} %, mean over its launches by time"
            yield _line((text, ""))
        yield from self._title("grid and block", "launches")
        for grid, block, count in found.shapes[:MOST_PARTS]:
            yield self._row(f"{_sizes(grid)}  x  {_sizes(block)}", [format_count(count)], None)
        if len(found.shapes) > MOST_PARTS:
            yield _line((f"{len(found.shapes) - MOST_PARTS} more", "dim"))

    def places(self, detail: Detail, one: str) -> Iterator[LinkedLine]:
        """Where it is on the timeline."""
        yield from self._title("on the timeline", "lasts", "begins")
        longest = detail.longest
        named = [(f"longest {one}", longest[0])]
        named += [(f"{place}. longest", row) for place, row in enumerate(longest[1:], 2)]
        named += [(f"first {one}", int(detail.rows[0])), (f"last {one}", int(detail.rows[-1]))]
        for words, row in named:
            start = int(self.trace.start[row])
            track = printable(lane_label(self.trace.tracks[int(self.trace.track[row])]))
            cells = [exact_ns(int(self.trace.duration[row])), exact_ns(start)]
            yield self._row(f"{words}  ({track})", cells, ToRow(row), cell=_WIDE)

    # Lines of a small table

    def _unread(self, what: str, key: str) -> Iterator[LinkedLine]:
        yield _line(("", ""))
        words = printable(f"{what} not read: {self.further.unread[key]}")
        for line in wrap(words, self.width, "dim"):
            yield _line(*line)

    def _title(self, title: str, *heads: str, bar: bool = False) -> Iterator[LinkedLine]:
        yield _line(("", ""))
        cell = _WIDE if heads[:1] == ("lasts",) else _CELL
        yield _line((self._cells(title, heads, cell, bar=bar), "dim"))

    def _row(
        self,
        name: str,
        cells: Sequence[str],
        target: Target | None,
        fraction: float | None = None,
        cell: int = _CELL,
    ) -> LinkedLine:
        text = self._cells(printable(name), cells, cell, bar=fraction is not None)
        if fraction is None or not self._has_bars:
            return LinkedLine(((text, ""),), target)
        draw = ascii_bar if self.ascii_only else block_bar
        return LinkedLine(((text, ""), (f" {draw(fraction, _BAR)}", "chart")), target)

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
        return " ".join([fit(name, rest, LEFT), *(fit(each, cell, RIGHT) for each in shown)])

    def _rest(self, parts: Sequence[Part], whole: int) -> Iterator[LinkedLine]:
        if len(parts) > MOST_PARTS:
            rest = parts[MOST_PARTS:]
            time = sum(part.time for part in rest)
            share = format_percent(time / whole) if whole else MISSING
            text = f"{format_count(len(rest))} more: {format_ns(time)}, {share}"
            yield _line((text, "dim"))


def _line(*spans: tuple[str, str]) -> LinkedLine:
    row: Row = spans
    return LinkedLine(row)


def _joined(facts: Sequence[str], width: int) -> list[str]:
    """Facts in as few rows as hold them, none of them broken."""
    rows: list[str] = []
    for fact in facts:
        if rows and len(rows[-1]) + 3 + len(fact) <= width:
            rows[-1] = f"{rows[-1]}   {fact}"
        else:
            rows.append(fact)
    return rows


def _occupancy(shapes: LaunchShapes | None) -> str:
    if shapes is None or shapes.occupancy is None:
        return MISSING
    return f"{shapes.occupancy:.0f} %"


def _sizes(sizes: Sequence[int]) -> str:
    """``256x1x1``, without trailing ones: ``256``."""
    kept = list(sizes)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(str(size) for size in kept)
