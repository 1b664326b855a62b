"""What was done in the app: gains that were measured, files that were written."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui_tui.app import PerftuiApp


def achieved(app: PerftuiApp) -> Iterator[tuple[str, str]]:
    """A word and what it is about, a pair for each."""
    from perftui_tui.dialogs.experiment import NOT_MEASURED

    trials, written = app.trials, app.source_fixes.written
    named = {one.option.title for one in written}
    for proof in trials.proofs.every:
        # What was written is named below, with the same figures.
        if proof.title not in named:
            yield "tried", f"{proof.title}: {proof.headline}"
    tuned = trials.tuning.state
    if tuned is not None and tuned.files:
        gain = f": {tuned.final.verdict.headline}" if tuned.final is not None else ""
        yield "tuned", f"{', '.join(tuned.files)} written{gain}"
        yield "undo", _undo(tuned.root, tuned.files)
    for one in written:
        yield "wrote", f"{one.applied.path}: {one.option.title}, {one.gain or NOT_MEASURED}"
    for one in reversed(written):
        yield "undo", _undo(one.root, [Path(one.applied.path).name])


def _undo(root: Path, files: Sequence[str]) -> str:
    """The command that takes back what was written beside the run at ``root``, with what it does
    as a comment of the shell."""
    from perftui.report.next_command import undo_command

    return f"{shlex.join(undo_command(root))}  # restores {', '.join(files)}"
