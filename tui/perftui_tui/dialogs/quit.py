"""What to do with a training that still runs."""

from __future__ import annotations

from pathlib import Path

from perftui_tui.dialogs.choice import Choice, ChoiceDialog
from perftui_tui.look.rows import row

LEAVE, STOP, CANCEL = "leave", "stop", "cancel"


def running_script(root: Path) -> str | None:
    """The script of the run at ``root``, None where it is over or ``root`` is no run."""
    from perftui.run.manifest import ManifestError
    from perftui_tui.reading.run_state import run_state

    try:
        manifest = run_state(root)
    except ManifestError:
        return None
    return None if manifest.status.is_over else manifest.script


class QuitDialog(ChoiceDialog):
    """Leave the training running, stop it, or stay. Returns one of the constants above."""

    def __init__(self, title: str, root: Path) -> None:
        body = (
            row(("The training still runs: ", "bold"), title),
            row("It does not need this window: what it does is recorded in"),
            row((str(root), "dim")),
        )
        choices = (
            Choice(("l", "enter"), "leave it running; `perftui attach` opens it again", LEAVE),
            Choice(("s",), "stop the training (interrupt, as ctrl+c in a shell)", STOP),
            Choice(("escape", "c", "q"), "stay here", CANCEL),
        )
        super().__init__("Quit perftui?", body, choices)
