"""Every key of the app: the one table that feeds bindings, footer and help."""

from __future__ import annotations

from dataclasses import dataclass, replace

LONG_NAMES = (
    *("Overview", "Timeline", "Ops", "Diagnosis", "Compare", "Log", "Memory", "Ranks", "Runs"),
)
"""Screens as a person reads them, in the order of their digits."""

SHORT_NAMES = ("Over", "Time", "Ops", "Diag", "Comp", "Log", "Mem", "Rank", "Runs")
SCREENS = tuple(name.lower() for name in LONG_NAMES)


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
    """The key's text, where its name is not what is printed on it."""
    priority: bool = False
    """Whether the key works while typing too."""
    scope: str = ""
    """``app``, the screen on which it works, or ``screen.part`` for a part that has the focus."""

    @property
    def name(self) -> str:
        """The name of the action in the file of a person's own keys."""
        return f"{self.scope}.{self.action}"

    @property
    def display(self) -> str:
        """The key as a person reads it."""
        return self.shown_as or self.keys.split(",")[0]


def _table(enter: Key, sort_in_footer: bool = False) -> tuple[Key, ...]:
    """The keys of every table; ``enter`` opens the selected row."""
    sort = "Sort by the column on the left"
    return (
        Key("up", "move(-1)", "Up", "The row above", False),
        Key("down", "move(1)", "Down", "The row below", False),
        Key("pageup", "page(-1)", "Page up", "A page up", False),
        Key("pagedown", "page(1)", "Page down", "A page down", False),
        Key("home", "edge(-1)", "First", "The first row", False),
        Key("end", "edge(1)", "Last", "The last row", False),
        enter,
        Key("less_than_sign", "sort(-1)", "Sort", sort, sort_in_footer, "<"),
        Key("greater_than_sign", "sort(1)", "Sort", "Sort by the column on the right", False, ">"),
        Key("R", "reverse", "Reverse", "Reverse the order", False),
    )


_COPY_TEXT = Key("y", "copy", "Copy", "Copy the text of this screen", False)
_TAKE_ROWS = (
    Key("y", "screen.copy", "Copy", "Copy the selected row", False),
    Key("s", "screen.save_table", "Save", "Save the table as CSV, with all columns", False),
)

