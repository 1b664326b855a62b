"""The page of an operator, module, line of code or kernel: lines of text, some of them links."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from perftui.analysis.kernels.category import tensor_cores
from perftui.analysis.kernels.metrics import LaunchShapes
from perftui.analysis.kernels.names import short_names
from perftui.analysis.ops.call_detail import NO_CALL, NOBODY, Detail, Part
from perftui.analysis.timeline.tracks import track_label
from perftui.trace.model import KERNEL, NONE, Trace
from perftui.trace.text import printable
from perftui_tui.charts.cells import block_bar, exact_ns
from perftui_tui.look.format import MISSING, format_count, format_ns, format_percent
from perftui_tui.look.rows import Row, packed, wrap
from perftui_tui.tables.rows import LEFT, RIGHT, fit


@dataclass(frozen=True)
class ToRow:
    """A link to an event on the timeline, by its row of the trace."""

    row: int


@dataclass(frozen=True)
class ToKernel:
    """A link to the page of a kernel, by its name and category in the kernel table."""

    name: str
    category: str


@dataclass(frozen=True)
class ToGroup:
    """A link to the page of a group of calls."""

    label: str


Target = ToRow | ToKernel | ToGroup


@dataclass(frozen=True)
class LinkedLine:
    """One line, safe to show, with its link if it has one."""

    row: Row
    target: Target | None = None


MOST_ROWS = 12
"""Callers, kernels or shapes that are listed; the rest is summed up in a line."""

_CELL, WIDE, _BAR = 10, 16, 12
"""Cells of a figure, of an exact time, and of a bar."""

_MARGIN = 3
"""Cells left of a line for the cursor, and right of it for the scroll bar."""


def line(*spans: tuple[str, str]) -> LinkedLine:
    """A line without a link."""
    return LinkedLine(spans)


@dataclass(frozen=True)
class Further:
    """Parts of a page that take longer to read; None until they have been."""

    shapes: Sequence[Part] | None = None
    """Shapes of its inputs; empty where they were not recorded."""
    lines: Sequence[Part] | None = None
    """Lines of code that call it; empty where they were not recorded."""
    launches: Mapping[int, LaunchShapes] | None = None
    """How kernels were launched, by line of the kernel table; None where that is not known."""
    line_of: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Lines of the kernel table by name and category."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Why ``shapes``, ``lines`` or ``launches`` could not be read, which are empty then."""

    def launch(self, name: str, category: str) -> LaunchShapes | None:
        """How a kernel was launched, as far as that is known."""
        return (self.launches or {}).get(self.line_of.get((name, category), NONE))


def page_lines(
    detail: Detail, category: str | None, figures: Sequence[str], further: Further, width: int
) -> list[LinkedLine]:
    """An operator, a module or a line of code; with a ``category`` a kernel, a copy or a set."""
    page = _Page(width - _MARGIN, detail.trace, further)
    if category is not None:
        return [
            *page.head(detail, figures, "a launch"),
            *page.launches(detail.label, category),
            *page.callers(detail, "launched by", "launches"),
            *page.places(detail, "launch"),
        ]
    return [
        *page.head(detail, figures, "a call"),
        *page.kernels(detail.kernels),
        *page.callers(detail, "called by", "calls"),
        *((*page.lines(), *page.shapes()) if detail.is_one_operator else ()),
        *page.places(detail, "call"),
    ]


