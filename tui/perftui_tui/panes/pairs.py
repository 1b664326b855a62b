"""Pairs of runs as rows: what they come to so far, each of them, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from perftui import format as fmt
from perftui.experiments.verdict import Agreement
from perftui_tui.charts.interval import interval_rows
from perftui_tui.look.rows import Row, Span, row, wrap
from perftui_tui.look.units import format_ns
from perftui_tui.reading.trial_state import TrialState

BAR_CELLS = 44
"""Fits the narrowest dialog, and shows two per cent at a ratio of 2."""

STYLES = {"faster": "good", "slower": "bad", "no effect": "bad", "not comparable": "warn"}
"""By the outcome of a trial."""


def ratio_text(ratio: float) -> str:
    """``1.98x faster``, ``1.20x slower``."""
    return f"{ratio:.2f}x faster" if ratio >= 1 else f"{1 / ratio:.2f}x slower"


def middle_of(state: TrialState) -> float:
    """The median of the ratios so far."""
    return median(pair.ratio for pair in state.pairs)


def so_far(state: TrialState) -> Span:
    """What the pairs come to, without what is still needed to be sure."""
    if state.verdict is not None and state.verdict.estimate is not None:
        return (state.verdict.headline, "bold")
    return (f"{ratio_text(middle_of(state))} so far", "bold")


def rest(state: TrialState, now: float, *, is_whole: bool = False) -> str:
    """About how long it takes until the result is looked at next; ``is_whole`` where there is room
    for how many pairs it may take then."""
    from perftui_tui.reading.trial_time import seconds_left

    left = seconds_left(state, now)
    if left is None:
        return "time left is known after the first run"
    may_go_on = is_whole and state.look < state.last_look
    further = f", up to pair {state.last_look} if not clear" if may_go_on else ""
    return f"about {fmt.rough_time(left)} to pair {state.look}{further}"


def figures(state: TrialState, now: float) -> list[Span]:
    """What runs, what is known, and how long it takes, for one row."""
    known = [so_far(state)] if state.pairs else []
    return [(running(state), ""), *known, (rest(state, now), "dim")]


def running(state: TrialState) -> str:
    """What runs, in a few words: ``pair 3 of 6``."""
    run = state.run
    if run is None:
        return "starting"
    return run.before_pairs or f"pair {run.pair} of {state.look}"


def bar_rows(state: TrialState, cells: int) -> list[Row]:
    """The pairs and the interval on an axis; nothing before the first pair."""
    if not state.pairs:
        return []
    found = state.verdict.estimate if state.verdict else None
    interval = (found.low, found.ratio, found.high) if found else None
    ratios = [pair.ratio for pair in state.pairs]
    return [*interval_rows(ratios, interval, min(BAR_CELLS, cells))]


def pair_rows(state: TrialState, cells: int) -> list[Row]:
    """Each pair, the newest on top, then what they rest on."""
    pairs = [(pair.before.step_ns, pair.after.step_ns) for pair in state.pairs]
    return [*pair_table(pairs), *_basis(state, cells)]


def pair_table(pairs: Sequence[tuple[int, int]]) -> list[Row]:
    """The step of each pair before and after, in ns, and their ratio; the newest on top."""
    rows = [row((f"{'pair':>6}{'before':>12}{'after':>12}{'ratio':>9}", "bold"))]
    for number, (before, after) in reversed(list(enumerate(pairs, 1))):
        ratio = f"{before / after:.2f}x" if after else "?"
        rows.append(row(f"{number:>6}{format_ns(before):>12}{format_ns(after):>12}{ratio:>9}"))
    return rows


def worker_rows(state: TrialState, cells: int) -> list[Row]:
    """What a step takes with several numbers of workers, where that was measured."""
    from perftui.report.trial import workers_text

    progress = state.progress
    if progress is None or not progress.workers:
        return []
    step = state.recorded_step_ns
    before = f"; it took {fmt.duration(step)} in the recorded run" if step is not None else ""
    return wrap(f"a step {workers_text(progress)}{before}", cells, "dim")


def _basis(state: TrialState, cells: int) -> list[Row]:
    """What the pairs rest on: whether the change is in force, and what the machine does alone."""
    from perftui.report.trial import noise_text

    progress = state.progress
    if progress is None:
        return []
    said = [f"in force: {', '.join(progress.changes)}"] if progress.changes else []
    said += progress.costs.sentences
    if progress.losses.agreement is not Agreement.NOT_CHECKED:
        said.append(progress.losses.sentence)
    if progress.noise is not None:
        said.append(noise_text(progress))
    lines = [line for text in said for line in wrap(text, cells, "dim")]
    return [*worker_rows(state, cells), *lines]
