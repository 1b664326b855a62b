"""What was proven of a run since it was read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui.experiments.trial.proof import Proof
    from perftui_tui.reading.snapshot import Snapshot


class NewProofs:
    """A run that is over is not read again: what is proven of it here is added."""

    def __init__(self) -> None:
        self._by_run: dict[Path, dict[str, Proof]] = {}

    def add(self, root: Path, proof: Proof) -> None:
        """Note what was proven of a fix of the run at ``root``; safe on any thread."""
        self._by_run[root] = {**self._by_run.get(root, {}), proof.fix: proof}

    def on(self, snapshot: Snapshot) -> Snapshot:
        """``snapshot`` with what was proven since it was read."""
        own = self._by_run.get(snapshot.source)
        return replace(snapshot, proofs={**snapshot.proofs, **own}) if own else snapshot
