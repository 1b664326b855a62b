"""The rows above the tracks: minimap, ruler, steps, phases, gaps, and what is marked or found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from perftui.analysis.timeline.track import THREAD, TimelineTrack, TrackIndex, edges
from perftui_tui.charts.cells import ASCII_LEVELS, LOWER_EIGHTHS, exact_ns, filled_steps, ruler
from perftui_tui.look.format import format_count, format_ns
from perftui_tui.look.rows import Row
from perftui_tui.reading.step_breakdown import name_within
from perftui_tui.screens.timeline.gaps import bracketed, largest_gap_row
from perftui_tui.screens.timeline.navigation import Matches, Selection, TimeMarks, Viewport
from perftui_tui.screens.timeline.state import Phases, TimelineState
from perftui_tui.screens.timeline.track_cells import (
    BLANK,
    Cell,
    DrawnTracks,
    Glyphs,
    KindsOfTrace,
    merged,
    phase_label,
    phase_style,
    put,
)

_NAMED_FROM = 4
"""Cells from which on a phase has its name in it."""


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
        if name and length >= _NAMED_FROM:
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


MINIMAP, RULER, STEPS, PHASES, GAPS = "minimap", "ruler", "steps", "phases", "gaps"
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
        rows.append((STEPS, ("steps",), _steps(scene, view, columns)))
    if scene.phases:
        rows.append((PHASES, ("phases",), phase_cells(scene.phases, view, columns, glyphs)))
    largest = state.track.index.largest_gap(view.start, view.end, columns)
    gaps = largest_gap_row(largest, state.threshold, glyphs.ascii_only)
    rows.append((GAPS, (f"gaps>{least}", f">{least}"), [(glyph, "gap") for glyph in gaps]))
    if state.marks != TimeMarks():
        rows.append((RANGE, ("marks",), _range(state.marks, view, columns)))
    if state.matches is not None:
        begun = np.searchsorted(state.matches.starts, edges(view.start, view.end, columns))
        found = [("▾", "match-mark") if count else BLANK for count in np.diff(begun).tolist()]
        rows.append((FOUND, _match_label(state.matches, state.selected), found))
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
    put(cells, 0, _without_label_at(text, place), "muted")
    put(cells, place, "▼", "pointer")
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


def _match_label(matches: Matches, selected: Selection | None) -> tuple[str, ...]:
    place = matches.place(selected.row) if selected is not None else None
    count = format_count(len(matches))
    of_all = () if place is None else (f"found {place + 1:,}/{count}", f"{place + 1:,}/{count}")
    return *of_all, f"found {count}", count, "found"
