"""Which part of a training the timeline and the ops speak of."""

from __future__ import annotations

from perftui_tui.keys.keymap import hint
from perftui_tui.reading.snapshot import Phase, Snapshot


def window_note(snapshot: Snapshot) -> str:
    """The window by its first step, or why there is none."""
    if snapshot.is_memory_alone:
        return hint(
            "a memory snapshot holds no times: {app.show('memory')} shows who holds the memory"
        )
    if snapshot.phase is Phase.TRACE:
        return snapshot.title
    rank = snapshot.rank
    if snapshot.analysis is not None:
        step = snapshot.analysis.trace.path.name.split(".", 1)[0]
        return f"window at step {step}" if step.isdecimal() else snapshot.analysis.trace.path.name
    if rank is not None and rank.windows:
        return "the newest window is being read"
    if snapshot.phase.is_live:
        return hint(
            "no window profiled yet: one is after the warm-up, {app.capture} profiles one now"
        )
    return "this run holds no profiled window"
