"""What was done in the app: gains that were measured, files that were written."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui_tui.actions.trials import Trials
    from perftui_tui.app import PerftuiApp


def achieved(app: PerftuiApp) -> Iterator[tuple[str, str]]:
    """A word and what it is about, a pair for each."""
    yield from _measured(app.trials)
    written = app.source_fixes.written
    if written is not None:
        yield "wrote", written.applied.path
        yield "undo", f"perftui undo {shlex.quote(str(written.root))}"


def _measured(trials: Trials) -> Iterator[tuple[str, str]]:
    tried, tuned = trials.pairs.state, trials.tuning.state
    if tried is not None and tried.verdict is not None and tried.verdict.estimate is not None:
        yield "tried", f"{tried.option.title}: {tried.verdict.headline}"
    if tuned is not None and tuned.files:
        gain = f": {tuned.final.verdict.headline}" if tuned.final is not None else ""
        yield "tuned", f"{', '.join(tuned.files)} written{gain}"
        yield "undo", f"perftui undo {shlex.quote(str(tuned.root))}"
