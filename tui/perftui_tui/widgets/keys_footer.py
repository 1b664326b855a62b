"""The keys at the bottom of a screen."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Footer


class KeysFooter(Footer):
    """The footer, with the key of help marked as ``-help``.

    On a narrow screen that one stays at the right edge, where others have the palette: there is no
    room for all keys then, and help names those that are cut off.
    """

    def compose(self) -> ComposeResult:
        """All keys that are shown."""
        for part in super().compose():
            if getattr(part, "action", "") == "help":
                part.add_class("-help")
            yield part
