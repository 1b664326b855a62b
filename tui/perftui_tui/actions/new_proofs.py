"""What was proven of a run since it was read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui.experiments.proof import Proof
    from perftui.fixes.model import FixOption
    from perftui_tui.reading.snapshot import Snapshot


class NewProofs:
    """A run that is over is not read again: what is proven of it here is added.

    Written on the thread of a trial, read by the app."""

    def __init__(self) -> None:
        self._proofs: dict[Path, dict[str, Proof]] = {}
        self._options: dict[Path, dict[str, FixOption]] = {}

    @property
    def every(self) -> list[Proof]:
        """All that was proven in this session, in the order of the runs and fixes that were tried
        first."""
        return [proof for proofs in self._proofs.values() for proof in proofs.values()]

    def add(self, root: Path, proof: Proof) -> None:
        """Note what was proven of a fix of the run at ``root``."""
        self._proofs[root] = {**self._proofs.get(root, {}), proof.fix: proof}

    def change(self, root: Path, option: FixOption) -> None:
        """Note what a fix of the run at ``root`` changes now: as many workers as runs have shown to
        be best."""
        self._options[root] = {**self._options.get(root, {}), option.fix: option}

    def on(self, snapshot: Snapshot, written: frozenset[str] = frozenset()) -> Snapshot:
        """``snapshot`` with what was proven since it was read, and with the fixes that were
        ``written`` to the source since then marked as such."""
        proofs = self._proofs.get(snapshot.source, {})
        changed = self._options.get(snapshot.source, {})
        options = {
            rule: tuple(_marked(changed.get(option.fix, option), written) for option in found)
            for rule, found in snapshot.options.items()
        }
        if not proofs and options == snapshot.options:
            return snapshot
        return replace(snapshot, options=options, proofs={**snapshot.proofs, **proofs})


def _marked(option: FixOption, written: frozenset[str]) -> FixOption:
    """What was written before the run was read has no patch, and stays marked."""
    is_written = option.fix in written
    if option.patch is None or option.is_written == is_written:
        return option
    return replace(option, is_written=is_written)
