"""What the colours and letters of a timeline stand for."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from perftui.trace.model import Trace
from perftui_tui.keys.keymap import shown_key
from perftui_tui.screens.timeline.model.event_kinds import EventKind, kind_of
from perftui_tui.screens.timeline.widget import Timeline

_ENTRY_EXTRA = 4
"""Cells of an entry beside its word: the mark and blanks."""


def kinds_in(trace: Trace) -> list[EventKind]:
    """The kinds of work in a trace, in the order of ``EventKind``."""
    count = max(len(trace.names), 1)
    pairs = np.unique(trace.category.astype(np.int64) * count + trace.name).tolist()
    held = {kind_of(trace.categories[p // count], trace.names[p % count]) for p in pairs}
    return [kind for kind in EventKind if kind in held]


def legend(timeline: Timeline, trace: Trace, ascii_only: bool, width: int, hidden: int = 0) -> Text:
    """One entry for each kind of work in ``trace``, in the colours of ``timeline``, and how many
    threads and streams are hidden.

    Lines are at most ``width`` cells and break between entries.
    """
    text, used = Text(), 0
    if hidden:
        words = f"{hidden} hidden: {shown_key('timeline.show_hidden')} shows them  "
        text.append(words, "bold")
        used = len(words)
    for kind in kinds_in(trace):
        cells = len(kind.word) + _ENTRY_EXTRA
        if used and used + cells > width:
            text.append("\n")
            used = 0
        style = timeline.get_component_rich_style(f"timeline--{kind.style}")
        text.append(kind.letter if ascii_only else "█", style).append(f" {kind.word}  ")
        used += cells
    return text
