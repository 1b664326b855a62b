"""Every real trace goes through every screen of the app."""

from __future__ import annotations

import pytest

from perftui_tui.charts.units import format_count
from perftui_tui.format import percent
from perftui_tui.key_table import SCREENS
from tests.corpus.collection import ROOT, oracles
from tests.tui.driving import opened, text_of, until

pytestmark = pytest.mark.corpus

WALK = ("n", "N", "g", "w", "f", "full_stop", "right_square_bracket", "0")
"""Keys of the timeline: over the gaps, into one, to an event, along its launch, and back."""


@pytest.mark.parametrize("name", oracles())
async def test_every_screen_shows_the_trace(name: str) -> None:
    async with opened(ROOT / name, (160, 50)) as (app, pilot):
        assert app.snapshot is not None
        assert app.snapshot.analysis is not None
        devices = app.snapshot.analysis.activity
        overview = text_of(app)
        if not devices:
            assert "no GPU activity in this trace" in overview
        elif len(devices) == 1:
            # The expected values are over all devices together.
            oracle = {entry["quantity"]: entry["value"] for entry in oracles()[name]}
            assert f"busy {percent(oracle['oracle.gpu_busy_pct'])} " in overview
            assert f"{format_count(oracle['oracle.kernel_count'])} kernels" in overview
        for digit, screen in enumerate(SCREENS, 1):
            await pilot.press(str(digit))
            await until(pilot, lambda wanted=screen: app.current_mode == wanted)
            if screen == "timeline":
                await pilot.press(*WALK)
        assert app.failure is None
        assert app.crash is None
