"""On a terminal without block characters every screen draws ASCII alone, footer and frames too."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from textual.color import Color

from perftui_tui.app import PerftuiApp
from perftui_tui.keys.table import SCREENS
from perftui_tui.look.ascii import AsciiFilter
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import text_of, until
from tests.tui.recorded import NOW, write_run
from tests.tui.traces import write_trace


@pytest.fixture(autouse=True)
def ascii_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowView, "ascii_only", True)


def odd_characters(app: PerftuiApp) -> dict[str, str]:
    """What is not ASCII, each with a line that has it."""
    return {
        character: line
        for line in text_of(app).splitlines()
        for character in line
        if not " " <= character <= "~"
    }


SIZES = ((80, 24), (300, 80))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["run", "trace"])
async def test_every_screen_and_its_help_is_ascii(tmp_path: Path, kind: str) -> None:
    target = write_run(tmp_path, gpu=True) if kind == "run" else write_trace(tmp_path, steps=24)
    app = PerftuiApp(target, replay=kind == "trace", clock=lambda: NOW)
    odd: dict[str, dict[str, str]] = {}
    async with app.run_test(size=SIZES[0], notifications=True) as pilot:
        await until(pilot, lambda: app.snapshot is not None, "a snapshot")
        # Size by size: each change of it lays out all that is on screen.
        for columns, rows in SIZES:
            await pilot.resize_terminal(columns, rows)
            for screen in SCREENS:
                app.action_show(screen)
                await until(pilot, lambda screen=screen: app.current_mode == screen, screen)
                await pilot.pause(0.3)
                odd[f"{screen} of {columns}"] = odd_characters(app)
                app.action_help()
                await until(pilot, lambda: len(app.screen_stack) == 2, "help")
                await pilot.pause()
                odd[f"help of {screen} of {columns}"] = odd_characters(app)
                await pilot.press("escape")
                await until(pilot, lambda: len(app.screen_stack) == 1, "help closed")
    assert {name: found for name, found in odd.items() if found} == {}


@pytest.mark.slow
@pytest.mark.parametrize("keys", [("a",), ("q",), ("P",), ("C",), ("ctrl+p",)])
async def test_what_lies_over_a_screen_is_ascii(tmp_path: Path, keys: tuple[str, ...]) -> None:
    app = PerftuiApp(write_run(tmp_path, gpu=True, workers=2), clock=lambda: NOW)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.snapshot is not None, "a snapshot")
        await pilot.press(*keys)
        await pilot.pause(0.5)
        assert odd_characters(app) == {}


@given(st.text(max_size=40))
def test_what_is_drawn_with_ascii_is_as_wide_as_it_was(text: str) -> None:
    (drawn,) = AsciiFilter().apply([Segment(text)], Color(0, 0, 0))
    assert drawn.text.isascii()
    assert drawn.cell_length == Segment(text).cell_length
