"""The app on a trace that was kept: its columns cannot be written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.analysis import open_trace as opening
from perftui.analysis.open_trace import open_trace
from perftui_tui.keys.all_keys import SCREENS
from perftui_tui.screens.timeline.view import TimelineView
from tests.tui.driving import opened, settled, until, until_shown
from tests.tui.traces import write_trace

pytestmark = pytest.mark.slow

WALK = ("n", "g", "w", "f", "full_stop", "right_square_bracket", "0")


async def screens_of(path: Path) -> list[str]:
    """Every screen of the app as text, the timeline after a walk through it."""
    shown = []
    async with opened(path, (140, 45)) as (app, pilot):
        for digit, screen in enumerate(SCREENS, 1):
            await pilot.press(str(digit))
            await until(pilot, lambda wanted=screen: app.current_mode == wanted)
            if screen == "timeline":
                await until_shown(pilot, "stream 7")
                for key in WALK:
                    await settled(pilot)
                    await pilot.press(key)
                trace = app.screen.query_one(TimelineView).state.trace
                assert trace is app.snapshot.analysis.trace
            await until(pilot, lambda: app.screen.snapshot is app.snapshot, "the trace on it")
            # They go after some seconds, on whichever screen that is.
            app.clear_notifications()
            shown.append(await settled(pilot))
        assert app.crash is None
    return shown


async def test_every_screen_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_trace(tmp_path, steps=6)
    read = await screens_of(path)
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(opening, "FEWEST_ROWS", 1)
    open_trace(path, later=lambda work: work())
    monkeypatch.setattr("perftui.trace.formats.load_trace", None)
    assert not open_trace(path).trace.start.flags.writeable
    assert await screens_of(path) == read
