"""Which steps of a trace took longer than its others."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.analysis.model import Step

_TENTHS = 11
"""Tenths of the median from which a step is slow: those of a healthy training vary by a few
percent."""


def median_duration(steps: Sequence[Step]) -> int:
    """The duration in ns that half of the steps do not exceed, a real step's; 0 without steps."""
    ordered = sorted(step.duration for step in steps)
    return ordered[(len(ordered) - 1) // 2] if ordered else 0


def slow_from(steps: Sequence[Step]) -> int:
    """The duration in ns from which a step is slow: a tenth above the median, rounded up."""
    return -(-_TENTHS * median_duration(steps) // 10)


def slow_steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps that took at least ``slow_from``, in the order given."""
    bound = slow_from(steps)
    return tuple(step for step in steps if step.duration >= bound > 0)