@dataclass(frozen=True)
class _Page:
    """Draws sections of titles and rows, ``width`` cells wide."""

    width: int
    trace: Trace
    further: Further

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

    def head(self, detail: Detail, figures: Sequence[str], one: str) -> Iterator[LinkedLine]:
        """The whole name, and how long one takes."""
        name = printable(detail.label)
        for begin in range(0, min(len(name), 3 * self.width), max(self.width, 1)):
            yield line((name[begin : begin + self.width], "bold"))
        spread = detail.spread
        parts = [
            f"{one}: shortest {format_ns(spread.shortest)}",
            f"median {format_ns(spread.median)}",
            f"longest {format_ns(spread.longest)}",
            f"mean {format_ns(spread.total / spread.count)}",
        ]
        for texts in (figures, parts):
            facts = [((text, ""),) for text in texts]
            yield from map(LinkedLine, packed(facts, self.width))
        where = [
            f"{printable(track_label(self.trace, int(place.label)))} {format_count(place.count)}x"
            for place in detail.places[:4]
        ]
        more = f" and {len(detail.places) - 4} more" if len(detail.places) > 4 else ""
        yield line((fit(f"on {', '.join(where)}{more}", self.width, LEFT).rstrip(), "dim"))

    def kernels(self, kernels: Sequence[Part]) -> Iterator[LinkedLine]:
        """What was launched, with what it called."""
        whole = sum(part.time for part in kernels)
        if not kernels:
            yield from self.title("launched nothing on a GPU")
            return
        yield from self.title(
            "launched, with callees",
            "launches", "time", "share", "tensor", "est. occ", "block",
        )  # fmt: skip
        names = short_names(part.label for part in kernels[:MOST_ROWS])
        for part in kernels[:MOST_ROWS]:
            category = self.trace.categories[int(self.trace.category[part.row])]
            shapes = self.further.launch(part.label, category)
            occupancy = shapes.occupancy if shapes else None
            cells = [
                format_count(part.count),
                format_ns(part.time),
                format_percent(part.time / whole) if whole else MISSING,
                tensor_cores(part.label).value if category == KERNEL else MISSING,
                f"{occupancy:.0f} %" if occupancy is not None else MISSING,
                _sizes(shapes.shapes[0][1]) if shapes and shapes.shapes else MISSING,
            ]
            yield self.row(names[part.label], cells, ToKernel(part.label, category))
        yield from self.rest(kernels)

    def callers(self, detail: Detail, title: str, things: str) -> Iterator[LinkedLine]:
        """Who made the calls, with the share of each."""

        def leads_to(part: Part) -> Target:
            return ToRow(part.row) if part.label in (NOBODY, NO_CALL) else ToGroup(part.label)

        yield from self.shares(title, things, detail.callers, leads_to)
        if detail.inner:
            count = format_count(detail.inner)
            yield line((f"{count} more are nested in another call of it, and counted there", "dim"))

    def lines(self) -> Iterator[LinkedLine]:
        """Which functions call it; PyTorch 2.13 has their first line, others that of the call."""
        if not self.further.lines:
            yield from self._missing("lines of code", "lines", "stacks")
            return
        title = "called from functions at"
        yield from self.shares(title, "calls", self.further.lines, lambda part: ToRow(part.row))

    def shapes(self) -> Iterator[LinkedLine]:
        """Sizes of the inputs."""
        if not self.further.shapes:
            yield from self._missing("input shapes", "shapes", "shapes")
            return
        yield from self.shares("input shapes", "calls", self.further.shapes, lambda _: None)

    def launches(self, name: str, category: str) -> Iterator[LinkedLine]:
        """Grid, block and occupancy of a kernel."""
        if category != KERNEL:
            return
        yield from self.title(f"tensor cores, inferred from its name: {tensor_cores(name).value}")
        if self.further.launches is None:
            yield from self.title("how it was launched is being read")
            return
        if "launches" in self.further.unread:
            yield from self._unread("launches", "launches")
            return
        found = self.further.launch(name, category)
        if found is None:
            yield from self.title("how it was launched was not recorded")
            return
        if found.occupancy is not None:
            text = f"estimated occupancy {found.occupancy:.0f} %, mean over launches by time"
            yield line((text, ""))
        yield from self.title("grid and block", "launches")
        for grid, block, count in found.shapes[:MOST_ROWS]:
            yield self.row(f"{_sizes(grid)}  x  {_sizes(block)}", [format_count(count)], None)
        if len(found.shapes) > MOST_ROWS:
            yield line((f"{len(found.shapes) - MOST_ROWS} more", "dim"))

    def places(self, detail: Detail, one: str) -> Iterator[LinkedLine]:
        """Where it is on the timeline."""
        yield from self.title("on the timeline", "duration", "start", cell=WIDE)
        longest = detail.longest
        named = [(f"longest {one}", longest[0])]
        named += [(f"{place}. longest", row) for place, row in enumerate(longest[1:], 2)]
        named += [(f"first {one}", int(detail.rows[0])), (f"last {one}", int(detail.rows[-1]))]
        for label, row in named:
            start = int(self.trace.start[row])
            track = printable(track_label(self.trace, int(self.trace.track[row])))
            cells = [exact_ns(int(self.trace.duration[row])), exact_ns(start)]
            yield self.row(f"{label}  ({track})", cells, ToRow(row), cell=WIDE)

    def _unread(self, what: str, key: str) -> Iterator[LinkedLine]:
        yield line(("", ""))
        text = printable(f"{what} cannot be read: {self.further.unread[key]}")
        yield from (line(*each) for each in wrap(text, self.width, "dim"))

    def _missing(self, what: str, key: str, option: str) -> Iterator[LinkedLine]:
        """Why a section is empty."""
        if key in self.further.unread:
            yield from self._unread(what, key)
        elif getattr(self.further, key) is None:
            yield from self.title(f"{what} are being read")
        else:
            yield from self.title(f"{what} were not recorded: --{option} records them")


def _sizes(sizes: Sequence[int]) -> str:
    """``256x1x1``, without trailing ones: ``256``."""
    kept = list(sizes)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(str(size) for size in kept)
