"""Colours of the timeline: one for each kind of work, readable on dark, light and 16 colours."""

from __future__ import annotations

from perftui_tui.screens.timeline.model.event_kinds import EventKind

MARKS = (
    "label",
    "selected-label",
    "muted",
    "view",
    "pointer",
    "step",
    "gap",
    "selected",
    "linked",
    "arrow",
    "mark",
    "match",
    "match-mark",
)
"""Styles that stand for no kind of work."""

COMPONENTS = {f"timeline--{name}" for name in (*MARKS, *(kind.style for kind in EventKind))}

# On dark: Okabe and Ito's hues, spread in lightness. On light: the same hues darkened to a contrast
# of 4.5 with white. With 16 colours kinds that share a device track have each their own.
_COLOURS = {
    EventKind.GEMM: ("#56b4e9", "#0063a0", "ansi_cyan"),
    EventKind.ATTENTION: ("#cc79a7", "#94396d", "ansi_magenta"),
    EventKind.NORM: ("#f0e442", "#6b6400", "ansi_bright_yellow"),
    EventKind.ELEMENTWISE: ("#2fb98f", "#00674a", "ansi_green"),
    EventKind.COMMUNICATION: ("#ff7f50", "#b03a00", "ansi_red"),
    EventKind.COPY: ("#e69f00", "#8a5a00", "ansi_yellow"),
    EventKind.OPTIMIZER: ("#b9a7f0", "#5b3fb0", "ansi_bright_blue"),
    EventKind.KERNEL: ("#d5dbe0", "#3d444b", "ansi_white"),
    EventKind.OPERATOR: ("#7fa8c9", "#2f5f86", "ansi_blue"),
    EventKind.RUNTIME: ("#8c959d", "#5c646b", "ansi_bright_black"),
    EventKind.WAIT: ("#ff9d9d", "#b3261e", "ansi_bright_red"),
    EventKind.PYTHON: ("#9ccc65", "#45701c", "ansi_bright_green"),
    EventKind.RANGE: ("#b0a08a", "#6a5a44", "ansi_bright_magenta"),
}


def component_css() -> str:
    """Rules for every component class of the timeline, nested in its own."""
    rules = []
    for kind, (dark, light, ansi) in _COLOURS.items():
        name = f"& > .timeline--{kind.style}"
        rules.append(f"{name} {{ color: {dark}; }}")
        rules.append(f"&:light > .timeline--{kind.style} {{ color: {light}; }}")
        rules.append(f"&:ansi > .timeline--{kind.style} {{ color: {ansi}; }}")
    return "\n".join(rules)
