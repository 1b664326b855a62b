"""What is asked about a run: to leave it while it goes on, to delete it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.dialogs.choice import Choice, ChoiceDialog, Prose, yes_or_no
from perftui_tui.look.rows import row
from perftui_tui.look.units import format_bytes

if TYPE_CHECKING:
    from perftui.run.history import RunEntry

LEAVE, STOP, CANCEL = "leave", "stop", "cancel"


class QuitDialog(ChoiceDialog):
    """Leave the training running, stop it, or stay. Returns one of the constants above."""

    def __init__(self, title: str, root: Path) -> None:
        body = (
            row(("The training is still running: ", "bold"), title),
            row("It does not need this window and is recorded in"),
            row((str(root), "dim")),
        )
        choices = (
            Choice(("l", "enter"), "leave it running; `perftui attach` reopens it", LEAVE),
            Choice(("s",), "stop the training (interrupt, like ctrl+c in a shell)", STOP),
            Choice(("escape", "c", "q"), "stay here", CANCEL),
        )
        super().__init__("Quit perftui?", body, choices)


class DeleteRunDialog(ChoiceDialog):
    """Names the run and its size. Returns YES or NO."""

    def __init__(self, entry: RunEntry) -> None:
        name = entry.manifest.name if entry.manifest else None
        size = sum(map(_size, entry.root.rglob("*")))
        body = (
            row((name or entry.run_id, "bold")),
            Prose(str(entry.root), "dim"),
            row(f"{format_bytes(size)} in all; this cannot be undone."),
        )
        super().__init__("Delete this run?", body, yes_or_no(("y",), "delete it", "keep it"))


def _size(path: Path) -> int:
    """Bytes of a file; what has gone meanwhile counts nothing."""
    try:
        return path.lstat().st_size if path.is_file() else 0
    except OSError:
        return 0
