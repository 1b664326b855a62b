"""Chooses the run to compare with."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.run.manifest import Manifest
from perftui_tui.dialogs.choice import Choice, ChoiceDialog
from perftui_tui.look.rows import row

KEYS = "123456789"


class BaselineDialog(ChoiceDialog):
    """Offers the newest of ``runs`` (id and manifest, newest first). Returns an id, or nothing."""

    def __init__(self, runs: Sequence[tuple[str, Manifest]]) -> None:
        choices = [
            Choice((key,), _label(run_id, manifest), run_id)
            for key, (run_id, manifest) in zip(KEYS, runs, strict=False)
        ]
        choices.append(Choice(("escape", "q"), "keep what is compared now", ""))
        super().__init__("Compare with", (row("The newest runs:"),), choices)


def _label(run_id: str, manifest: Manifest) -> str:
    change = f"  {manifest.name}" if manifest.name else ""
    return f"{run_id}  {manifest.status.value}{change}"
