"""The timeline of one step as SVG: a row for the phases, for each thread, for each stream, and for
idle time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perftui import format as fmt
from perftui.facts.step.trace_steps import TraceSteps
from perftui.report.html.boxes import Box, boxes_of
from perftui.report.html.element import Element, element
from perftui.report.html.step_rows import StepRows, step_rows
from perftui.report.html.strip import legend, strip

PIXELS = 1_100
"""Of the widest page; what is narrower than a third of one is united."""

TICKS = 4


def timeline(steps: TraceSteps) -> Element:
    """The steady step that is nearest to the median, with its threads and streams."""
    found = step_rows(steps)
    step, length = found.step, max(found.step.duration, 1)
    boxes = boxes_of(found.rows, length // (3 * PIXELS))
    tracks = [
        element(
            "div",
            element(
                "div",
                row.label,
                element("span", f" {fmt.percent(row.covered / length)}", class_="dim"),
            ),
            strip(each, step.start, length, f"timeline of {row.label}"),
            class_="track",
        )
        for row, each in zip(found.rows, boxes, strict=True)
    ]
    return element(
        "figure",
        *tracks,
        _axis(length),
        *_legends(found, boxes),
        element("figcaption", " ".join(_caption(steps, found))),
    )


def _legends(found: StepRows, boxes: Sequence[Sequence[Box]]) -> Iterator[Element]:
    """A line for each group of rows."""
    groups: dict[str, dict[str, None]] = {}
    for row, each in zip(found.rows, boxes, strict=True):
        groups.setdefault(row.group, {}).update(dict.fromkeys(box.kind for box in each))
    yield from (legend(tuple(kinds), group) for group, kinds in groups.items())


def _axis(length: int) -> Element:
    times = (length * tick // TICKS for tick in range(TICKS + 1))
    return element(
        "div",
        *(element("span", fmt.duration(time) if time else "0") for time in times),
        class_="axis",
    )


def _caption(steps: TraceSteps, found: StepRows) -> Iterator[str]:
    if steps.steps:
        yield (
            f"Step {found.step.index} of the trace, the one nearest to the median of "
            f"{fmt.several(steps.steps, 'step')}."
        )
    else:
        yield "All of the trace, which marks no steps."
    yield "A percentage is the share of the time that the boxes of a row cover."
    yield "What is too narrow to be seen shares a box with its neighbours."
    if found.left_out:
        yield f"{fmt.several(found.left_out, 'more stream')} with less work had no room."
