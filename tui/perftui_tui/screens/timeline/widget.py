"""The timeline: tracks of a trace over time, moved by keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Concatenate, ParamSpec

from textual.binding import BindingType

from perftui.analysis.steps import slow_from
from perftui_tui.keys.keymap import bindings, hint
from perftui_tui.look.units import format_ns
from perftui_tui.screens.timeline.canvas.mouse import TimelineMouse
from perftui_tui.screens.timeline.model.state import TimelineState

_KEY_ZOOM = 0.5

_Given = ParamSpec("_Given")


def _action(
    change: Callable[Concatenate[TimelineState, _Given], object], missing: str = ""
) -> Callable[Concatenate[Timeline, _Given], None]:
    """An action that changes the state; ``missing`` is shown where that did nothing."""

    def act(timeline: Timeline, /, *given: _Given.args, **named: _Given.kwargs) -> None:
        timeline.act(lambda state: change(state, *given, **named), missing)

    return act


class Timeline(TimelineMouse, can_focus=True):
    """Changes what its canvas draws by keys, and by the mouse."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("timeline")

    action_pan = _action(TimelineState.pan)
    action_track = _action(TimelineState.move_track)
    action_edge = _action(TimelineState.to_edge)
    action_gap = _action(TimelineState.next_gap, "no more gaps that long on this track")
    action_largest_gap = _action(TimelineState.largest_gap, "no gaps on this track")
    action_event = _action(TimelineState.next_event, "no more events on this track")
    action_fit = _action(TimelineState.fit)
    action_whole = _action(TimelineState.whole)
    action_fold = _action(TimelineState.fold)
    action_threshold = _action(TimelineState.change_threshold)
    action_longest_match = _action(TimelineState.longest_match, "no event has that name")
    action_match = _action(TimelineState.next_match, "no event has that name")
    action_mark = _action(TimelineState.mark)
    action_measure = _action(TimelineState.mark_selection)
    action_clear = _action(TimelineState.clear)
    action_hide = _action(TimelineState.hide_track, "this is the last track shown")
    action_show_hidden = _action(TimelineState.show_hidden, "nothing is hidden")
    action_pin = _action(TimelineState.pin_track)
    action_reorder = _action(TimelineState.reorder, "this track cannot move further")

    def action_zoom(self, direction: int) -> None:
        """Zoom in (1) or out (-1)."""
        self.act(lambda state: state.zoom(_KEY_ZOOM if direction > 0 else 1 / _KEY_ZOOM))

    def action_page(self, pages: int) -> None:
        """Select a track a screenful away."""
        self.act(lambda state: state.move_track(pages * state.track_rows))

    def action_same_name(self, step: int) -> None:
        """Select the next or previous event of the same name."""
        selected = self.state.selected if self.state else None
        if selected is None or selected.is_gap:
            keys = hint("{timeline.same_name(-1)} and {timeline.same_name(1)} find more like it")
            self.nothing_found(f"select an event first: {keys}")
            return
        self.act(lambda state: state.same_name(step), "no more events with this name")

    def action_step(self, step: int) -> None:
        """Show the next or previous step."""
        self.act(lambda state: state.next_step(step), self._no_step("no more steps"))

    def action_slow_step(self, step: int) -> None:
        """Show the next or previous step that is slower than the others."""
        steps = self.state.steps if self.state else ()
        bound = format_ns(slow_from(steps))
        missing = f"no more steps took {bound} or more (10 % above the median)"
        self.act(lambda state: state.next_slow_step(step), self._no_step(missing))

    def _no_step(self, missing: str) -> str:
        steps = self.state.steps if self.state else ()
        return missing if steps else "no steps are marked in this trace"

    def action_follow(self, step: int) -> None:
        """From a launch to its kernel or back."""
        missing = "no kernel of this event" if step > 0 else "no launch of this event"
        self.act(lambda state: state.follow_launch(step), f"{missing} in the trace")
