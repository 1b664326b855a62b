"""Every key of the app, in one table that feeds bindings, footer and help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.binding import BindingType

    from perftui_tui.snapshot import Snapshot

SCREENS = ("overview", "timeline", "ops", "diagnosis", "compare", "log")
"""Screens in the order of their digits."""

SHORT_NAMES = ("Over", "Time", "Ops", "Diag", "Comp", "Log")
LONG_NAMES = ("Overview", "Timeline", "Ops", "Diagnosis", "Compare", "Log")


@dataclass(frozen=True)
class Key:
    """One action: its keys (comma-separated, the first is shown), and what it does."""

    scope: str
    """``app``, the screen on which it works, or ``screen.part`` for a part that has the focus."""
    keys: str
    action: str
    label: str
    """One or two words for the footer."""
    help: str
    """A sentence for the help panel."""
    in_footer: bool = True
    shown_as: str = ""
    priority: bool = False

    @property
    def display(self) -> str:
        """The key as a person reads it."""
        return self.shown_as or self.keys.split(",")[0]


KEYS = (
    Key(
        "app",
        "q",
        "quit",
        "Quit",
        "Quit; asks what to do with a running training",
    ),
    Key("app", "ctrl+q", "quit", "Quit", "The same, also while typing", False, priority=True),
    Key(
        "app",
        "question_mark,f1",
        "help",
        "Help",
        "These keys, and what this screen shows",
        shown_as="?",
    ),
    Key(
        "app",
        "space",
        "pause",
        "Pause",
        "Hold the picture still; the recording goes on",
        shown_as="space",
    ),
    Key("app", "c", "capture", "Capture", "Profile a window of steps now"),
    *(
        Key("app", str(digit), f"show('{name}')", title, f"The {title} screen", in_footer=False)
        for digit, (name, title) in enumerate(zip(SCREENS, LONG_NAMES, strict=True), 1)
    ),
    Key("app", "tab", "next_screen(1)", "Next", "The next screen", in_footer=False, priority=True),
    Key(
        "app",
        "shift+tab",
        "next_screen(-1)",
        "Previous",
        "The screen before",
        in_footer=False,
        priority=True,
    ),
    Key(
        "app",
        "T",
        "next_theme",
        "Theme",
        "The next colour theme (all are in the palette)",
        in_footer=False,
    ),
    Key(
        "app",
        "ctrl+z",
        "suspend_process",
        "Suspend",
        "Back to the shell; `fg` returns",
        in_footer=False,
    ),
    Key("overview", "enter", "why", "Why", "The evidence behind the first finding"),
    Key("overview", "a", "try_fix", "Try fix", "Run again with the best fix of the first finding"),
    Key("overview", "t", "show_gap", "Gap", "Show the largest or selected gap on the timeline"),
    Key(
        "overview",
        "down,j",
        "select_gap(1)",
        "Next gap",
        "The next gap of the list (of a trace)",
        in_footer=False,
        shown_as="down",
    ),
    Key(
        "overview",
        "up,k",
        "select_gap(-1)",
        "Previous gap",
        "The gap before",
        in_footer=False,
        shown_as="up",
    ),
    Key("timeline", "w", "zoom(1)", "In", "Zoom in (or the mouse wheel)"),
    Key("timeline", "s", "zoom(-1)", "Out", "Zoom out"),
    Key("timeline", "a,left", "pan(-1)", "Left", "To the left (or drag)", False),
    Key("timeline", "d,right", "pan(1)", "Right", "To the right", False),
    Key("timeline", "up", "lane(-1)", "Lane up", "The lane above", False),
    Key("timeline", "down", "lane(1)", "Lane down", "The lane below", False),
    Key("timeline", "pageup", "page(-1)", "Lanes up", "A screenful of lanes up", False),
    Key("timeline", "pagedown", "page(1)", "Lanes down", "A screenful of lanes down", False),
    Key("timeline", "home", "edge(-1)", "Beginning", "The beginning of the trace", False),
    Key("timeline", "end", "edge(1)", "End", "The end of the trace", False),
    Key("timeline", "n", "gap(1)", "Gap", "The next gap of the lane"),
    Key("timeline", "N", "gap(-1)", "Previous gap", "The gap before", False),
    Key("timeline", "g", "largest_gap", "Largest", "The largest gap of the device; then the next"),
    Key("timeline", "plus", "threshold(1)", "Longer", "Count only longer gaps", False, "+"),
    Key("timeline", "minus", "threshold(-1)", "Shorter", "Count shorter gaps too", False, "-"),
    Key("timeline", "full_stop", "event(1)", "Event", "The next event of the lane", False, "."),
    Key("timeline", "comma", "event(-1)", "Event", "The event before", False, ","),
    Key("timeline", "f", "fit", "Fit", "Fit the selected event or gap; again: everything"),
    Key("timeline", "0", "whole", "All", "Everything", False),
    Key(
        "timeline",
        "right_square_bracket",
        "follow(1)",
        "Kernel",
        "From a call to the kernel it launched",
        False,
        "]",
    ),
    Key(
        "timeline",
        "left_square_bracket",
        "follow(-1)",
        "Launch",
        "From a kernel to the call that launched it",
        False,
        "[",
    ),
    Key("timeline", "e,enter", "fold", "Fold", "Show more or fewer depths of the thread", False),
    Key("timeline.search", "slash", "search", "Search", "Search events by name", True, "/"),
    Key("timeline", "semicolon", "match(1)", "Match", "The next match", False, ";"),
    Key("timeline", "colon", "match(-1)", "Match", "The match before", False, ":"),
    Key("timeline.search", "escape", "close_search", "Close", "Close the search", False),
    Key("ops", "k", "kernels", "Ops/kernels", "Change between operators and kernels"),
    Key(
        "ops", "slash", "filter", "Filter", "Show only names that contain what you type", True, "/"
    ),
    Key("ops", "escape", "close_filter", "Clear", "Show all rows again", False),
    Key("ops.table", "up", "move(-1)", "Up", "The row above", False),
    Key("ops.table", "down", "move(1)", "Down", "The row below", False),
    Key("ops.table", "pageup", "page(-1)", "Page up", "A page up", False),
    Key("ops.table", "pagedown", "page(1)", "Page down", "A page down", False),
    Key("ops.table", "home", "edge(-1)", "First", "The first row", False),
    Key("ops.table", "end", "edge(1)", "Last", "The last row", False),
    Key("ops.table", "enter", "open", "Timeline", "Show the longest call on the timeline"),
    Key(
        "ops.table",
        "less_than_sign",
        "sort(-1)",
        "Sort",
        "Sort by the column on the left",
        True,
        "<",
    ),
    Key(
        "ops.table",
        "greater_than_sign",
        "sort(1)",
        "Sort",
        "Sort by the column on the right",
        False,
        ">",
    ),
    Key("ops.table", "R", "reverse", "Reverse", "Turn the order round", False),
    Key(
        "diagnosis",
        "down,j",
        "select(1)",
        "Next",
        "The next finding",
        in_footer=False,
        shown_as="down",
    ),
    Key(
        "diagnosis",
        "up,k",
        "select(-1)",
        "Previous",
        "The finding before",
        in_footer=False,
        shown_as="up",
    ),
    Key(
        "diagnosis",
        "right,l",
        "choose_fix(1)",
        "Fix",
        "The next fix of this finding",
        in_footer=False,
        shown_as="right",
    ),
    Key("diagnosis", "left,h", "choose_fix(-1)", "Fix", "The fix before", in_footer=False),
    Key(
        "diagnosis",
        "a",
        "try_fix",
        "Try",
        "Run again with this fix as an override; the source stays as it is",
    ),
    Key(
        "diagnosis",
        "w",
        "write_fix",
        "Write",
        "Show this fix as a diff, and write it to the source",
    ),
    Key("diagnosis", "u", "undo_fix", "Undo", "Restore the source byte for byte"),
    Key(
        "diagnosis",
        "r",
        "rerun",
        "Run again",
        "Run again with the fix tried last, or as the source is now",
    ),
    Key("diagnosis", "t,enter", "show_evidence", "Timeline", "Show the evidence on the timeline"),
    Key("diagnosis", "y", "copy_fix", "Copy", "Copy this fix as a patch", in_footer=False),
    Key(
        "diagnosis",
        "pagedown",
        "scroll_details(1)",
        "Down",
        "Scroll the evidence down",
        in_footer=False,
    ),
    Key(
        "diagnosis", "pageup", "scroll_details(-1)", "Up", "Scroll the evidence up", in_footer=False
    ),
    Key("compare", "w", "write_fix", "Write", "Write the fix that was tried to the source"),
    Key("compare", "u", "undo_fix", "Undo", "Restore the source byte for byte"),
    Key("compare", "r", "rerun", "Run again", "Run again with the fix tried last"),
    Key("compare", "s", "swap", "Swap", "Exchange before and after"),
    Key("compare", "b", "baseline", "Baseline", "Choose the run to compare with"),
    Key("compare", "down,j", "scroll_figures(1)", "Down", "One row down", in_footer=False),
    Key("compare", "up,k", "scroll_figures(-1)", "Up", "One row up", in_footer=False),
    Key("compare", "pagedown", "scroll_figures(8)", "Down", "Eight rows down", in_footer=False),
    Key("compare", "pageup", "scroll_figures(-8)", "Up", "Eight rows up", in_footer=False),
    Key("log", "f,end", "follow", "Follow", "Follow the newest line"),
    Key(
        "log",
        "slash",
        "search",
        "Search",
        "Search; enter finds the next, escape closes",
        shown_as="/",
    ),
    Key("log", "n", "find(1)", "Next", "The next match"),
    Key("log", "N", "find(-1)", "Previous", "The match before", in_footer=False),
    Key("log", "down,j", "scroll_lines(1)", "Down", "One line down", in_footer=False),
    Key("log", "up,k", "scroll_lines(-1)", "Up", "One line up", in_footer=False),
    Key("log", "pagedown", "scroll_pages(1)", "Page down", "One page down", in_footer=False),
    Key("log", "pageup", "scroll_pages(-1)", "Page up", "One page up", in_footer=False),
    Key("log", "home,g", "scroll_top", "Top", "The oldest line kept", in_footer=False),
)


NEEDS_A_RUN = frozenset({"try_fix", "write_fix", "undo_fix", "rerun", "choose_fix(1)", "swap"})
NEEDS_A_RUN_NOW = frozenset({"capture", "pause"})


def useless_actions(snapshot: Snapshot | None) -> frozenset[str]:
    """Actions that can do nothing with what is shown: a trace, a run that is over, no gaps."""
    if snapshot is None:
        return frozenset()
    useless = frozenset() if snapshot.phase.is_live else NEEDS_A_RUN_NOW
    if snapshot.run is None:
        useless |= NEEDS_A_RUN
    has_gaps = snapshot.analysis is not None and bool(snapshot.analysis.gaps)
    return useless if has_gaps else useless | {"show_gap"}


def keys_of(scope: str) -> tuple[Key, ...]:
    """The rows of the table for one scope."""
    return tuple(key for key in KEYS if key.scope == scope)


def keys_on(screen: str) -> tuple[Key, ...]:
    """The rows of the table for a screen and all its parts."""
    return tuple(key for key in KEYS if key.scope.partition(".")[0] == screen)


def bindings(scope: str) -> list[BindingType]:
    """The bindings of one scope."""
    from textual.binding import Binding

    return [
        Binding(
            key.keys,
            key.action,
            key.label,
            show=key.in_footer,
            key_display=key.display,
            priority=key.priority,
            tooltip=key.help,
        )
        for key in keys_of(scope)
    ]
