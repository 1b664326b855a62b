"""Names of phases on screen, and their styles."""

from __future__ import annotations

from perftui.analysis.kinds import OWN_MARK
from perftui_tui.reading.step_breakdown import NAMES, TRACE_STYLES, name_within


def phase_label(name: str) -> str:
    """The name of a phase on screen; ``name`` may have the prefix of the agent's marks."""
    plain = name.removeprefix(OWN_MARK)
    return NAMES.get(plain, plain)


def phase_label_within(name: str, room: int) -> str:
    """The name of a phase, or a shorter one, in at most ``room`` cells; empty where none fits."""
    return name_within(phase_label(name), room)


def phase_style(name: str) -> str:
    """The end of the names of its styles: ``part-...`` is the ground, ``phase-...`` its colour."""
    return TRACE_STYLES.get(name.removeprefix(OWN_MARK), "other")
