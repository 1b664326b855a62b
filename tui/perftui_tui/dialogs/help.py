"""The help panel: what this screen shows, and every key, from the one table."""

from __future__ import annotations

from perftui_tui.dialogs.choice import Choice, ChoiceDialog, Prose
from perftui_tui.key_table import Key
from perftui_tui.keymap import keys_of, keys_on
from perftui_tui.rows import Row, row


class HelpDialog(ChoiceDialog):
    """Help for one screen."""

    def __init__(self, screen: str, text: str) -> None:
        choices = (Choice(("escape", "question_mark", "?", "q", "f1"), "close", "close"),)
        super().__init__(f"Help: {screen}", (Prose(text), (), *help_rows(screen)), choices)


def help_rows(screen: str) -> list[Row]:
    """The keys of the screen, then those that work everywhere."""
    own = [_key(key) for key in keys_on(screen)]
    return [
        *([row(("On this screen", "bold")), *own, ()] if own else []),
        row(("Everywhere", "bold")),
        *(_key(key) for key in keys_of("app")),
        row(("  ctrl+p     ", "accent"), "Command palette: every command, and all themes"),
    ]


def _key(key: Key) -> Row:
    return row((f"  {key.display:<11}", "accent"), key.help)
