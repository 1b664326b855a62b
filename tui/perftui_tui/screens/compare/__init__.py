"""The Compare screen: two runs, before and after."""

from perftui_tui.screens.compare.screen import CompareScreen as CompareScreen
