"""The pane below the timeline: lines of text, some of which lead to a place in the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

from textual import events
from textual.message import Message

from perftui.trace.model import Trace
from perftui_tui.charts.cells import exact_ns
from perftui_tui.look.rows import Row, plain, row, wrap
from perftui_tui.look.rows import width as width_of
from perftui_tui.widgets.row_view import RowView

HEAD = "bold"
"""The style of a line that begins a section."""


@dataclass(frozen=True)
class Target:
    """Where a line leads to when it is clicked: ns since the trace's origin, and a row."""

    start: int
    end: int
    row: int | None = None


@dataclass(frozen=True)
class Line:
    """One line; ``text`` must be safe to show."""

    text: str
    style: str = ""
    """A name in ``look.themes``."""
    facts: bool = False
    """Two blanks part facts, none of which is broken over two rows."""
    one_row: bool = False
    """Whether the line is cut, not wrapped: rows of a table, and all that lead somewhere."""
    place: Target | None = None


def place_of_event(trace: Trace, row: int) -> Target:
    """The place of the event in a row of ``trace``."""
    start = int(trace.start[row])
    return Target(start, start + int(trace.duration[row]), row)


def cut(text: str, length: int) -> str:
    """At most ``length`` characters; a cut is marked."""
    return text if len(text) <= length else text[: length - 1] + "…"


def laid_out(lines: Sequence[Line], width: int) -> list[tuple[Row, Target | None]]:
    """Rows of at most ``width`` cells with where each leads to; a figure keeps its columns."""
    if width < 2:
        return []
    return [
        (row((text, line.style)), line.place) for line in lines for text in _wrapped(line, width)
    ]


Laid = list[tuple[Row, Target | None]]
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


_TWO_COLUMNS = 150
"""Cells from which on lines that do not fit stand in two columns, and many short ones."""

_MANY = 14
"""Lines that are nearer to each other in two columns."""

_APART = 3
"""Cells between the two."""


class DetailPane(RowView):
    """Shows lines; a click on one that leads somewhere posts ``Chosen``."""

    @dataclass(eq=False)
    class Chosen(Message):
        """A line was clicked that leads to a place in the trace."""

        place: Target

    _lines: tuple[Line, ...] = ()
    _places: tuple[Target | None, ...] = ()
    _beside: tuple[Target | None, ...] = ()
    """Of what stands at the right, where there are two columns."""
    _right = 0
    """The cell at which that begins."""

    @property
    def text(self) -> str:
        """The whole text, on screen or not."""
        return "\n".join(line.text for line in self._lines)

    def show_lines(self, lines: Sequence[Line], *, further: bool = False) -> int:
        """Show ``lines`` from the top, or stay where they go on; returns the rows left empty."""
        self._lines = tuple(lines)
        self._redraw()
        if not further:
            self.scroll_to(y=0, animate=False, immediate=True)
        return self.content_size.height - len(self.rows)

    def _redraw(self) -> None:
        # A column is kept for the scrollbar, so that it moves no text when it comes.
        width = self.size.width - 1
        found = laid_out(self._lines, width)
        beside: Laid = []
        half = (width - _APART) // 2
        is_too_long = len(found) > self.content_size.height
        is_cut_nowhere = all(width_of(line) <= half for line, _ in found)
        in_two_reads_better = is_too_long or (len(found) >= _MANY and is_cut_nowhere)
        if width >= _TWO_COLUMNS and in_two_reads_better:
            first, beside = in_two(self._lines, half)
            found = first if beside else found
            self._right = half + _APART
        self._places = tuple(place for _, place in found)
        self._beside = tuple(place for _, place in beside)
        rows = [line for line, _ in found]
        self.rows = side_by_side(rows, [line for line, _ in beside], self._right)

    def scroll_page(self, pages: int) -> bool:
        """Scroll by so many pages, less a line; False where there is no more."""
        before = self.scroll_offset.y
        step = max(1, self.size.height - 1)
        self.scroll_to(y=before + pages * step, animate=False, immediate=True)
        return self.scroll_offset.y != before

    def on_click(self, event: events.Click) -> None:
        clicked = event.get_content_offset(self)
        if clicked is None:
            return
        is_right = bool(self._beside) and clicked.x >= self._right
        places = self._beside if is_right else self._places
        at = self.scroll_offset.y + clicked.y
        place = places[at] if at < len(places) else None
        if place is not None:
            event.stop()
            self.post_message(self.Chosen(place))


def exact_lines(start: int, end: int) -> list[Line]:
    """All digits of both ends and of the time between, in ns; none where nothing was rounded."""
    times = (start, end, end - start)
    if all(len(str(abs(time)).rstrip("0")) <= 3 for time in times):
        return []
    first, last, between = map(exact_ns, times)
    return [Line(f"exactly {between}, from {first} to {last}", "dim")]
