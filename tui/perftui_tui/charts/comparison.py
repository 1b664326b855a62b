"""Charts of two runs: the distributions of their step times, and each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perftui_tui.charts.run_charts import (
    Chart,
    Floats,
    Series,
    aggregates_note,
    binned,
    durations_of,
    index_of,
    quantile_of,
)
from perftui_tui.look.units import format_ns

if TYPE_CHECKING:
    from perftui_tui.reading.snapshot import Snapshot

BEFORE, AFTER = 1, 0
"""Styles of the two runs, as on the Compare screen."""


def comparison_charts(before: Snapshot, after: Snapshot) -> tuple[Chart, ...]:
    """Both runs on one scale; nothing where one of them has no step."""
    pair = durations_of(before), durations_of(after)
    if not all(map(len, pair)):
        return ()
    levels = tuple(
        (f"{name} p50", quantile_of(one, 50))
        for name, one in zip(("before", "after"), pair, strict=True)
    )
    notes = {
        f"{name}: {note}"
        for name, one in (("before", before), ("after", after))
        if (note := aggregates_note(one))
    }
    note = "; ".join(sorted(notes, reverse=True))
    steps = index_of(before, len(pair[0])), index_of(after, len(pair[1]))
    return _distributions(*pair, levels, note), _step_times(*steps, *pair, levels, note)


def _pair(before: Floats, after: Floats) -> tuple[Series, Series]:
    return Series("before", before, BEFORE), Series("after", after, AFTER)


def _distributions(
    before: Floats, after: Floats, levels: tuple[tuple[str, float], ...], note: str
) -> Chart:
    """The share of each run's steps in bins of equal length; the last has what lies far above."""
    middles, counts, top, beyond = binned(before, after)
    longer = f"{beyond[0]:,} before and {beyond[1]:,} after exceed {format_ns(top)}"
    above = f"{longer}, in the last bar" if any(beyond) else ""
    return Chart(
        "compare",
        "Step times of both runs",
        middles,
        "step time",
        _pair(*(100 * one / one.sum() for one in counts)),
        lambda share: f"{share:.1f} %",
        levels,
        note="; ".join(part for part in (above, note) if part),
        is_distribution=True,
    )


def _step_times(
    steps_before: Floats,
    steps_after: Floats,
    before: Floats,
    after: Floats,
    levels: tuple[tuple[str, float], ...],
    note: str,
) -> Chart:
    """Each step of both runs over its number; a run that was shorter ends earlier."""
    steps = np.union1d(steps_before, steps_after)
    aligned = _aligned(steps, steps_before, before), _aligned(steps, steps_after, after)
    title = "Each step of both runs"
    return Chart(
        "compare-steps", title, steps, "step", _pair(*aligned), format_ns, levels, note=note
    )


def _aligned(steps: Floats, own: Floats, durations: Floats) -> Floats:
    values = np.full(len(steps), np.nan)
    values[np.searchsorted(steps, own)] = durations
    return values
