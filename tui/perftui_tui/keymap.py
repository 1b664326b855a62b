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
    """``app``, or the screen on which it works."""
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
    Key("diagnosis", "t", "show_evidence", "Timeline", "Show the evidence on the timeline"),
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
    """Actions that can do nothing with what is shown: a trace, or a run that is over."""
    if snapshot is None or snapshot.phase.is_live:
        return frozenset()
    return NEEDS_A_RUN_NOW | (NEEDS_A_RUN if snapshot.run is None else frozenset())


def keys_of(scope: str) -> tuple[Key, ...]:
    """The rows of the table for one scope."""
    return tuple(key for key in KEYS if key.scope == scope)


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
