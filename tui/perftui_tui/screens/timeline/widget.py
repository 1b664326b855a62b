"""The timeline: tracks of a trace over time, moved by keys."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from perftui.analysis.steps.find import slow_from
from perftui_tui.keys.keymap import bindings, hint
from perftui_tui.look.units import format_ns
from perftui_tui.screens.timeline.canvas.mouse import TimelineMouse

_KEY_ZOOM = 0.5


class Timeline(TimelineMouse, can_focus=True):
    """Changes what its canvas draws by keys, and by the mouse."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("timeline")

    def action_zoom(self, direction: int) -> None:
        """Zoom in (1) or out (-1)."""
        self.act(lambda state: state.zoom(_KEY_ZOOM if direction > 0 else 1 / _KEY_ZOOM))

    def action_pan(self, steps: int) -> None:
        """Pan by a fifth of the view."""
        self.act(lambda state: state.pan(steps))

    def action_lane(self, steps: int) -> None:
        """Select another track."""
        self.act(lambda state: state.move_track(steps))

    def action_page(self, pages: int) -> None:
        """Select a track a screenful away."""
        self.act(lambda state: state.move_track(pages * state.track_rows))

    def action_edge(self, direction: int) -> None:
        """Go to the beginning or the end."""
        self.act(lambda state: state.to_edge(direction))

    def action_gap(self, step: int) -> None:
        """Select the next or previous gap."""
        self.act(lambda state: state.next_gap(step), "no further gap that long on this track")

    def action_largest_gap(self) -> None:
        """Select the largest gap."""
        self.act(lambda state: state.largest_gap(), "no gap on this track")

    def action_event(self, step: int) -> None:
        """Select the next or previous event."""
        self.act(lambda state: state.next_event(step), "no further event on this track")

    def action_same_name(self, step: int) -> None:
        """Select the next or previous event of the same name."""
        selected = self.state.selected if self.state else None
        if selected is None or selected.is_gap:
            keys = hint("{timeline.same_name(-1)} and {timeline.same_name(1)} find its name")
            self.post_message(self.NothingFound(f"select an event first: {keys}"))
            return
        self.act(lambda state: state.same_name(step), "no further event of this name here")

    def action_step(self, step: int) -> None:
        """Show the next or previous step."""
        self.act(lambda state: state.next_step(step), self._no_step("no further step"))

    def action_slow_step(self, step: int) -> None:
        """Show the next or previous step that is slower than the others."""
        steps = self.state.steps if self.state else ()
        bound = format_ns(slow_from(steps))
        missing = f"no further step took {bound} or more, a tenth above the median"
        self.act(lambda state: state.next_slow_step(step), self._no_step(missing))

    def _no_step(self, missing: str) -> str:
        steps = self.state.steps if self.state else ()
        return missing if steps else "no steps are marked in this trace"

    def action_fit(self) -> None:
        """Fit the selection, then everything."""
        self.act(lambda state: state.fit())

    def action_whole(self) -> None:
        """Show everything."""
        self.act(lambda state: state.whole())

    def action_follow(self, step: int) -> None:
        """From a launch to its kernel or back."""
        missing = "no kernel of this event" if step > 0 else "no launch of this event"
        self.act(lambda state: state.follow_launch(step), f"{missing} in the trace")

    def action_fold(self) -> None:
        """Show more or fewer depths of the selected thread."""
        self.act(lambda state: state.fold())

    def action_threshold(self, step: int) -> None:
        """Count only longer or also shorter gaps."""
        self.act(lambda state: state.change_threshold(step))

    def action_match(self, step: int) -> None:
        """Select the next or previous event that the search found."""
        self.act(lambda state: state.next_match(step), "no event with that name")

    def action_mark(self) -> None:
        """Set the first mark, then the second."""
        self.act(lambda state: state.mark())

    def action_measure(self) -> None:
        """Measure the selection, or what is in view."""
        self.act(lambda state: state.mark_selection())

    def action_clear(self) -> None:
        """Take away marks, then matches, then the selection."""
        self.act(lambda state: state.clear())

    def action_hide(self) -> None:
        """Hide the selected thread, stream or device."""
        self.act(lambda state: state.hide_track(), "this is the last one shown")

    def action_show_hidden(self) -> None:
        """Show what was hidden."""
        self.act(lambda state: state.show_hidden(), "nothing is hidden")

    def action_pin(self) -> None:
        """Keep the selected thread, stream or device on top, or no more."""
        self.act(lambda state: state.pin_track())

    def action_reorder(self, step: int) -> None:
        """Move the selected thread, stream or device."""
        self.act(lambda state: state.reorder(step), "it cannot move further")
