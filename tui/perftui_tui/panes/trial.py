"""A trial by pairs of runs as rows: in one line under each screen, and in full."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from perftui import format as fmt
from perftui_tui.charts.interval import interval_rows
from perftui_tui.keys.keymap import hint
from perftui_tui.look.format import elapsed
from perftui_tui.look.rows import Row, Span, crop, fit, row, spread, with_fitting, wrap
from perftui_tui.look.units import format_ns
from perftui_tui.reading.experiment_state import Stage
from perftui_tui.reading.trial_state import TrialState

if TYPE_CHECKING:
    from perftui.experiments.trial.trial import Progress

BAR_CELLS = 44
"""Fits the narrowest dialog, and shows two per cent at a ratio of 2."""


USUAL_CELLS = 62
"""Fits a terminal of 80 columns, and every headline."""


def trial_line(state: TrialState, now: float, cells: int) -> Row:
    """The trial in one row: what comes first is what is dropped last."""
    shows = row((hint(" {app.trial} shows it "), "dim"))
    headline, *figures = _line_figures(state, now)
    left = row((" trial ", "key"), f" {state.option.title}  ", headline)
    room = cells - sum(len(text) for text, _ in shows) - 1
    return fit(spread(with_fitting(crop(left, room), figures, room), shows, cells), cells)


def _line_figures(state: TrialState, now: float) -> list[Span]:
    outcome = result(state)
    if state.stage.is_over:
        return [outcome]
    clock = (elapsed(int(state.elapsed(now) * 1e9)), "dim")
    if state.stage is not Stage.RUNNING:
        return [outcome, clock]
    so_far = [_so_far(state)] if state.pairs else []
    pair = (f"pair {len(state.pairs) + 1} of {state.look}", "")
    return [pair, *so_far, (_rest(state, now), "dim"), clock]


def trial_rows(state: TrialState, now: float, cells: int) -> list[Row]:
    """The trial in full: what it comes to first, then the pairs, the newest on top."""
    cells = min(USUAL_CELLS, cells)
    # A dialog is as wide as its widest row: one that always is keeps it from jumping.
    rows = [fit(row((state.option.title, "bold")), cells), *_outcome(state, cells)]
    if state.pairs:
        rows += _bar(state, min(BAR_CELLS, cells))
    rows += wrap(_time(state, now), cells, "dim")
    if state.problem and state.stage is not Stage.FAILED:
        rows += wrap(state.problem, cells, "warn")
    for note in state.progress.notes if state.progress else ():
        rows += wrap(note, cells, "warn")
    if state.stage.is_over and not state.pairs:
        return rows
    if not state.pairs:
        workers = wrap(" ".join(_workers(state.progress)), cells) if state.progress else []
        return [*rows, *workers, (), *wrap(_first(state), cells, "dim")]
    head = f"{'pair':>6}{'before':>12}{'after':>12}{'ratio':>9}"
    rows += [(), row((head, "bold"))]
    for number, pair in reversed(list(enumerate(state.pairs, 1))):
        before, after = (format_ns(one.step_ns) for one in (pair.before, pair.after))
        ratio = f"{pair.ratio:.2f}x"
        rows.append(row(f"{number:>6}{before:>12}{after:>12}{ratio:>9}"))
    return [*rows, *_basis(state, cells)]


def _basis(state: TrialState, cells: int) -> list[Row]:
    """What the pairs rest on: whether the change is in force, and what the machine does alone."""
    progress = state.progress
    if progress is None:
        return []
    said = _workers(progress)
    said += [f"in force: {', '.join(progress.changes)}"] if progress.changes else []
    said += progress.costs.sentences
    if progress.noise is not None:
        said.append(f"two runs of the same differ by {fmt.percent(progress.noise)} here")
    return [line for text in said for line in wrap(text, cells, "dim")]


def _workers(progress: Progress) -> list[str]:
    """What a step takes with several numbers of workers, where that was measured."""
    from perftui.report.trial import workers_text

    return [f"a step {workers_text(progress)}"] if progress.workers else []


def result(state: TrialState) -> Span:
    """What there is to say of it at this moment, in a few words."""
    verdict = state.verdict
    if state.stage is Stage.WAITING:
        return ("waiting for the running training to stop", "warn")
    if state.stage is Stage.STOPPING:
        return ("stopping: its training is ending", "warn")
    if state.stage is Stage.FAILED:
        return (f"failed: {state.problem}", "bad")
    if state.stage is Stage.STOPPED:
        said = f": {verdict.headline}" if verdict and verdict.estimate else ""
        return (f"stopped after {fmt.several(len(state.pairs), 'pair')}{said}", "warn")
    if verdict is None:
        return ("the first pair is running", "")
    styles = {"faster": "good", "slower": "bad", "no effect": "bad", "not comparable": "warn"}
    return (verdict.headline, styles.get(verdict.outcome.value, "bold"))


def ratio_text(ratio: float) -> str:
    """``1.98x faster``, ``1.20x slower``."""
    return f"{ratio:.2f}x faster" if ratio >= 1 else f"{1 / ratio:.2f}x slower"


def _outcome(state: TrialState, cells: int) -> list[Row]:
    text, style = result(state)
    rows = wrap(text, cells, style)
    verdict = state.verdict
    if verdict is not None and verdict.estimate is None and state.pairs:
        middle = f"{ratio_text(_middle(state))} so far (the middle of {len(state.pairs)})"
        rows.append(row(middle))
    if verdict is not None and verdict.estimate is not None and state.stage is Stage.FAILED:
        rows += wrap(f"before that: {verdict.headline}", cells)
    return rows


def _bar(state: TrialState, cells: int) -> list[Row]:
    verdict = state.verdict
    found = verdict.estimate if verdict else None
    interval = (found.low, found.ratio, found.high) if found else None
    return [*interval_rows([pair.ratio for pair in state.pairs], interval, cells)]


def _time(state: TrialState, now: float) -> str:
    clock = elapsed(int(state.elapsed(now) * 1e9))
    if state.stage.is_over:
        return f"{fmt.several(len(state.pairs), 'pair')} in {clock}"
    if state.stage is not Stage.RUNNING:
        return clock
    return f"{clock} so far; {_rest(state, now)}"


def _rest(state: TrialState, now: float) -> str:
    left = state.left(now)
    if left is None:
        return "how long it takes is known after the first pair"
    return f"about {fmt.rough_time(left)} to pair {state.look}"


def _first(state: TrialState) -> str:
    return (
        f"Each run makes {state.steps:,} steps, with the fix or without it, in turn. The first run "
        "is not counted: it finds files and caches cold."
    )


def _so_far(state: TrialState) -> Span:
    """What the pairs come to, without what is still needed to be sure."""
    if state.verdict is not None and state.verdict.estimate is not None:
        return (state.verdict.headline.partition(":")[0], "bold")
    return (ratio_text(_middle(state)), "bold")


def _middle(state: TrialState) -> float:
    return median(pair.ratio for pair in state.pairs)