_BY_SCOPE: dict[str, tuple[Key, ...]] = {
    "app": (
        Key("q", "quit", "Quit", "Quit; asks what to do with a running training"),
        Key("ctrl+q", "app.quit", "Quit", "Quit, also while typing", False, priority=True),
        Key("x,escape", "close_notice", "Close", "Close the message (or click it)", False),
        Key("ctrl+c", "interrupt", "Quit", "Copy selected text, else quit", False, priority=True),
        Key("question_mark,f1", "help", "Help", "Show keys and explain this screen", True, "?"),
        Key("space", "pause", "Pause", "Freeze the display; the recording goes on"),
        Key("c", "capture", "Capture", "Profile a window of steps now"),
        Key("P", "playback", "Play", "Play a saved run; again: keys to the bar, or back"),
        Key("C", "study", "Charts", "Full-screen charts: steps, memory, machine (or click)", False),
        Key("X", "trial", "Trial", "Show the trial, tuning or probe, and its result", False),
        Key("B", "probe", "Probe", "Measure peak disk, copy, memory and matmul rates", False),
        *(
            Key(str(digit), f"show('{name}')", title, f"The {title} screen", False)
            for digit, (name, title) in enumerate(zip(SCREENS, LONG_NAMES, strict=True), 1)
        ),
        Key("tab", "next_screen(1)", "Next", "The next screen", False, priority=True),
        Key("shift+tab", "next_screen(-1)", "Previous", "The screen before", False, priority=True),
        Key("backspace", "return", "Back", "Back to the previous place"),
        Key("S", "picture", "Picture", "Save a screenshot (SVG) and show its path", False),
        Key("T", "next_theme", "Theme", "The next colour theme (all are in the palette)", False),
        Key("ctrl+z", "suspend_process", "Suspend", "Suspend; fg returns", False, priority=True),
    ),
    "app.bar": (
        Key("space", "play", "Play", "Play or pause"),
        Key("right", "step(1)", "Step", "Forward to the end of the next step", True, "→"),
        Key("left", "step(-1)", "Back", "The previous step", True, "←"),
        Key("shift+right", "step(10)", "10 steps", "Forward ten steps", False),
        Key("shift+left", "step(-10)", "10 back", "Back ten steps", False),
        Key("plus,up", "faster(1)", "Faster", "Play faster", True, "+"),
        Key("minus,down", "faster(-1)", "Slower", "Play slower", False, "-"),
        Key("home", "edge(0)", "Start", "The start of the run", False),
        Key("end", "edge(1)", "End", "The end of the run", False),
        Key("escape", "leave", "Leave", "Leave playback: show the whole run", True, "esc"),
    ),
    "app.study": (
        Key("n,down", "change(1)", "Next chart", "The next chart"),
        Key("N,up", "change(-1)", "Previous", "The previous chart", False),
        Key("right,l", "cursor(1)", "Right", "Move the cursor one point right", True, "→"),
        Key("left,h", "cursor(-1)", "Left", "Move the cursor one point left", True, "←"),
        Key("shift+right", "cursor(10)", "10 right", "Ten points right", False),
        Key("shift+left", "cursor(-10)", "10 left", "Ten points left", False),
        Key("home", "edge(0)", "First", "The first point", False),
        Key("end", "edge(1)", "Last", "The last point", False),
        Key("plus,w", "zoom(1)", "In", "Zoom in at the cursor (or the wheel)", True, "+"),
        Key("minus,s", "zoom(-1)", "Out", "Zoom out", True, "-"),
        Key("0", "whole", "All", "Show the whole run"),
        Key("question_mark,f1", "help", "Help", "Show these keys", True, "?"),
        Key("escape,q,C", "close", "Close", "Back to the screen", True, "esc"),
    ),
    "overview": (
        Key("enter", "why", "Why", "The evidence behind the first finding"),
        Key("a", "try_fix", "Try fix", "Try the best fix of the first finding that has one"),
        Key("p", "prove_fix", "Prove", "Prove that fix with pairs of runs; source untouched"),
        Key("w", "write_fix", "Write", "Show that fix as a diff, and write it to the source"),
        Key("u", "undo_fix", "Undo", "Restore the source byte for byte"),
        Key("r", "rerun", "Run again", "Run again with the last fix, or the current source"),
        Key("t", "show_gap", "Gap", "Show the largest or selected gap on the timeline"),
        Key("down,j", "select_gap(1)", "Next gap", "The next gap in the list (traces)", False),
        Key("up,k", "select_gap(-1)", "Previous gap", "The previous gap", False),
        _COPY_TEXT,
    ),
    "timeline": (
        Key("w", "zoom(1)", "In", "Zoom in (or the mouse wheel)"),
        Key("s", "zoom(-1)", "Out", "Zoom out"),
        Key("a,left,h", "pan(-1)", "Left", "Move left (or drag)", False),
        Key("d,right,l", "pan(1)", "Right", "Move right", False),
        Key("up,k", "track(-1)", "Track up", "The track above", False),
        Key("down,j", "track(1)", "Track down", "The track below", False),
        Key("pageup", "page(-1)", "Tracks up", "A screenful of tracks up", False),
        Key("pagedown", "page(1)", "Tracks down", "A screenful of tracks down", False),
        Key("home", "edge(-1)", "Beginning", "The start of the trace", False),
        Key("end", "edge(1)", "End", "The end of the trace", False),
        Key("n", "gap(1)", "Gap", "The next gap on the track"),
        Key("N", "gap(-1)", "Previous gap", "The previous gap", False),
        Key("g", "largest_gap", "Largest", "The largest gap of the device; again: the next"),
        Key("plus", "threshold(1)", "Longer", "Show only longer gaps", False, "+"),
        Key("minus", "threshold(-1)", "Shorter", "Show shorter gaps too", False, "-"),
        Key("full_stop", "event(1)", "Event", "The next event or sample on the track", False, "."),
        Key("comma", "event(-1)", "Event", "The previous event or sample", False, ","),
        Key("greater_than_sign", "same_name(1)", "Name", "The next of its name", False, ">"),
        Key("less_than_sign", "same_name(-1)", "Name", "The previous of its name", False, "<"),
        Key("right_parenthesis", "step(1)", "Step", "The next step", False, ")"),
        Key("left_parenthesis", "step(-1)", "Step", "The previous step", False, "("),
        Key("right_curly_bracket", "slow_step(1)", "Slow", "The next slow step", False, "}"),
        Key("left_curly_bracket", "slow_step(-1)", "Slow", "The previous slow step", False, "{"),
        Key("f", "fit", "Fit", "Fit the selected event or gap; again: everything"),
        Key("0", "whole", "All", "Everything", False),
        Key("right_square_bracket", "follow(1)", "Kernel", "From a call to its kernel", False, "]"),
        Key("left_square_bracket", "follow(-1)", "Launch", "From a kernel to its call", False, "["),
        Key("m", "mark", "Mark", "Set a mark; a second mark measures the range"),
        Key("M", "measure", "Measure", "Measure the selection, or the visible range", False),
        Key("e,enter", "fold", "Fold", "Open or fold a thread, counters or quiet threads", False),
        Key("H", "hide", "Hide", "Hide the thread, stream or device", False),
        Key("U", "show_hidden", "Unhide", "Show all hidden tracks", False),
        Key("J", "reorder(1)", "Move down", "Move the thread or stream down", False),
        Key("K", "reorder(-1)", "Move up", "Move the thread or stream up", False),
        Key("p", "pin", "Pin", "Pin the thread or stream on top; again: unpin", False),
        Key("semicolon", "match(1)", "Match", "The next match", False, ";"),
        Key("colon", "match(-1)", "Match", "The previous match", False, ":"),
    ),
    "timeline.search": (
        Key("slash", "search", "Search", "Search events by name; goes to the longest", True, "/"),
        Key("escape", "close_search", "Close", "Close the search; clear marks, matches", False),
        Key("v", "scroll_detail(1)", "More", "Scroll the detail down (or the wheel)", False),
        Key("V", "scroll_detail(-1)", "Back", "Scroll the detail up", False),
        Key("i", "tall_detail", "Detail", "Toggle half the screen for the detail", False),
        Key("y", "copy_detail", "Copy", "Copy the detail", False),
        Key("r", "all_ranks", "Ranks", "All ranks in one timeline; again: only this one", False),
    ),
    "ops": (
        Key("g", "group(1)", "Group", "Group operators by name, shapes, module or line"),
        Key("G", "group(-1)", "Group", "The previous grouping", False),
        Key("v", "tree", "Tree", "Switch between table and call tree"),
        Key("k", "kernels", "Kernels", "Switch between operators and kernels"),
        Key("r", "roofline", "Roofline", "Switch between operators and the roofline of a step"),
        Key("n", "sums", "Ranges", "Ranges by name (NVTX), then CUDA calls, then operators"),
        Key("slash", "filter", "Filter", "Show only names that contain what you type", True, "/"),
        Key("o", "open", "Open", "Open the selected row, also in the tree", False),
        Key("t", "timeline", "Timeline", "Show the longest call on the timeline", False),
        Key("E", "heaviest", "Heaviest", "Unfold the heaviest path of the tree", False),
        Key("s", "save", "Save", "Save the table as CSV, with all columns"),
        Key("y", "copy('name')", "Copy", "Copy the name, or the open page", False),
        Key("Y", "copy('table')", "Copy table", "Copy the table as CSV", False),
        Key("escape", "back", "Back", "Close the page, or show all rows again", False),
    ),
    "ops.table": (
        *_table(
            Key("enter", "open", "Open", "Its kernels, callers and places; in the tree: unfold"),
            True,
        ),
        Key("right", "branch(1)", "Unfold", "In the tree: show what it calls", False, "→"),
        Key("left", "branch(-1)", "Fold", "In the tree: fold, or go to its caller", False, "←"),
    ),
    "ops.detail": (
        Key("up", "move(-1)", "Up", "The previous line that opens something", False),
        Key("down", "move(1)", "Down", "The next line that opens something", False),
        Key("pageup", "page(-1)", "Page up", "A page up", False),
        Key("pagedown", "page(1)", "Page down", "A page down", False),
        Key("home", "edge(-1)", "First", "The first such line", False),
        Key("end", "edge(1)", "Last", "The last such line", False),
        Key("enter", "open", "Go", "Open the kernel or caller, or the timeline"),
        Key("backspace", "leave", "Back", "Back to where it was opened", True),
    ),
    "diagnosis": (
        Key("down,j", "select(1)", "Next", "The next finding", False),
        Key("up,k", "select(-1)", "Previous", "The previous finding", False),
        Key("right,l", "choose_fix(1)", "Fix", "The next fix of this finding", False),
        Key("left,h", "choose_fix(-1)", "Fix", "The previous fix", False),
        Key("a", "try_fix", "Try", "Try this fix, in one run or pairs; source untouched"),
        Key("p", "prove_fix", "Prove", "Prove this fix with pairs of runs; source untouched"),
        Key("A", "tune", "Tune", "Try all fixes one by one, write those proven"),
        Key("w", "write_fix", "Write", "Show this fix as a diff, and write it to the source"),
        Key("u", "undo_fix", "Undo", "Restore the source byte for byte"),
        Key("r", "rerun", "Run again", "Run again with the last fix, or the current source"),
        Key("e", "unfold", "Evidence", "Unfold the evidence, or fold it away (or click)"),
        Key("t,enter", "show_evidence", "Timeline", "Show the evidence on the timeline"),
        Key("y", "copy_fix", "Copy", "Copy this fix as a patch", False),
        Key("pagedown", "scroll_details(1)", "Down", "Scroll the evidence down", False),
        Key("pageup", "scroll_details(-1)", "Up", "Scroll the evidence up", False),
    ),
    "compare": (
        Key("p", "prove_fix", "Prove", "Prove the tried fix or your own edit with pairs of runs"),
        Key("w", "write_fix", "Write", "Write the tried fix to the source"),
        Key("u", "undo_fix", "Undo", "Restore the source byte for byte"),
        Key("r", "rerun", "Run again", "Run again with the fix tried last"),
        _COPY_TEXT,
        Key("s", "swap", "Swap", "Swap before and after"),
        Key("b", "baseline", "Baseline", "Choose the run or trace to compare with"),
        Key("down,j", "scroll_figures(1)", "Down", "One row down", False),
        Key("up,k", "scroll_figures(-1)", "Up", "One row up", False),
        Key("pagedown", "scroll_figures(8)", "Down", "Eight rows down", False),
        Key("pageup", "scroll_figures(-8)", "Up", "Eight rows up", False),
        Key("home", "scroll_figures(-9999)", "Top", "The first row", False),
        Key("end", "scroll_figures(9999)", "Bottom", "The last row", False),
    ),
    "log": (
        Key("y", "copy", "Copy", "Copy the visible lines", False),
        Key("f,end", "follow", "Follow", "Follow the newest line"),
        Key(
            "slash", "search", "Search", "Search; enter finds the newest, escape closes", True, "/"
        ),
        Key("n", "find(1)", "Next", "The next match"),
        Key("N", "find(-1)", "Previous", "The previous match", False),
        Key("down,j", "scroll_lines(1)", "Down", "One line down", False),
        Key("up,k", "scroll_lines(-1)", "Up", "One line up", False),
        Key("pagedown", "scroll_pages(1)", "Page down", "One page down", False),
        Key("pageup", "scroll_pages(-1)", "Page up", "One page up", False),
        Key("right,l", "scroll_sideways(1)", "Right", "More of long lines", False, "→"),
        Key("left,h", "scroll_sideways(-1)", "Left", "Back to their beginning", False, "←"),
        Key("home,g", "scroll_top", "Top", "The oldest line", False),
        Key("escape", "close_search", "Close", "Close the search", False),
    ),
    "memory": (
        _COPY_TEXT,
        Key("down,j", "scroll_sites(1)", "Down", "One row down", False),
        Key("up,k", "scroll_sites(-1)", "Up", "One row up", False),
        Key("pagedown", "scroll_sites(8)", "Down", "Eight rows down", False),
        Key("pageup", "scroll_sites(-8)", "Up", "Eight rows up", False),
    ),
    "ranks.table": (
        *_table(Key("enter", "open", "Show", "Show this rank on all screens")),
        *_TAKE_ROWS,
    ),
    "runs": (
        Key("n", "rename", "Name", "Name the selected run; empty removes the name"),
        Key("d", "delete", "Delete", "Delete the selected run, after confirmation"),
        Key("slash", "filter", "Filter", "Show only runs that contain what you type", True, "/"),
        Key("escape", "close_input", "Close", "Show all runs again, or cancel naming", False),
    ),
    "runs.table": (
        *_table(Key("enter", "open", "Open", "Show this run; watch it if it is running")),
        *_TAKE_ROWS,
    ),
}

KEYS = tuple(replace(key, scope=scope) for scope, keys in _BY_SCOPE.items() for key in keys)
"""All keys, each with its scope."""
