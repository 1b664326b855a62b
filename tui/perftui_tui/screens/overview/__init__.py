"""The Overview screen: headline, meters, findings and gaps."""

from perftui_tui.screens.overview.screen import OverviewScreen as OverviewScreen
