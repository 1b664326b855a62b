"""The Ops screen: operators and kernels as tables, a call tree, and a page for each."""

from perftui_tui.screens.ops.screen import OpsScreen as OpsScreen
