"""A message at the bottom of a screen, in the place of its keys."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.message import Message
from textual.notifications import Notification
from textual.widgets import Static

MARKS = {"information": "", "warning": "! ", "error": "!! "}
"""What messages begin with: a colour alone is not seen by everyone."""


class NoticeLine(Static):
    """One message, over as many rows as it needs; what is above makes room, and nothing is covered.

    It never has the focus.
    """

    DEFAULT_CSS = """
    NoticeLine {
        dock: bottom; height: auto; max-height: 4; padding: 0 1;
        background: $panel; color: $foreground; pointer: pointer;
        &.-warning { color: $text-warning; }
        &.-error { color: $text-error; text-style: bold; }
    }
    """
    ALLOW_SELECT = False

    class Closed(Message):
        """The message was clicked, to be gone."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._said: tuple[Notification, str] | None = None

    def say(self, notice: Notification, way_out: str) -> None:
        """Show ``notice``, with ``way_out``, how it is closed by a key."""
        if self._said == (notice, way_out):
            return
        self._said = notice, way_out
        text = Content.from_markup(notice.message) if notice.markup else Content(notice.message)
        title = f"{notice.title}: " if notice.title else ""
        end = ("  " + way_out, "dim") if way_out else ""
        self.set_classes(f"-{notice.severity}")
        self.update(Content.assemble(MARKS[notice.severity] + title, text, end))

    def on_click(self, event: events.Click) -> None:
        """Close it."""
        event.stop()
        self.post_message(self.Closed())
