"""Chooses the run to compare with."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.run.history import RunEntry
from perftui_tui.dialogs.choice import Choice, ChoiceDialog
from perftui_tui.rows import row

KEYS = "123456789"


class BaselineDialog(ChoiceDialog):
    """Offers the newest recorded runs. Returns a run id, or nothing."""

    def __init__(self, entries: Sequence[RunEntry]) -> None:
        choices = [
            Choice((key,), _label(entry), entry.run_id)
            for key, entry in zip(KEYS, entries, strict=False)
        ]
        choices.append(Choice(("escape", "q"), "keep what is compared now", ""))
        super().__init__("Compare with", (row("The newest runs:"),), choices)


def _label(entry: RunEntry) -> str:
    manifest = entry.manifest
    if manifest is None:
        return entry.run_id
    change = f"  {manifest.name}" if manifest.name else ""
    return f"{entry.run_id}  {manifest.status.value}{change}"
