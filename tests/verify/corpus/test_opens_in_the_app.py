"""Every real trace goes through every screen of the app."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot

from perftui_tui.app import PerftuiApp
from perftui_tui.keys.all_keys import SCREENS
from perftui_tui.look.format import format_count, percent
from perftui_tui.screens.run_screen import RunScreen
from tests.tui.driving import opened, until, until_shown
from tests.verify.corpus.collection import ROOT, oracles

# Most of what an app costs is making its screens.

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


pytestmark = [pytest.mark.corpus, pytest.mark.slow]

NAMES = sorted(oracles())
GROUPS = {NAMES[at]: NAMES[at : at + 7] for at in range(0, len(NAMES), 7)}


async def check_overview(name: str, app: PerftuiApp, pilot: Pilot[None]) -> None:
    """The expected figures are on the first screen."""
    devices = app.snapshot.analysis.activity
    if not devices:
        await until_shown(pilot, "no GPU activity in this trace")
    elif len(devices) == 1:
        # The expected values are over all devices together.
        oracle = {entry["quantity"]: entry["value"] for entry in oracles()[name]}
        # Of a device's own time; the screen says it of that of all steps as well.
        (device,), steps = devices, app.snapshot.analysis.steps
        whole = [(device.start, device.end), *((step.start, step.end) for step in steps)]
        whole_ns = max(end for _, end in whole) - min(start for start, _ in whole)
        busy = oracle["oracle.gpu_busy_pct"] * (device.end - device.start) / whole_ns
        await until_shown(pilot, f"busy {percent(busy)} ")
        await until_shown(pilot, f"{format_count(oracle['oracle.kernel_count'])} kernels")


@pytest.mark.parametrize("first", GROUPS)
async def test_every_screen_shows_each_trace(first: str) -> None:
    await check_each(GROUPS[first], check_overview)
