"""The arrow from a launching call to what it launched, drawn over the tracks between them."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.trace.model import NONE
from perftui_tui.look.units import format_ns
from perftui_tui.screens.timeline.model import navigation
from perftui_tui.screens.timeline.model.cells import Cell
from perftui_tui.screens.timeline.model.navigation import Selection
from perftui_tui.screens.timeline.model.state import TimelineState
from perftui_tui.screens.timeline.model.track_groups import ShownTrack
from perftui_tui.screens.timeline.model.viewport import Viewport

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
    ends = [navigation.track_of(state.tracks, state.trace, row) for row in (call, work)]
    if ends[0] is None or ends[1] is None:
        return None
    return Launch(
        navigation.event(state.trace, ends[0], call), navigation.event(state.trace, ends[1], work)
    )


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
