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
    trials, written = app.trials, app.source_fixes.written
    for proof in trials.proofs.every:
        # What was written is named below, with the same figures.
        if written is None or proof.title != written.option.title:
            yield "tried", f"{proof.title}: {proof.headline}"
    tuned = trials.tuning.state
    if tuned is not None and tuned.files:
        gain = f": {tuned.final.verdict.headline}" if tuned.final is not None else ""
        yield "tuned", f"{', '.join(tuned.files)} written{gain}"
        yield "undo", undo_command(tuned.root, tuned.files)
    if written is not None:
        from perftui_tui.dialogs.fix import NOT_MEASURED

        gain = written.gain or NOT_MEASURED
        yield "wrote", f"{written.applied.path}: {written.option.title}, {gain}"
        yield "undo", undo_command(written.root, [Path(written.applied.path).name])


def undo_command(root: Path, files: Sequence[str]) -> str:
    """The command that takes back what was written beside the run at ``root``, with what it does
    as a comment of the shell."""
    return f"perftui undo {shlex.quote(str(root))}  # restores {', '.join(files)}"
