"""The screens by name; each is imported on its first visit, to keep the first frame quick."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from textual.screen import Screen

from perftui_tui.keys.table import SCREENS


def screens() -> dict[str, Callable[[], Screen[None]]]:
    """What makes each screen: ``overview`` is ``OverviewScreen`` of ``screens.overview.screen``."""
    return {name: _maker(name) for name in SCREENS}


def _maker(name: str) -> Callable[[], Screen[None]]:
    def make() -> Screen[None]:
        module = import_module(f"perftui_tui.screens.{name}.screen")
        screen: Screen[None] = getattr(module, f"{name.capitalize()}Screen")()
        return screen

    return make
