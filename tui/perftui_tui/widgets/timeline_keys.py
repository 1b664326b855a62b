"""Keys of the timeline, as in Perfetto where it has them."""

from __future__ import annotations

from textual.binding import Binding, BindingType

TIMELINE_KEYS: list[BindingType] = [
    Binding("w", "zoom(1)", "Zoom in", id="timeline.zoom_in"),
    Binding("s", "zoom(-1)", "Zoom out", id="timeline.zoom_out"),
    Binding("a,left", "pan(-1)", "Left", id="timeline.left"),
    Binding("d,right", "pan(1)", "Right", id="timeline.right"),
    Binding("up", "lane(-1)", "Lane up", show=False, id="timeline.lane_up"),
    Binding("down", "lane(1)", "Lane down", show=False, id="timeline.lane_down"),
    Binding("pageup", "page(-1)", "Lanes up", show=False, id="timeline.page_up"),
    Binding("pagedown", "page(1)", "Lanes down", show=False, id="timeline.page_down"),
    Binding("home", "edge(-1)", "Beginning", show=False, id="timeline.beginning"),
    Binding("end", "edge(1)", "End", show=False, id="timeline.end"),
    Binding("n", "gap(1)", "Next gap", id="timeline.next_gap"),
    Binding("N", "gap(-1)", "Previous gap", show=False, id="timeline.previous_gap"),
    Binding("g", "largest_gap", "Largest gap", id="timeline.largest_gap"),
    Binding("full_stop", "event(1)", "Next event", key_display=".", id="timeline.next_event"),
    Binding(
        "comma",
        "event(-1)",
        "Previous event",
        show=False,
        key_display=",",
        id="timeline.previous_event",
    ),
    Binding("f", "fit", "Fit", id="timeline.fit"),
    Binding("0", "whole", "All", id="timeline.whole"),
    Binding(
        "right_square_bracket",
        "follow(1)",
        "Kernel",
        key_display="]",
        id="timeline.kernel",
    ),
    Binding("left_square_bracket", "follow(-1)", "Launch", key_display="[", id="timeline.launch"),
    Binding("e,enter", "fold", "Fold/unfold", id="timeline.fold"),
    Binding(
        "plus", "threshold(1)", "Longer gaps", show=False, key_display="+", id="timeline.longer"
    ),
    Binding(
        "minus",
        "threshold(-1)",
        "Shorter gaps",
        show=False,
        key_display="-",
        id="timeline.shorter",
    ),
    Binding(
        "semicolon",
        "match(1)",
        "Next match",
        show=False,
        key_display=";",
        id="timeline.next_match",
    ),
    Binding(
        "colon",
        "match(-1)",
        "Previous match",
        show=False,
        key_display=":",
        id="timeline.previous_match",
    ),
]
