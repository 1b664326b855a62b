"""What is asked before a recorded run is deleted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.dialogs.choice import ChoiceDialog, Prose, yes_or_no
from perftui_tui.look.rows import row
from perftui_tui.look.units import format_bytes

if TYPE_CHECKING:
    from perftui.run.history import RunEntry


class DeleteRunDialog(ChoiceDialog):
    """Names the run and its size. Returns YES or NO."""

    def __init__(self, entry: RunEntry) -> None:
        name = entry.manifest.name if entry.manifest else None
        body = (
            row((name or entry.run_id, "bold")),
            Prose(str(entry.root), "dim"),
            row(f"{format_bytes(size_of(entry.root))} in all; it cannot be brought back."),
        )
        super().__init__("Delete this run?", body, yes_or_no(("y",), "delete it", "keep it"))


def size_of(root: Path) -> int:
    """Bytes of all files below ``root``; what has gone meanwhile counts nothing."""
    return sum(map(_size, root.rglob("*")))


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size if path.is_file() else 0
    except OSError:
        return 0
