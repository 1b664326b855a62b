"""Every real trace goes through every screen of the app.

One app opens several traces one after the other: most of what an app costs is making its screens.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from perftui_tui.app import PerftuiApp
from perftui_tui.charts.units import format_count
from perftui_tui.format import percent
from perftui_tui.key_table import SCREENS
from perftui_tui.screens.run_screen import RunScreen
from tests.corpus.collection import ROOT, oracles
from tests.tui.driving import opened, until, until_shown

pytestmark = pytest.mark.corpus

WALK = ("n", "N", "g", "w", "f", "full_stop", "right_square_bracket", "0")
"""Keys of the timeline: over the gaps, into one, to an event, along its launch, and back."""

NAMES = sorted(oracles())
GROUPS = {NAMES[at]: NAMES[at : at + 7] for at in range(0, len(NAMES), 7)}


def shows(app: PerftuiApp, path: Path) -> bool:
    """Whether the trace has been read and is on screen."""
    read = app.snapshot is not None and app.snapshot.source == path
    return read and isinstance(app.screen, RunScreen) and app.screen.snapshot is app.snapshot


def words_of_the_overview(app: PerftuiApp, name: str) -> list[str]:
    """The expected figures of the trace, as the first screen has them."""
    assert app.snapshot is not None
    assert app.snapshot.analysis is not None
    devices = app.snapshot.analysis.activity
    if not devices:
        return ["no GPU activity in this trace"]
    if len(devices) > 1:
        # The expected values are over all devices together.
        return []
    oracle = {entry["quantity"]: entry["value"] for entry in oracles()[name]}
    return [
        f"busy {percent(oracle['oracle.gpu_busy_pct'])} ",
        f"{format_count(oracle['oracle.kernel_count'])} kernels",
    ]


async def walk(app: PerftuiApp, pilot: Pilot[None]) -> None:
    """Each screen, with the trace on it."""
    for digit, screen in enumerate(SCREENS, 1):
        await pilot.press(str(digit))
        await until(pilot, lambda wanted=screen: app.current_mode == wanted)
        await until(pilot, lambda: shows(app, app.target), "the trace on it")
        if screen == "timeline":
            await pilot.press(*WALK)


@pytest.mark.parametrize("first", GROUPS)
async def test_every_screen_shows_each_trace(first: str) -> None:
    async with opened(ROOT / first, (160, 50)) as (app, pilot):
        for name in GROUPS[first]:
            if name != first:
                await pilot.press("1")
                app.open(ROOT / name)
            await until(pilot, lambda wanted=ROOT / name: shows(app, wanted), name)
            for words in words_of_the_overview(app, name):
                await until_shown(pilot, words)
            await walk(app, pilot)
            assert app.failure is None, name
            assert app.crash is None, name
