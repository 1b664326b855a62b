"""A bar of boxes over time as SVG: what is too narrow to be seen is united."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perftui import format as fmt
from perftui.analysis.intervals import union
from perftui.report.html.element import Element, Node, element, number
from perftui.report.html.style import hue
from perftui.run.columns import phase_name
from perftui.trace.model import Int64

MOST_BOXES = 1_500
"""Boxes of a whole timeline: some 150 KB of SVG."""

GROWTH = 1.5
"""By how much more is united where there would be more boxes."""


@dataclass(frozen=True)
class Box:
    """One event, or several that are too narrow to be told apart; times in ns."""

    start: int
    end: int
    text: str
    """What is in it, for a person."""
    kind: str
    """What it counts as: a part of the step, or the cause of a gap."""
    name: str = ""
    """The name of the one event in it; empty of several."""

    @property
    def duration(self) -> int:
        """From the first start to the last end."""
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Events:
    """Events of one row, in order of time and without overlaps; times in ns."""

    label: str
    start: Int64
    end: Int64
    describe: Callable[[int], tuple[str, str]]
    """Name and kind of the event of that number."""
    noun: str
    """What several of them are called: ``kernels``."""
    group: str = ""
    """Rows of one group share what their colours stand for."""

    @property
    def covered(self) -> int:
        """Time that any of them covers."""
        return union(self.start, self.end).total


def boxes_of(rows: Sequence[Events], least: int, most: int = MOST_BOXES) -> list[tuple[Box, ...]]:
    """The boxes of each row.

    Events shorter than ``least`` ns with less than that between them share a box; where more than
    ``most`` boxes would be left, longer ones do too. No event is left out.
    """
    least = max(least, 1)
    while sum(int(_begins(row, least).sum()) for row in rows) > most:
        least = int(least * GROWTH) + 1
    return [_boxes(row, least) for row in rows]


def _begins(row: Events, least: int) -> npt.NDArray[np.bool_]:
    """Which events begin a box."""
    begins = np.ones(len(row.start), dtype=np.bool_)
    wide = row.end - row.start >= least
    apart = row.start[1:] - row.end[:-1] >= least
    begins[1:] = wide[1:] | wide[:-1] | apart
    return begins


def _boxes(row: Events, least: int) -> tuple[Box, ...]:
    first = np.flatnonzero(_begins(row, least)).tolist()
    return tuple(
        _box(row, low, high) for low, high in zip(first, [*first[1:], len(row.start)], strict=True)
    )


def _box(row: Events, low: int, high: int) -> Box:
    durations = row.end[low:high] - row.start[low:high]
    longest = low + int(durations.argmax())
    name, kind = row.describe(longest)
    text, start, end = f"{name}, {fmt.duration(int(durations.max()))}", row.start[low], row.end
    if high - low == 1:
        return Box(int(start), int(end[low]), text, kind, name)
    whole = fmt.duration(int(durations.sum()))
    several = f"{high - low:,} {row.noun}, {whole} in all; the longest is {text}"
    return Box(int(start), int(end[high - 1]), several, kind)


WIDTH = 10_000
"""Units of a drawing from its start to its end."""

NAMED_FROM, NAMED_ON_A_PHONE = 0.06, 0.25
"""Share of the width from which on a box has its name in it."""


def strip(boxes: Sequence[Box], start: int, length: int, label: str, kind: str = "") -> Element:
    """``length`` ns from ``start`` on as one bar; names stand in the boxes that have room."""
    rectangles = (_rectangle(box, start, length, odd=at % 2 == 1) for at, box in enumerate(boxes))
    drawing = element(
        "svg",
        *rectangles,
        viewBox=f"0 0 {WIDTH} 1",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
    return element("div", drawing, *_names(boxes, start, length), class_=f"strip {kind}".strip())


def legend(kinds: Sequence[str], of: str = "") -> Element:
    """What the colours stand for."""
    told = (element("span", key(one), phase_name(one)) for one in kinds)
    return element("div", element("strong", of) if of else None, *told, class_="keys")


def key(kind: str) -> Element:
    """A spot in the colour of a part."""
    return element("span", class_=f"key {hue(kind)}", aria_hidden="true")


def _rectangle(box: Box, start: int, length: int, *, odd: bool) -> Element:
    left, right = (WIDTH * (time - start) / length for time in (box.start, box.end))
    return element(
        "rect",
        element("title", box.text),
        x=round(left, 2),
        width=round(right - left, 2),
        height="1",
        class_=hue(box.kind) + (" odd" if odd else ""),
    )


def _names(boxes: Sequence[Box], start: int, length: int) -> Iterator[Node]:
    for box in boxes:
        share = box.duration / length
        if box.name and share >= NAMED_FROM:
            left = 100 * (box.start - start) / length
            style = f"left:{number(left)}%;width:{number(100 * share)}%"
            small = None if share >= NAMED_ON_A_PHONE else "small"
            yield element("span", box.name, style=style, class_=small, aria_hidden="true")
