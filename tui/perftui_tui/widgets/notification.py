"""Notifications that may be drawn late, on a busy machine."""

from __future__ import annotations

from textual.app import App
from textual.notifications import Notification, Notify, SeverityLevel

LEAST = 0.05
"""Seconds that one stays whose time is over when it is drawn."""


class Notice(Notification):
    """A notification that may be drawn after its time: on a busy machine, or after a pause.

    Textual would set a timer to a moment in the past, which runs for ever without letting anything
    else run: the app stood still, with a core at work."""

    @property
    def time_left(self) -> float:
        """Seconds until it goes, never none."""
        return max(super().time_left, LEAST)

    @property
    def has_expired(self) -> bool:
        """Whether the notification's time is over."""
        return super().time_left <= 0


class NotifyingApp(App[None]):
    """Shows notifications that survive a late drawing."""

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a message for ``timeout`` seconds."""
        seconds = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        self.post_message(Notify(Notice(message, title, severity, seconds, markup=markup)))
