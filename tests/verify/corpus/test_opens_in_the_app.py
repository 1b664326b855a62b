"""Every real trace goes through every screen of the app."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from perftui_tui.app import PerftuiApp
from perftui_tui.look.format import format_count, percent
from tests.tui.driving import until_shown
from tests.verify.corpus.collection import oracles
from tests.verify.corpus.walking import check_each

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

NAMES = sorted(oracles())
GROUPS = {NAMES[at]: NAMES[at : at + 7] for at in range(0, len(NAMES), 7)}


async def check_overview(name: str, app: PerftuiApp, pilot: Pilot[None]) -> None:
    """The expected figures are on the first screen."""
    assert app.snapshot is not None
    assert app.snapshot.analysis is not None
    devices = app.snapshot.analysis.activity
    if not devices:
        await until_shown(pilot, "no GPU activity in this trace")
    elif len(devices) == 1:
        # The expected values are over all devices together.
        oracle = {entry["quantity"]: entry["value"] for entry in oracles()[name]}
        await until_shown(pilot, f"busy {percent(oracle['oracle.gpu_busy_pct'])} ")
        await until_shown(pilot, f"{format_count(oracle['oracle.kernel_count'])} kernels")


@pytest.mark.parametrize("first", GROUPS)
async def test_every_screen_shows_each_trace(first: str) -> None:
    await check_each(GROUPS[first], check_overview)
