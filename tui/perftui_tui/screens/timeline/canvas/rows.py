"""The tracks of the timeline as rows of text, with what is drawn across them."""

from __future__ import annotations

import re

from perftui.analysis.timeline.track import (
    DEVICE,
    HELPERS,
    MARKS,
    PHASES,
    STEPS,
    THREAD,
    WHOLE,
    TimelineTrack,
)
from perftui.trace.text import printable
from perftui_tui.look.rows import Row
from perftui_tui.screens.timeline.canvas.counter_cells import counter_cells
from perftui_tui.screens.timeline.canvas.head import Scene, label_width
from perftui_tui.screens.timeline.canvas.launch_arrow import draw_arrow, launch_of
from perftui_tui.screens.timeline.model.cells import Cell, merged, narrow, put
from perftui_tui.screens.timeline.model.counter_track import CounterTrack, track_labels
from perftui_tui.screens.timeline.model.gap_labels import draw_gaps
from perftui_tui.screens.timeline.model.navigation import Selection, TimeMarks
from perftui_tui.screens.timeline.model.state import TimelineState
from perftui_tui.screens.timeline.model.track_groups import ShownTrack
from perftui_tui.screens.timeline.model.viewport import Viewport

_DEEPER = {DEVICE: "  overlapping", MARKS: "  ranges", STEPS: "  overlapping", PHASES: "  phases"}
"""What tracks below the first of a stream hold; below the first of a thread are deeper calls, which
stand further right."""
_DEEPEST = 6
"""Cells that the deepest are moved to the right."""

_RANK = re.compile(r"^rank (\d+) ")
_STREAM = re.compile(r" stream (\d+)$")
_THREAD = re.compile(r"(?<!\S)thread (\d+)")
_NAME_OF_THREAD = re.compile(r"(?<=\d) \(.*\)$")


def track_rows(scene: Scene, state: TimelineState, width: int) -> list[Row]:
    """The tracks on screen with marks and launch arrow, the selected one with labelled gaps."""
    labels = label_width(width)
    shown, view = state.on_screen(), state.view
    tracks = [_track(scene, state, each, max(width - labels, 1)) for each in shown]
    launch = launch_of(state)
    if launch is not None and state.selected is not None:
        other = launch.other(state.selected)
        for each, cells in zip(shown, tracks, strict=True):
            if each.track is other.track:
                _emphasise(cells, view, other, "linked")
        draw_arrow(tracks, shown, launch, view)
    for cells in tracks:
        _draw_marks(cells, view, state.marks)
    return [
        (_label(state, each, labels), *merged(cells))
        for each, cells in zip(shown, tracks, strict=True)
    ]


def _label(state: TimelineState, shown: ShownTrack, width: int) -> tuple[str, str]:
    is_selected = shown.track is state.track
    pointer = "▶" if is_selected else "^" if state.is_pinned(shown) else " "
    track, folded = shown.track, f" +{shown.hidden}" if shown.hidden else ""
    room = width - 2 - len(folded)
    if isinstance(track, CounterTrack):
        labels = track_labels(track.counter)
        name = next((each for each in labels if len(each) <= room), labels[-1][:room])
        return _named(f"{pointer}{name}{folded}", width, is_selected=is_selected)
    deeper = _DEEPER.get(track.kind, f"{' ' * min(track.depth, _DEEPEST)} └")
    if len(deeper) > room:
        deeper = deeper.removesuffix("ping")
    name = track_name(track, room) if shown.leads else deeper
    if len(name) > room:
        name = name[: room - 1] + "…"
    return _named(f"{pointer}{name}{folded}", width, is_selected=is_selected)


def _named(text: str, width: int, *, is_selected: bool) -> tuple[str, str]:
    return text.ljust(width), "selected-label" if is_selected else "label"


def _track(scene: Scene, state: TimelineState, shown: ShownTrack, columns: int) -> list[Cell]:
    track, view, selected = shown.track, state.view, state.selected
    if isinstance(track, CounterTrack):
        cells = counter_cells(track.counter, view, columns, scene.glyphs)
        if selected is not None and selected.track is track:
            _emphasise_sample(cells, view, selected)
        return cells
    cells = scene.drawn.cells(track, view, columns, state.matches)
    # Between phases a rank may be at work.
    if (track is state.track and track.kind != PHASES) or track.kind == WHOLE:
        draw_gaps(cells, state.trace, track, view, state.gaps, state.threshold)
    if selected is not None and selected.track is track:
        _emphasise(cells, view, selected, "selected")
    return cells


def track_name(track: TimelineTrack, room: int) -> str:
    """The name of a track in ``room`` cells, with its numbers where that can be done."""
    name = narrow(printable(track.label))
    if len(name) > room:
        name = _RANK.sub(r"r\1 ", name)
    if len(name) > room and track.kind in (DEVICE, MARKS):
        name = _STREAM.sub(r" s\1", name).replace(" no stream", " s?")
    if len(name) > room and track.kind == HELPERS:
        name = name.replace(" under ", " <")
    if len(name) > room and track.kind == THREAD:
        name = _THREAD.sub(r"t\1", name)
        name = _NAME_OF_THREAD.sub("", name) if len(name) > room else name
    return name


def _emphasise(cells: list[Cell], view: Viewport, mark: Selection, name: str) -> None:
    """Draw an interval in the style ``name``, keeping the characters; of a gap its text alone."""
    first = max(view.column(mark.start, len(cells)), 0)
    last = min(view.column(max(mark.end - 1, mark.start), len(cells)), len(cells) - 1)
    for index in range(first, last + 1):
        glyph, style = cells[index]
        if mark.is_gap and style != "gap":
            continue
        suffix = style[style.rindex("-") :] if style.endswith(("-name", "-edge")) else ""
        cells[index] = (glyph, f"{name}{suffix}")


def _emphasise_sample(cells: list[Cell], view: Viewport, mark: Selection) -> None:
    """Draw a sample, or time without one, in the style of what is selected."""
    first = max(view.column(mark.start, len(cells)), 0)
    last = min(view.column(max(mark.end - 1, mark.start), len(cells)), len(cells) - 1)
    for index in range(first, last + 1):
        cells[index] = (cells[index][0], "selected")


def _draw_marks(cells: list[Cell], view: Viewport, marks: TimeMarks) -> None:
    """A line through what is idle at each mark."""
    for time in {marks.first, marks.second} - {None}:
        column = view.column(time or 0, len(cells))
        if column == len(cells) and time == view.end:
            column -= 1
        if 0 <= column < len(cells) and cells[column][0] == " ":
            put(cells, column, "│", "mark")
