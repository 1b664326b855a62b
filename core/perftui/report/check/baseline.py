"""The runs that a new one is held against where none is named."""

from __future__ import annotations

from pathlib import Path

from perftui.experiments.history import earlier_runs_of
from perftui.run.manifest import Manifest

NEWEST, HISTORY = "newest", "history"
"""Named in place of a baseline."""


def newest_earlier(root: Path, manifest: Manifest) -> Path | None:
    """The newest earlier run of the same command; None where there is none."""
    return next((entry.root for entry in earlier_runs_of(root, manifest)), None)
