"""The tracks of the timeline as rows of text, with marks and the arrow of a launch over them."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
from perftui.trace.model import NONE
from perftui.trace.text import printable
from perftui_tui.look.format import format_ns
from perftui_tui.look.rows import Row
from perftui_tui.screens.timeline import navigation
from perftui_tui.screens.timeline.counters import CounterTrack, counter_cells, track_labels
from perftui_tui.screens.timeline.gaps import draw_gaps
from perftui_tui.screens.timeline.head import Scene, label_width
from perftui_tui.screens.timeline.navigation import Selection, TimeMarks, Viewport
from perftui_tui.screens.timeline.state import TimelineState
from perftui_tui.screens.timeline.track_cells import Cell, merged, narrow, put
from perftui_tui.screens.timeline.tracks import ShownTrack

STYLE = "arrow"


@dataclass(frozen=True)
class Launch:
    """A call and the first activity that it launched."""

    call: Selection
    work: Selection

    def other(self, selected: Selection) -> Selection:
        """The end that is not selected."""
        return self.call if self.work.row == selected.row else self.work


def launch_of(state: TimelineState) -> Launch | None:
    """What the selected event launched, or what launched it; None where the trace has neither."""
    selected = state.selected
    if selected is None or selected.is_gap:
        return None
    if state.trace.tracks[int(state.trace.track[selected.row])].is_device:
        call, work = state.launches.launching(selected.row), selected.row
    else:
        launched = state.launches.launched(selected.row)
        call, work = selected.row, int(launched[0]) if len(launched) else NONE
    if NONE in (call, work):
        return None
    ends = []
    for row in (call, work):
        track = navigation.track_of(state.tracks, state.trace, row)
        if track is None:
            return None
        ends.append(navigation.event(state.trace, track, row))
    return Launch(*ends)


def draw_arrow(
    tracks: list[list[Cell]], shown: list[ShownTrack], launch: Launch, view: Viewport
) -> None:
    """Up or down from the call, then along to what it launched; an end outside is pointed to."""
    places = {one.track: place for place, one in enumerate(shown)}
    columns = len(tracks[0]) if tracks else 0
    call, work = places.get(launch.call.track), places.get(launch.work.track)
    if not columns:
        return
    begin = view.column(launch.call.start, columns)
    head = view.column(launch.work.start, columns)
    if call is not None and work is not None and call != work:
        if 0 <= begin < columns:
            for cells in tracks[min(call, work) + 1 : max(call, work)]:
                _over(cells, begin, "│")
        _horizontal(tracks[work], begin, head, call < work)
    for place, column, time in ((call, begin, launch.call.start), (work, head, launch.work.start)):
        if place is not None and not 0 <= column < columns:
            _point_outside(tracks[place], column < 0, time, view)


def _horizontal(cells: list[Cell], begin: int, head: int, downwards: bool) -> None:
    """Over idle time alone: what else ran while the work waited in the queue stays to be seen."""
    if head == begin:
        return
    first, last = (begin, head - 1) if head > begin else (head + 1, begin - 1)
    for column in range(max(first, 0), min(last + 1, len(cells))):
        _if_idle(cells, column, "─")
    _if_idle(cells, *((last, "►") if head > begin else (first, "◄")))
    if abs(head - begin) > 1:
        _if_idle(cells, begin, "└" if downwards else "┌")


def _point_outside(cells: list[Cell], on_left: bool, time: int, view: Viewport) -> None:
    away = view.start - time if on_left else time - view.end
    text = f"◄ {format_ns(away)}" if on_left else f"{format_ns(away)} ►"
    first = 0 if on_left else len(cells) - len(text)
    room = range(first, first + len(text))
    if len(text) <= len(cells) and all(_is_idle(cells[column]) for column in room):
        for column, glyph in zip(room, text, strict=True):
            cells[column] = (glyph, STYLE)
    else:
        _over(cells, *((0, "◄") if on_left else (len(cells) - 1, "►")))


def _is_idle(cell: Cell) -> bool:
    return (cell[0] == " " and not cell[1].endswith("-name")) or cell[1] in ("gap", STYLE)


def _if_idle(cells: list[Cell], column: int, glyph: str) -> None:
    if 0 <= column < len(cells) and _is_idle(cells[column]):
        cells[column] = (glyph, STYLE)


def _over(cells: list[Cell], column: int, glyph: str) -> None:
    """Over a full cell on its own colour, and never over letters of a name."""
    old, style = cells[column]
    if style.endswith("-name"):
        if old in " ▏":
            cells[column] = (glyph, style)
    elif old == "█":
        cells[column] = (glyph, f"{style}-name")
    else:
        cells[column] = (glyph, STYLE)


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
    else:
        deeper = _DEEPER.get(track.kind, f"{' ' * min(track.depth, _DEEPEST)} └")
        if len(deeper) > room:
            deeper = deeper.removesuffix("ping")
        name = track_name(track, room) if shown.leads else deeper
        if len(name) > room:
            name = name[: room - 1] + "…"
    style = "selected-label" if is_selected else "label"
    return f"{pointer}{name}{folded}".ljust(width), style


def _track(scene: Scene, state: TimelineState, shown: ShownTrack, columns: int) -> list[Cell]:
    track, view, selected = shown.track, state.view, state.selected
    if isinstance(track, CounterTrack):
        cells = counter_cells(track.counter, view, columns, scene.glyphs)
        if selected is not None and selected.track is track:
            # A sample, or time without one.
            for index in _cells_of(selected, view, columns):
                cells[index] = (cells[index][0], "selected")
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
    for index in _cells_of(mark, view, len(cells)):
        glyph, style = cells[index]
        if mark.is_gap and style != "gap":
            continue
        suffix = style[style.rindex("-") :] if style.endswith(("-name", "-edge")) else ""
        cells[index] = (glyph, f"{name}{suffix}")


def _cells_of(mark: Selection, view: Viewport, columns: int) -> range:
    first = max(view.column(mark.start, columns), 0)
    return range(first, min(view.column(max(mark.end - 1, mark.start), columns), columns - 1) + 1)


def _draw_marks(cells: list[Cell], view: Viewport, marks: TimeMarks) -> None:
    """A line through what is idle at each mark."""
    for time in {marks.first, marks.second} - {None}:
        column = view.column(time or 0, len(cells))
        if column == len(cells) and time == view.end:
            column -= 1
        if 0 <= column < len(cells) and cells[column][0] == " ":
            put(cells, column, "│", "mark")
