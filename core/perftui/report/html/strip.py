"""A bar of boxes over time as SVG, and what its colours stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perftui.report.html.boxes import Box
from perftui.report.html.colours import hue
from perftui.report.html.element import Element, Node, element, number
from perftui.run.columns import phase_name

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
