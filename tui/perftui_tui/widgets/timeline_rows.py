"""The timeline as rows of text: minimap, ruler, steps, gaps, lanes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from perftui.analysis.lanes import DEVICE, MARKS, Lane
from perftui.analysis.model import Step
from perftui.trace.model import Trace
from perftui.trace.text import printable
from perftui_tui.charts.axis import exact_ns, ruler
from perftui_tui.charts.units import format_ns
from perftui_tui.widgets.cells import BLANK, Cell, Row, merged, narrow, put
from perftui_tui.widgets.event_kinds import KindsOfTrace
from perftui_tui.widgets.gap_words import DeviceGaps, draw_gaps, largest_gap_row
from perftui_tui.widgets.lane_cells import Glyphs, lane_cells
from perftui_tui.widgets.lane_groups import ShownLane
from perftui_tui.widgets.navigation import Selection
from perftui_tui.widgets.viewport import Viewport


@dataclass(frozen=True, eq=False)
class Scene:
    """What stays while the view moves."""

    trace: Trace
    kinds: KindsOfTrace
    gaps: DeviceGaps
    steps: tuple[Step, ...]
    glyphs: Glyphs


_DEEPER = {DEVICE: "  overlapping", MARKS: "  ranges"}
"""What lanes below the first of a stream hold; below the first of a thread are deeper calls."""

_LABEL = re.compile(r"\S+(?: \S+)*")
"""Words of the ruler with one blank between them belong together."""


def label_width(width: int) -> int:
    """Cells for the names of the lanes on a screen ``width`` wide."""
    return min(max(width // 5, 12), 28)


def head_rows(
    scene: Scene,
    lane: Lane | None,
    view: Viewport,
    width: int,
    threshold: int,
    mark: Selection | None,
) -> list[Row]:
    """The rows above the lanes: minimap, ruler, steps where there are any, largest gaps."""
    labels = label_width(width)
    columns = max(width - labels, 1)
    rows = [
        _labelled(f"view {format_ns(view.span)}", labels, _minimap(view, columns, scene.glyphs)),
        _labelled("", labels, _ruler(view, columns, mark, scene.glyphs)),
    ]
    if scene.steps:
        rows.append(_labelled("steps", labels, _steps(scene, view, columns)))
    if lane is not None:
        rows.append(
            _labelled(
                f"gaps>{exact_ns(threshold)}", labels, _gaps(scene, lane, view, columns, threshold)
            )
        )
    return rows


def lane_row(
    scene: Scene,
    shown: ShownLane,
    view: Viewport,
    width: int,
    threshold: int,
    selected: bool,
    mark: Selection | None,
) -> Row:
    """One lane; the selected one says its gaps in words."""
    labels = label_width(width)
    columns = max(width - labels, 1)
    lane, glyphs = shown.lane, scene.glyphs
    cells = lane_cells(scene.trace, scene.kinds, lane, view, columns, glyphs)
    if selected:
        draw_gaps(cells, scene.trace, lane, view, scene.gaps, threshold, glyphs.ascii_only)
    if mark is not None and mark.lane is lane:
        _emphasise(cells, view, mark)
    text = _lane_label(shown, labels, selected, glyphs.ascii_only)
    return ((text, "selected-label" if selected else "label"), *merged(cells))


def _lane_label(shown: ShownLane, width: int, selected: bool, ascii_only: bool) -> str:
    pointer = (">" if ascii_only else "▶") if selected else " "
    lane, folded = shown.lane, f" +{shown.hidden}" if shown.hidden else ""
    if shown.leads and lane.depth:
        folded = f" d{lane.depth}{folded}"
    room = width - 2 - len(folded)
    deeper = _DEEPER.get(lane.kind, f"  depth {lane.depth}")
    name = narrow(printable(lane.label)) if shown.leads else deeper
    if len(name) > room:
        name = name[: room - 1] + ("~" if ascii_only else "…")
    return f"{pointer}{name}{folded}".ljust(width)


def _emphasise(cells: list[Cell], view: Viewport, mark: Selection) -> None:
    """Draw the selected stretch in the style of a selection, keeping the characters.

    Of a gap these are its words; what shares a column with its ends is not selected.
    """
    first = max(view.column(mark.start, len(cells)), 0)
    last = min(view.column(max(mark.end - 1, mark.start), len(cells)), len(cells) - 1)
    for index in range(first, last + 1):
        glyph, style = cells[index]
        if mark.is_gap and style != "gap":
            continue
        suffix = style[style.rindex("-") :] if style.endswith(("-name", "-edge")) else ""
        cells[index] = (glyph, f"selected{suffix}")


def _labelled(label: str, width: int, cells: Sequence[Cell]) -> Row:
    return ((label[: width - 1].ljust(width), "label"), *merged(cells))


def _minimap(view: Viewport, columns: int, glyphs: Glyphs) -> list[Cell]:
    thin, thick = ("-", "#") if glyphs.ascii_only else ("─", "━")
    cells: list[Cell] = [(thin, "muted")] * columns
    whole = Viewport.whole(view.first, view.last)
    first, last = whole.column(view.start, columns), whole.column(view.end - 1, columns)
    put(cells, first, thick * (last - first + 1), "view")
    return cells


def _ruler(view: Viewport, columns: int, mark: Selection | None, glyphs: Glyphs) -> list[Cell]:
    cells: list[Cell] = [BLANK] * columns
    text = ruler(view.start, view.end, columns, glyphs.ascii_only)
    if mark is None:
        put(cells, 0, text, "muted")
        return cells
    place = view.column((mark.start + mark.end) // 2, columns)
    put(cells, 0, _without_label_at(text, place), "muted")
    put(cells, place, "v" if glyphs.ascii_only else "▼", "pointer")
    return cells


def _without_label_at(text: str, place: int) -> str:
    """``text`` with the label that covers ``place`` blanked: half a label is a wrong number."""
    for label in _LABEL.finditer(text):
        if label.start() <= place < label.end():
            return text[: label.start()] + " " * len(label.group()) + text[label.end() :]
    return text


def _steps(scene: Scene, view: Viewport, columns: int) -> list[Cell]:
    """Where each step begins, with its number and duration where they fit."""
    cells: list[Cell] = [BLANK] * columns
    bar = "|" if scene.glyphs.ascii_only else "│"
    for step in scene.steps:
        if step.end > view.start and step.start < view.end:
            first = view.column(step.start, columns)
            room = min(view.column(step.end, columns), columns) - max(first, 0) - 1
            put(cells, first, bar, "muted")
            put(cells, max(first, -1) + 1, _step_words(step, room), "step")
    return cells


def _step_words(step: Step, room: int) -> str:
    size = format_ns(step.duration)
    for words in (f"step {step.index} {size}", f"{step.index} {size}", f"{step.index}"):
        if len(words) < room:
            return words
    return ""


def _gaps(scene: Scene, lane: Lane, view: Viewport, columns: int, threshold: int) -> list[Cell]:
    largest = lane.index.largest_gap(view.start, view.end, columns)
    text = largest_gap_row(largest, threshold, scene.glyphs.ascii_only)
    return [(glyph, "gap") for glyph in text]
