"""Ramps of characters that fill a cell step by step, and how a value picks its step."""

from __future__ import annotations

LOWER_EIGHTHS = " ▁▂▃▄▅▆▇█"
"""Fill a cell from below."""

LEFT_EIGHTHS = " ▏▎▍▌▋▊▉█"
"""Fill a cell from the left."""

ASCII_LEVELS = " .:#"
"""Fill a cell where the terminal's font has no blocks."""


def filled_steps(fraction: float, steps: int) -> int:
    """How many of ``steps`` to fill for ``fraction`` (clamped to 0..1).

    Nothing is filled only for 0 and everything only for 1, so that a little work never looks idle
    and a short gap never looks busy. Needs ``steps`` of at least 2; one step is on or off.
    """
    if fraction <= 0:
        return 0
    if fraction >= 1 or steps < 2:
        return steps
    return min(max(round(fraction * steps), 1), steps - 1)


def block_bar(fraction: float, width: int) -> str:
    """``fraction`` of ``width`` cells, filled from the left to an eighth of a cell."""
    steps = filled_steps(fraction, width * 8)
    full, rest = divmod(steps, 8)
    return ("█" * full + (LEFT_EIGHTHS[rest] if rest else "")).ljust(width)
