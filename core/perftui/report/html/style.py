"""The colours of parts and causes on a page; the sheet is ``style.css``. Colour never stands alone:
each thing that is coloured also carries a word."""

from __future__ import annotations

from perftui.analysis.model import GapCause
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES

KERNEL, COMMUNICATION, COPIES = "kernels", "communication", "copies"
"""Kinds of work that are drawn of a stream."""

HUES = {
    # On light so dark that white text on it reaches a contrast of 4.5, on dark the same hue so
    # light that near-black text does: Okabe and Ito's where the parts are seen side by side.
    "orange": ("#8a5a00", "#e69f00"),
    "olive": ("#5c5600", "#f0e442"),
    "blue": ("#0063a0", "#56b4e9"),
    "green": ("#00674a", "#2fb98f"),
    "pink": ("#94396d", "#cc79a7"),
    "violet": ("#5b3fb0", "#b9a7f0"),
    "grey": ("#555c63", "#a6adb4"),
    "red": ("#b03a00", "#ff7f50"),
    "teal": ("#00606b", "#5fc9d4"),
    "brown": ("#7a4a2e", "#d8ae8c"),
    "moss": ("#4d6400", "#b7cc4a"),
    "slate": ("#47566b", "#8fa3bd"),
}

_OF_PART = {
    "input_wait": "orange",
    "loader_start": "olive",
    "forward": "blue",
    "backward": "green",
    "optimizer": "pink",
    "profiler": "violet",
    "operators": "teal",
    KERNEL: "blue",
    COMMUNICATION: "pink",
    COPIES: "teal",
    COMPUTE: "blue",
    EXPOSED_COMMUNICATION: "pink",
    EXPOSED_COPIES: "teal",
    GapCause.INPUT_WAIT.value: "orange",
    GapCause.SYNCHRONISATION.value: "red",
    GapCause.LAUNCH.value: "olive",
    GapCause.PYTHON.value: "green",
    GapCause.CPU_OPERATORS.value: "moss",
    GapCause.ALLOCATION.value: "brown",
    GapCause.COMPILATION.value: "violet",
    GapCause.INITIALISATION.value: "violet",
    GapCause.QUEUED.value: "slate",
}


def hue(part: str) -> str:
    """The class of what shows a part of a step, or an idle cause, by its name."""
    return f"c-{_OF_PART.get(part, 'grey')}"
