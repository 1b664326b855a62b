"""Every key of the app: the one table that feeds bindings, footer and help."""

from __future__ import annotations

from dataclasses import dataclass, replace

SCREENS = ("overview", "timeline", "ops", "diagnosis", "compare", "log")
"""Screens in the order of their digits."""

SHORT_NAMES = ("Over", "Time", "Ops", "Diag", "Comp", "Log")
LONG_NAMES = ("Overview", "Timeline", "Ops", "Diagnosis", "Compare", "Log")


@dataclass(frozen=True)
class Key:
    """One action: its keys (comma-separated, the first is shown), and what it does."""

    keys: str
    action: str
    label: str
    """One or two words for the footer."""
    help: str
    """A sentence for the help panel."""
    in_footer: bool = True
    shown_as: str = ""
    """How the key is written where its name is not what is printed on it."""
    priority: bool = False
    """Whether it works while typing too."""
    scope: str = ""
    """``app``, the screen on which it works, or ``screen.part`` for a part that has the focus."""

    @property
    def display(self) -> str:
        """The key as a person reads it."""
        return self.shown_as or self.keys.split(",")[0]


_BY_SCOPE: dict[str, tuple[Key, ...]] = {
    "app": (
        Key("q", "quit", "Quit", "Quit; asks what to do with a running training"),
        Key("ctrl+q", "quit", "Quit", "The same, also while typing", False, priority=True),
        Key("question_mark,f1", "help", "Help", "These keys, and the screen in words", True, "?"),
        Key("space", "pause", "Pause", "Hold the picture still; the recording goes on"),
        Key("c", "capture", "Capture", "Profile a window of steps now"),
        *(
            Key(str(digit), f"show('{name}')", title, f"The {title} screen", False)
            for digit, (name, title) in enumerate(zip(SCREENS, LONG_NAMES, strict=True), 1)
        ),
        Key("tab", "next_screen(1)", "Next", "The next screen", False, priority=True),
        Key("shift+tab", "next_screen(-1)", "Previous", "The screen before", False, priority=True),
        Key("T", "next_theme", "Theme", "The next colour theme (all are in the palette)", False),
        Key("ctrl+z", "suspend_process", "Suspend", "Back to the shell; `fg` returns", False),
    ),
    "overview": (
        Key("enter", "why", "Why", "The evidence behind the first finding"),
        Key("a", "try_fix", "Try fix", "Run again with the best fix of the first finding"),
        Key("t", "show_gap", "Gap", "Show the largest or selected gap on the timeline"),
        Key("down,j", "select_gap(1)", "Next gap", "The next gap of the list (of a trace)", False),
        Key("up,k", "select_gap(-1)", "Previous gap", "The gap before", False),
    ),
    "timeline": (
        Key("w", "zoom(1)", "In", "Zoom in (or the mouse wheel)"),
        Key("s", "zoom(-1)", "Out", "Zoom out"),
        Key("a,left", "pan(-1)", "Left", "To the left (or drag)", False),
        Key("d,right", "pan(1)", "Right", "To the right", False),
        Key("up", "lane(-1)", "Lane up", "The lane above", False),
        Key("down", "lane(1)", "Lane down", "The lane below", False),
        Key("pageup", "page(-1)", "Lanes up", "A screenful of lanes up", False),
        Key("pagedown", "page(1)", "Lanes down", "A screenful of lanes down", False),
        Key("home", "edge(-1)", "Beginning", "The beginning of the trace", False),
        Key("end", "edge(1)", "End", "The end of the trace", False),
        Key("n", "gap(1)", "Gap", "The next gap of the lane"),
        Key("N", "gap(-1)", "Previous gap", "The gap before", False),
        Key("g", "largest_gap", "Largest", "The largest gap of the device; then the next"),
        Key("plus", "threshold(1)", "Longer", "Count only longer gaps", False, "+"),
        Key("minus", "threshold(-1)", "Shorter", "Count shorter gaps too", False, "-"),
        Key("full_stop", "event(1)", "Event", "The next event of the lane", False, "."),
        Key("comma", "event(-1)", "Event", "The event before", False, ","),
        Key("f", "fit", "Fit", "Fit the selected event or gap; again: everything"),
        Key("0", "whole", "All", "Everything", False),
        Key("right_square_bracket", "follow(1)", "Kernel", "From a call to its kernel", False, "]"),
        Key("left_square_bracket", "follow(-1)", "Launch", "From a kernel to its call", False, "["),
        Key("e,enter", "fold", "Fold", "Show more or fewer depths of the thread", False),
        Key("semicolon", "match(1)", "Match", "The next match", False, ";"),
        Key("colon", "match(-1)", "Match", "The match before", False, ":"),
    ),
    "timeline.search": (
        Key("slash", "search", "Search", "Search events by name", True, "/"),
        Key("escape", "close_search", "Close", "Close the search", False),
    ),
    "ops": (
        Key("k", "kernels", "Ops/kernels", "Change between operators and kernels"),
        Key("slash", "filter", "Filter", "Show only names that contain what you type", True, "/"),
        Key("escape", "close_filter", "Clear", "Show all rows again", False),
    ),
    "ops.table": (
        Key("up", "move(-1)", "Up", "The row above", False),
        Key("down", "move(1)", "Down", "The row below", False),
        Key("pageup", "page(-1)", "Page up", "A page up", False),
        Key("pagedown", "page(1)", "Page down", "A page down", False),
        Key("home", "edge(-1)", "First", "The first row", False),
        Key("end", "edge(1)", "Last", "The last row", False),
        Key("enter", "open", "Timeline", "Show the longest call on the timeline"),
        Key("less_than_sign", "sort(-1)", "Sort", "Sort by the column on the left", True, "<"),
        Key("greater_than_sign", "sort(1)", "Sort", "Sort by the column on the right", False, ">"),
        Key("R", "reverse", "Reverse", "Turn the order round", False),
    ),
    "diagnosis": (
        Key("down,j", "select(1)", "Next", "The next finding", False),
        Key("up,k", "select(-1)", "Previous", "The finding before", False),
        Key("right,l", "choose_fix(1)", "Fix", "The next fix of this finding", False),
        Key("left,h", "choose_fix(-1)", "Fix", "The fix before", False),
        Key("a", "try_fix", "Try", "Run again with this fix; the source stays as it is"),
        Key("w", "write_fix", "Write", "Show this fix as a diff, and write it to the source"),
        Key("u", "undo_fix", "Undo", "Restore the source byte for byte"),
        Key("r", "rerun", "Run again", "Run again with the last fix, or the source as it is"),
        Key("t,enter", "show_evidence", "Timeline", "Show the evidence on the timeline"),
        Key("y", "copy_fix", "Copy", "Copy this fix as a patch", False),
        Key("pagedown", "scroll_details(1)", "Down", "Scroll the evidence down", False),
        Key("pageup", "scroll_details(-1)", "Up", "Scroll the evidence up", False),
    ),
    "compare": (
        Key("w", "write_fix", "Write", "Write the fix that was tried to the source"),
        Key("u", "undo_fix", "Undo", "Restore the source byte for byte"),
        Key("r", "rerun", "Run again", "Run again with the fix tried last"),
        Key("s", "swap", "Swap", "Exchange before and after"),
        Key("b", "baseline", "Baseline", "Choose the run to compare with"),
        Key("down,j", "scroll_figures(1)", "Down", "One row down", False),
        Key("up,k", "scroll_figures(-1)", "Up", "One row up", False),
        Key("pagedown", "scroll_figures(8)", "Down", "Eight rows down", False),
        Key("pageup", "scroll_figures(-8)", "Up", "Eight rows up", False),
    ),
    "log": (
        Key("f,end", "follow", "Follow", "Follow the newest line"),
        Key("slash", "search", "Search", "Search; enter finds the newest, escape ends", True, "/"),
        Key("n", "find(1)", "Next", "The next match"),
        Key("N", "find(-1)", "Previous", "The match before", False),
        Key("down,j", "scroll_lines(1)", "Down", "One line down", False),
        Key("up,k", "scroll_lines(-1)", "Up", "One line up", False),
        Key("pagedown", "scroll_pages(1)", "Page down", "One page down", False),
        Key("pageup", "scroll_pages(-1)", "Page up", "One page up", False),
        Key("home,g", "scroll_top", "Top", "The oldest line kept", False),
        Key("escape", "close_search", "Close", "Close the search", False),
    ),
}

KEYS = tuple(replace(key, scope=scope) for scope, keys in _BY_SCOPE.items() for key in keys)
"""All of them, each with its scope."""
