"""The Timeline screen: threads and streams over time."""

from perftui_tui.screens.timeline.screen import TimelineScreen as TimelineScreen
