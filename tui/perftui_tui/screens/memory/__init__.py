"""The Memory screen: memory over time, and allocations by call site."""

from perftui_tui.screens.memory.screen import MemoryScreen as MemoryScreen
