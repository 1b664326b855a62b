"""Traces that one app opens one after the other, through all screens.

Most of what an app costs is making its screens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from textual.pilot import Pilot

from perftui_tui.app import PerftuiApp
from perftui_tui.keys.table import SCREENS
from perftui_tui.screens.run_screen import RunScreen
from tests.tui.driving import opened, until
from tests.verify.corpus.collection import ROOT

WALK = ("n", "N", "g", "w", "f", "full_stop", "right_square_bracket", "0")
"""Keys of the timeline: over the gaps, into one, to an event, along its launch, and back."""


def shows(app: PerftuiApp, path: Path) -> bool:
    """Whether the trace has been read and is on screen."""
    read = app.snapshot is not None and app.snapshot.source == path
    return read and isinstance(app.screen, RunScreen) and app.screen.snapshot is app.snapshot


Check = Callable[[str, PerftuiApp, Pilot[None]], Awaitable[None]]
"""Looks at one trace, which is on the first screen."""


async def check_each(names: Sequence[str], check: Check) -> None:
    """``check`` every trace, and walk through screens with it, so that three of them are on all:
    nothing fails."""
    async with opened(ROOT / names[0], (160, 50)) as (app, pilot):
        for at, name in enumerate(names):
            if name != names[0]:
                await pilot.press("1")
                app.open(ROOT / name)
            await until(pilot, lambda wanted=ROOT / name: shows(app, wanted), name)
            await check(name, app, pilot)
            await walk(app, pilot, at)
            assert app.failure is None, name
            assert app.crash is None, name


async def walk(app: PerftuiApp, pilot: Pilot[None], turn: int) -> None:
    """The timeline and every third of the other screens, with the trace on it."""
    for digit, screen in enumerate(SCREENS, 1):
        if screen != "timeline" and (digit + turn) % 3:
            continue
        await pilot.press(str(digit))
        await until(pilot, lambda wanted=screen: app.current_mode == wanted)
        await until(pilot, lambda: shows(app, app.target), "the trace on it")
        if screen == "timeline":
            await pilot.press(*WALK)
