"""The timeline as rows: what stands above the tracks, the tracks, marks, and a launch over them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from perftui.analysis.timeline.track import (
    DEVICE,
    HELPERS,
    MARKS,
    PHASES,
    STEPS,
    THREAD,
    WHOLE,
    TimelineTrack,
    TrackIndex,
    edges,
)
from perftui.trace.model import NONE
from perftui.trace.text import printable
from perftui_tui.charts.cells import ASCII_LEVELS, LOWER_EIGHTHS, exact_ns, filled_steps, ruler
from perftui_tui.look.format import format_count, format_ns
from perftui_tui.look.rows import Row
from perftui_tui.reading.snapshot import name_within
from perftui_tui.screens.timeline import navigation
from perftui_tui.screens.timeline.counters import CounterTrack, counter_cells, track_labels
from perftui_tui.screens.timeline.gaps import bracketed, draw_gaps, largest_gap_row
from perftui_tui.screens.timeline.navigation import Selection, TimeMarks, Viewport
from perftui_tui.screens.timeline.state import Phases, TimelineState
from perftui_tui.screens.timeline.track_cells import (
    BLANK,
    Cell,
    DrawnTracks,
    Glyphs,
    KindsOfTrace,
    merged,
    narrow,
    phase_label,
    phase_style,
    put,
)
from perftui_tui.screens.timeline.tracks import ShownTrack


def phase_cells(phases: Phases, view: Viewport, columns: int, glyphs: Glyphs) -> list[Cell]:
    """Each column in the colour of the phase that fills most of it; without colours as a letter."""
    times = edges(view.start, view.end, columns)
    covered = np.stack([np.diff(each.before(times)) for each in phases.values()])
    first = np.argmax(covered, axis=0)
    widths = np.maximum(np.diff(times), 1)
    shares = (np.take_along_axis(covered, first[None], axis=0)[0] / widths).tolist()
    names = list(phases)
    chosen = [names[at] if share > 0 else "" for at, share in zip(first, shares, strict=True)]
    cells = [_cell(name, share, glyphs) for name, share in zip(chosen, shares, strict=True)]
    at = 0
    for name, group in groupby(chosen):
        length = len(list(group))
        if name:
            _name(cells, at, length, name, glyphs)
        at += length
    return cells


def _cell(name: str, share: float, glyphs: Glyphs) -> Cell:
    if not name:
        return BLANK
    style = phase_style(name)
    if not glyphs.edges:
        letter = phase_label(name)[0]
        return (letter.upper() if share >= 0.5 else letter, f"phase-{style}")
    if share >= 0.5:
        return (" ", f"part-{style}")
    return (LOWER_EIGHTHS[filled_steps(share, 8)], f"phase-{style}")


def _name(cells: list[Cell], at: int, length: int, name: str, glyphs: Glyphs) -> None:
    style = phase_style(name)
    word = name_within(phase_label(name), length - 1)
    if not word:
        return
    if glyphs.edges:
        put(cells, at, f" {word}", f"part-{style}")
    else:
        put(cells, at, f"[{word} "[:length], f"phase-{style}")


MINIMAP, RULER, STEP_ROW, PHASE_ROW, GAPS = "minimap", "ruler", "steps", "phases", "gaps"
RANGE, FOUND = "range", "found"


class Scene:
    """What is drawn of a trace, as far as it stays the same while the view moves."""

    def __init__(self, state: TimelineState, glyphs: Glyphs) -> None:
        # What has tracks of its own is not shown twice.
        has_overview = any(track.is_overview for track in state.tracks)
        self.glyphs = glyphs
        self.steps = () if has_overview else state.steps
        self.phases = {} if has_overview else state.phases
        self.whole = minimap_index(state.tracks)
        """What the minimap shows the busy time of."""
        self.drawn = DrawnTracks(state.trace, KindsOfTrace(state.trace), glyphs)


_LABEL = re.compile(r"\S+(?: \S+)*")
"""Words of the ruler with one blank between them belong together."""


def label_width(width: int) -> int:
    """Cells for the names of the tracks on a screen ``width`` wide."""
    return min(max(width // 5, 12), 28)


def minimap_index(tracks: Sequence[TimelineTrack]) -> TrackIndex:
    """What the minimap shows: the first device, else the depth of a thread with the most events."""
    first = next((track for track in tracks if not track.is_overview), tracks[0])
    if first.kind != THREAD:
        return first.index
    deeper = [track for track in tracks if track.track == first.track]
    # A step is open all the time: the depth with most events shows more.
    return max(deeper, key=lambda track: len(track.index)).index


def head_rows(scene: Scene, state: TimelineState, width: int) -> dict[str, Row]:
    """Rows of ``width`` cells by name, without empty ones."""
    labels = label_width(width)
    columns = max(width - labels, 1)
    view, glyphs = state.view, scene.glyphs
    span, least = format_ns(view.span), exact_ns(state.threshold)
    rows = [
        (MINIMAP, (f"view {span}", span), minimap(scene.whole, view, columns, glyphs)),
        (RULER, ("",), _ruler(view, columns, state.selected)),
    ]
    if scene.steps:
        rows.append((STEP_ROW, ("steps",), _steps(scene, view, columns)))
    if scene.phases:
        rows.append((PHASE_ROW, ("phases",), phase_cells(scene.phases, view, columns, glyphs)))
    largest = state.track.index.largest_gap(view.start, view.end, columns)
    gaps = largest_gap_row(largest, state.threshold, glyphs.ascii_only)
    rows.append((GAPS, (f"gaps>{least}", f">{least}"), [(glyph, "gap") for glyph in gaps]))
    if state.marks != TimeMarks():
        rows.append((RANGE, ("marks",), _range(state.marks, view, columns)))
    if state.matches is not None:
        begun = np.searchsorted(state.matches.starts, edges(view.start, view.end, columns))
        found = [("▾", "match-mark") if count else BLANK for count in np.diff(begun).tolist()]
        place = state.matches.place(state.selected.row) if state.selected else None
        count = format_count(len(state.matches))
        of_all = () if place is None else (f"found {place + 1:,}/{count}", f"{place + 1:,}/{count}")
        rows.append((FOUND, (*of_all, f"found {count}", count, "found"), found))
    drawn: dict[str, Row] = {}
    for name, words, cells in rows:
        # The first that fits: a number that is cut is a wrong one.
        label = next((each for each in words if len(each) < labels), "")
        drawn[name] = ((label.ljust(labels), "label"), *merged(cells))
    return drawn


def minimap(index: TrackIndex, view: Viewport, columns: int, glyphs: Glyphs) -> list[Cell]:
    """How busy all of the trace is, and which part of it is in view."""
    ramp = ASCII_LEVELS if glyphs.ascii_only else LOWER_EIGHTHS
    busy = index.busy(view.first, view.last, columns).tolist()
    width = (view.last - view.first) / columns
    levels = [filled_steps(part / width, len(ramp) - 1) for part in busy]
    whole = Viewport.whole(view.first, view.last)
    first, last = whole.column(view.start, columns), whole.column(view.end - 1, columns)
    cells: list[Cell] = [
        (ramp[level], "view" if first <= at <= last else "muted") for at, level in enumerate(levels)
    ]
    if view.span < view.last - view.first:
        put(cells, first, "[", "view")
        put(cells, last, "]" if last > first else "|", "view")
    return cells


def _ruler(view: Viewport, columns: int, mark: Selection | None) -> list[Cell]:
    cells: list[Cell] = [BLANK] * columns
    text = ruler(view.start, view.end, columns)
    if mark is None:
        put(cells, 0, text, "muted")
        return cells
    place = view.column((mark.start + mark.end) // 2, columns)
    # Half a label is a wrong number.
    text = _LABEL.sub(lambda m: " " * len(m[0]) if place in range(*m.span()) else m[0], text)
    put(cells, 0, text, "muted")
    put(cells, place, "▼", "pointer")
    return cells


def _steps(scene: Scene, view: Viewport, columns: int) -> list[Cell]:
    """Where each step begins, with its number and duration where they fit."""
    cells: list[Cell] = [BLANK] * columns
    for step in scene.steps:
        if step.end > view.start and step.start < view.end:
            first = view.column(step.start, columns)
            room = min(view.column(step.end, columns), columns) - max(first, 0) - 1
            size = format_ns(step.duration)
            labels = (f"step {step.index} {size}", f"{step.index} {size}", f"{step.index}")
            label = next((each for each in labels if len(each) < room), "")
            put(cells, first, "│", "muted")
            put(cells, max(first, -1) + 1, label, "step")
    return cells


def _range(marks: TimeMarks, view: Viewport, columns: int) -> list[Cell]:
    cells: list[Cell] = [BLANK] * columns
    start, end = marks.range or (marks.first or 0, marks.first or 0)
    first, last = view.column(start, columns), view.column(max(end - 1, start), columns)
    low, high = max(first, 0), min(last, columns - 1)
    room, size = high - low + 1, f" {format_ns(end - start)} "
    if marks.range is None:
        put(cells, first, "├", "mark")
        low, high, size = first, first, f" {exact_ns(start)}"
    elif room < 1:
        label = f"◄{size}" if last < 0 else f"{size}►"
        put(cells, 0 if last < 0 else columns - len(label), label, "mark")
        return cells
    elif len(size) + 2 <= room:
        put(cells, low, bracketed(size, room, first < 0, last >= columns), "mark")
        return cells
    elif room == 1:
        put(cells, low, "│", "mark")
    else:
        put(cells, low, bracketed("", room, first < 0, last >= columns), "mark")
    put(cells, high + 1 if high + len(size) < columns else low - len(size), size, "mark")
    return cells


STYLE = "arrow"


@dataclass(frozen=True)
class Launch:
    """A call and the first activity that it launched."""

    call: Selection
    work: Selection

    def other(self, selected: Selection) -> Selection:
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
    begin, end = (navigation.shown_event(state.tracks, state.trace, row) for row in (call, work))
    return Launch(begin, end) if begin and end else None


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
"""What tracks below the first of a stream hold; below the first of a thread are deeper calls, with
their depth, further right."""
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
        deeper = _DEEPER.get(track.kind, f"{' ' * min(track.depth, _DEEPEST)} └ {track.depth}")
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
