"""The Timeline screen: threads and streams over time."""

from perftui_tui.screens.timeline.screen import TimelineScreen

__all__ = ["TimelineScreen"]
