"""A tuning as rows: in one line under each screen, and in full as the ladder of what was kept."""

from __future__ import annotations

from perftui import format as fmt
from perftui_tui.keys.keymap import hint
from perftui_tui.look.format import elapsed
from perftui_tui.look.rows import Row, Span, crop, fit, row, width, with_fitting, wrap
from perftui_tui.panes.trial import (
    STYLES,
    USUAL_CELLS,
    bar_rows,
    figures,
    pair_rows,
    stage_words,
    status_line,
    worker_rows,
)
from perftui_tui.reading.experiment_state import Stage, TuningState

INDENT = 9
"""Cells before the titles of the ladder."""


def tuning_line(state: TuningState, now: float, cells: int) -> Row:
    """The tuning in one row."""
    clock = (elapsed(int(state.elapsed(now) * 1e9)), "dim")
    kept = (f"{len(state.kept)} kept", "dim")
    trial = state.trial
    if trial is not None and state.stage is Stage.RUNNING:
        return status_line("tuning", trial.option.title, [*figures(trial, now), kept, clock], cells)
    return status_line("tuning", "", [result(state), kept, clock], cells)


def tuning_rows(state: TuningState, now: float, cells: int) -> list[Row]:
    """The tuning in full: what it comes to, the ladder, then the pairs of the fix that is tried."""
    cells = min(USUAL_CELLS, cells)
    text, style = result(state)
    # A dialog is as wide as its widest row: one that always is keeps it from jumping.
    first, *others = wrap(text, cells, style or "bold")
    rows = [fit(first, cells), *others, *wrap(_time(state, now), cells, "dim")]
    if state.problem and state.stage is not Stage.FAILED:
        rows += wrap(state.problem, cells, "warn")
    ladder = _ladder(state, cells)
    if ladder:
        rows += [(), *ladder]
    if state.stage.is_over:
        return [*rows, *_what_stays(state, cells)]
    return [*rows, *_trial(state, now, cells)]


def result(state: TuningState) -> Span:
    """What there is to say of it at this moment, in a few words."""
    if words := stage_words(state.stage, state.problem):
        return words
    if state.stage is Stage.STOPPED:
        stays = "proven fixes stay" if state.kept else "nothing proven so far"
        return (f"stopped: {stays}", "warn")
    if state.stage is Stage.DONE:
        if state.final is None:
            return ("nothing was kept: no fix is proven here", "bold")
        verdict = state.final.verdict
        return (f"{verdict.headline} with all fixes", STYLES.get(verdict.outcome.value, "bold"))
    if state.keeping:
        return (f"proven: {state.keeping}; recording the training with it", "")
    if state.trial is not None:
        return (f"trying {state.trial.option.title}", "")
    return ("looking for fixes to try", "")


def _time(state: TuningState, now: float) -> str:
    clock = elapsed(int(state.elapsed(now) * 1e9))
    tried = f"{len(state.attempts)} tried, {len(state.kept)} kept"
    if state.stage.is_over:
        return f"{tried} in {clock}"
    if state.budget is None:
        return f"{clock} so far; {tried}"
    left = state.budget - state.elapsed(now)
    ends = (
        f"about {fmt.rough_time(left)} until no further fix is started" if left > 0 else "time up"
    )
    return f"{clock} so far; {tried}; {ends}"


def _ladder(state: TuningState, cells: int) -> list[Row]:
    """Each fix that was tried: of those that were kept how fast all of it is up to there."""
    if state.journal is None:
        return []
    rows = [row(f"{1.0:6.2f}x  as it was")]
    heights = iter(ratio for ratio, _ in state.journal.ladder)
    for attempt in state.attempts:
        ratio = next(heights) if attempt in state.kept else None
        style = STYLES.get(attempt.outcome, "dim")
        mark = " " * (INDENT - 2) + "- " if ratio is None else f"{ratio:6.2f}x  "
        title = row(mark, (f"{'+ ' if ratio else ''}{attempt.title}", "" if ratio else "dim"))
        rows += _titled(title, (attempt.headline, style), cells)
        if attempt.advice:
            by_hand = f"not in the source; by hand: {attempt.advice}"
            rows += wrap(by_hand, cells, "warn", " " * (INDENT + 2))
    verdict = state.final.verdict if state.final else None
    if verdict is not None and verdict.estimate is not None:
        title = row(f"{verdict.estimate.ratio:6.2f}x  ", ("all fixes together", "bold"))
        style = STYLES.get(verdict.outcome.value, "bold")
        rows += _titled(title, (verdict.headline, style), cells)
    return rows


def _titled(title: Row, figure: Span, cells: int) -> list[Row]:
    """The title with its figure behind it, or below it where both do not fit."""
    title = crop(title, cells)
    whole = with_fitting(title, [figure], cells)
    if width(whole) > width(title):
        return [whole]
    return [title, *wrap(figure[0], cells, figure[1], " " * (INDENT + 2))]


def _trial(state: TuningState, now: float, cells: int) -> list[Row]:
    trial = state.trial
    if trial is None or state.stage is not Stage.RUNNING:
        return []
    mark = row(f"{'now':>6}   ", (trial.option.title, "bold"))
    pair, *others = figures(trial, now)
    rows = [crop(mark, cells), crop(with_fitting(row(" " * INDENT, pair), others, cells), cells)]
    if not trial.pairs:
        return [*rows, *worker_rows(trial, cells)]
    return [*rows, *bar_rows(trial, cells), (), *pair_rows(trial, cells)]


def _what_stays(state: TuningState, cells: int) -> list[Row]:
    """What was written and how to take it back, and the run that shows what is left."""
    rows: list[Row] = []
    if state.files:
        undo = hint("{diagnosis.undo_fix} undoes it, the last fix first")
        rows += wrap(f"written to {', '.join(state.files)}; {undo}", cells)
    if state.final is not None and state.final.losses.sentence:
        rows += wrap(state.final.losses.sentence, cells, "dim")
    if state.stage is not Stage.DONE:
        rows += wrap(hint("{diagnosis.tune} continues from here"), cells, "dim")
    return [(), *rows] if rows else []
