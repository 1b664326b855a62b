"""How a trial or a tuning stands, in the one row under each screen."""

from __future__ import annotations

from collections.abc import Sequence

from perftui_tui.keys.keymap import hint
from perftui_tui.look.rows import Row, Span, crop, fit, row, spread, with_fitting
from perftui_tui.reading.experiment_state import Stage


def status_line(name: str, title: str, figures: Sequence[Span], cells: int) -> Row:
    """``name`` and ``title``, which may be empty, then as many of ``figures`` as fit: the first is
    dropped last."""
    shows = row((hint(" {app.trial} shows it "), "dim"))
    first, *others = figures
    left = row((f" {name} ", "key"), f" {title}  " if title else " ", first)
    room = cells - sum(len(text) for text, _ in shows) - 1
    return fit(spread(with_fitting(crop(left, room), others, room), shows, cells), cells)


def stage_words(stage: Stage, problem: str) -> Span | None:
    """What there is to say of a stage beside what was measured; None where that is all."""
    if stage is Stage.WAITING:
        return ("waiting for the running training to stop", "warn")
    if stage is Stage.STOPPING:
        return ("stopping the training", "warn")
    if stage is Stage.FAILED:
        return (f"failed: {problem}", "bad")
    return None
