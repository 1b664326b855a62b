"""What phases are called on screen, and the styles that they have everywhere."""

from __future__ import annotations

from perftui.analysis.kinds import OWN_MARK
from perftui_tui.reading.step_breakdown import NAMES, TRACE_STYLES, name_within


def phase_label(name: str) -> str:
    """What a person calls a phase; also one that is named as the agent marks it."""
    plain = name.removeprefix(OWN_MARK)
    return NAMES.get(plain, plain)


def phase_label_within(name: str, room: int) -> str:
    """The same, or a shorter word, in at most ``room`` cells; empty where none fits."""
    return name_within(phase_label(name), room)


def phase_style(name: str) -> str:
    """The end of the names of its styles: ``part-...`` is the ground, ``phase-...`` its colour."""
    return TRACE_STYLES.get(name.removeprefix(OWN_MARK), "other")
