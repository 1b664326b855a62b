"""A message at the bottom of a screen, in the place of its keys."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widgets import Static


class NoticeLine(Static):
    """One message, over as many rows as it needs; what is above makes room, and nothing is covered.

    It never has the focus.
    """

    DEFAULT_CSS = """
    NoticeLine {
        dock: bottom; height: auto; max-height: 4; padding: 0 1;
        background: $panel; color: $foreground; text-style: bold; pointer: pointer;
        &.-warning { color: $text-warning; }
        &.-error { color: $text-error; }
    }
    """
    ALLOW_SELECT = False

    class Closed(Message):
        """The message was clicked, to be gone."""

    def __init__(self) -> None:
        super().__init__(markup=False)

    def on_click(self, event: events.Click) -> None:
        """Close it."""
        event.stop()
        self.post_message(self.Closed())
