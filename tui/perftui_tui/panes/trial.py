"""A trial by pairs of runs as rows: in one line under each screen, and in full."""

from __future__ import annotations

from perftui import format as fmt
from perftui_tui.look.format import elapsed
from perftui_tui.look.rows import Row, Span, fit, row, wrap
from perftui_tui.panes.pairs import (
    STYLES,
    bar_rows,
    figures,
    middle_of,
    pair_rows,
    ratio_text,
    rest,
    worker_rows,
)
from perftui_tui.panes.status_line import stage_words, status_line
from perftui_tui.reading.experiment_state import Stage
from perftui_tui.reading.trial_state import TrialState

USUAL_CELLS = 62
"""Fits a terminal of 80 columns, and every headline."""

HOPELESS = 3
"""Pairs, all of them slower, after which a gain is unlikely: one in eight trials without any
difference begins so, and with a gain fewer."""


def trial_line(state: TrialState, now: float, cells: int) -> Row:
    """The trial in one row."""
    return status_line("trial", state.option.title, _line_figures(state, now), cells)


def _line_figures(state: TrialState, now: float) -> list[Span]:
    if state.stage.is_over:
        return [result(state)]
    clock = (elapsed(int(state.elapsed(now) * 1e9)), "dim")
    if state.stage is not Stage.RUNNING:
        return [result(state), clock]
    return [*figures(state, now), clock]


def trial_rows(state: TrialState, now: float, cells: int) -> list[Row]:
    """The trial in full: what it comes to first, then the pairs, the newest on top."""
    cells = min(USUAL_CELLS, cells)
    # A dialog is as wide as its widest row: one that always is keeps it from jumping.
    rows = [fit(row((state.option.title, "bold")), cells), *_outcome(state, cells)]
    rows += [*bar_rows(state, cells), *_confidence(state, cells)]
    if state.stage is Stage.RUNNING and state.pairs and state.run is not None:
        rows += wrap(f"now {state.run.text}", cells)
    rows += wrap(_time(state, now), cells, "dim")
    if state.problem and state.stage is not Stage.FAILED:
        rows += wrap(state.problem, cells, "warn")
    for note in state.progress.notes if state.progress else ():
        rows += wrap(note, cells, "warn")
    if state.stage.is_over and not state.pairs:
        return rows
    if not state.pairs:
        return [*rows, *worker_rows(state, cells), (), *wrap(_first(state), cells, "dim")]
    return [*rows, (), *pair_rows(state, cells)]


def result(state: TrialState) -> Span:
    """What there is to say of it at this moment, in a few words."""
    verdict = state.verdict
    if words := stage_words(state.stage, state.problem):
        return words
    if state.stage is Stage.STOPPED:
        said = f": {verdict.headline}" if verdict and verdict.estimate else ""
        return (f"stopped after {fmt.several(len(state.pairs), 'pair')}{said}", "warn")
    if verdict is None:
        return (state.run.text if state.run else "starting the first run", "")
    text = verdict.while_running if state.stage is Stage.RUNNING else verdict.headline
    return (text, STYLES.get(verdict.outcome.value, "bold"))


def _outcome(state: TrialState, cells: int) -> list[Row]:
    text, style = result(state)
    rows = wrap(text, cells, style)
    verdict = state.verdict
    if verdict is not None and verdict.estimate is None and state.pairs:
        middle = f"{ratio_text(middle_of(state))} so far (median of {len(state.pairs)})"
        rows.append(row(middle))
        if len(state.pairs) >= HOPELESS and all(pair.ratio < 1 for pair in state.pairs):
            rows += wrap(
                "slower in every pair so far: stop it unless you expect more", cells, "warn"
            )
    if verdict is not None and verdict.estimate is not None and state.stage is Stage.FAILED:
        rows += wrap(f"before that: {verdict.headline}", cells)
    return rows


def _confidence(state: TrialState, cells: int) -> list[Row]:
    from perftui.report.trial import CONFIDENCE_TEXT

    is_known = state.verdict is not None and state.verdict.estimate is not None
    return wrap(CONFIDENCE_TEXT, cells, "dim") if is_known else []


def _time(state: TrialState, now: float) -> str:
    clock = elapsed(int(state.elapsed(now) * 1e9))
    if state.stage.is_over:
        return f"{fmt.several(len(state.pairs), 'pair')} in {clock}"
    if state.stage is not Stage.RUNNING:
        return clock
    return f"{clock} so far; {rest(state, now, is_whole=True)}"


def _first(state: TrialState) -> str:
    if state.pairs_of_run is not None:
        return f"Each run makes {state.steps:,} steps and switches the fix on and off meanwhile."
    return (
        f"Runs of {state.steps:,} steps alternate, with the fix and without it. The first run does "
        "not count: files and caches are still cold."
    )
