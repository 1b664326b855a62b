"""Charts of two runs: the distributions of their step times, and each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perftui_tui.charts.run_charts import (
    BINS,
    Chart,
    Floats,
    Series,
    aggregates_note,
    durations_of,
    index_of,
    quantile_of,
    top_of,
)
from perftui_tui.look.units import format_ns

if TYPE_CHECKING:
    from perftui_tui.reading.snapshot import Snapshot

BEFORE, AFTER = 1, 0
"""Their styles, as on the Compare screen."""


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


def _distributions(
    before: Floats, after: Floats, levels: tuple[tuple[str, float], ...], note: str
) -> Chart:
    """The share of each run's steps in bins of equal length; the last has what lies far above."""
    edges = _edges(before, after)
    middles = (edges[:-1] + edges[1:]) / 2
    beyond = [int((one > edges[-1]).sum()) for one in (before, after)]
    above = (
        f"{beyond[0]:,} before and {beyond[1]:,} after are longer than {format_ns(edges[-1])}, "
        "in the last bar"
        if any(beyond)
        else ""
    )
    return Chart(
        "compare",
        "Step times of both runs",
        middles,
        "step time",
        (
            Series("before", _shares(before, edges), BEFORE),
            Series("after", _shares(after, edges), AFTER),
        ),
        lambda share: f"{share:.1f} %",
        levels,
        note="; ".join(part for part in (above, note) if part),
        is_distribution=True,
    )


def _edges(before: Floats, after: Floats) -> Floats:
    """Bins over both runs, up to far above the 95th percentile of the slower one."""
    low = float(min(before.min(), after.min()))
    return np.linspace(low, max(top_of(before), top_of(after), low + 1), BINS + 1)


def _shares(durations: Floats, edges: Floats) -> Floats:
    counts, _ = np.histogram(np.minimum(durations, edges[-1]), edges)
    return 100 * counts / len(durations)


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
    return Chart(
        "compare-steps",
        "Each step of both runs",
        steps,
        "step",
        (
            Series("before", _placed(steps, steps_before, before), BEFORE),
            Series("after", _placed(steps, steps_after, after), AFTER),
        ),
        format_ns,
        levels,
        note=note,
    )


def _placed(steps: Floats, own: Floats, durations: Floats) -> Floats:
    values = np.full(len(steps), np.nan)
    values[np.searchsorted(steps, own)] = durations
    return values
