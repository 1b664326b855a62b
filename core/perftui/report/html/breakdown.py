"""Where the mean step goes: one bar, and a table of its parts that sum to the step."""

from __future__ import annotations

from collections.abc import Iterator

from perftui import format as fmt
from perftui.facts.step.step_breakdown import StepBreakdown
from perftui.report.breakdown import breakdown_rows, breakdown_title
from perftui.report.html.boxes import Box
from perftui.report.html.element import Element, element, section
from perftui.report.html.strip import key, strip
from perftui.run.columns import phase_name


def breakdown(found: StepBreakdown) -> Element:
    """The bar of one breakdown and its table, below a heading."""
    what, over = breakdown_title(found)
    bar = strip(part_boxes(found.parts), 0, max(found.mean, 1), what, "step")
    return section(what, bar, _table(found), over=over)


def part_boxes(parts: tuple[tuple[str, int], ...]) -> tuple[Box, ...]:
    """The parts one behind the other, from 0 on; those without time are left out."""
    boxes, at = [], 0
    for name, time in parts:
        if time:
            told = phase_name(name)
            boxes.append(Box(at, at + time, f"{told}, {fmt.duration(time)}", name, told))
        at += time
    return tuple(boxes)


def _table(found: StepBreakdown) -> Element:
    head = element(
        "tr",
        element("th", "part"),
        element("th", "time", class_="n"),
        element("th", "share", class_="n"),
    )
    return element(
        "table", element("thead", head), element("tbody", *_rows(found)), class_="narrow"
    )


def _rows(found: StepBreakdown) -> Iterator[Element]:
    kinds = [name for name, time in found.parts if time]
    for at, (name, time, share) in enumerate(breakdown_rows(found)):
        is_part = at < len(kinds)
        yield element(
            "tr",
            element("td", key(kinds[at]) if is_part else None, name),
            element("td", f"{time / 100:.2f} ms", class_="n"),
            element("td", f"{share / 10:.1f} %", class_="n"),
            class_=None if is_part else "whole",
        )
