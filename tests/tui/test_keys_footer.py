"""The keys at the bottom: what they say, what a click does, and what a narrow screen keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.events import MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot

from perftui_tui.app import PerftuiApp
from perftui_tui.dialogs.help import HelpDialog
from perftui_tui.widgets.keys_footer import KeysFooter
from tests.tui.driving import opened, text_of, until
from tests.tui.recorded import write_run


def last_row(app: PerftuiApp) -> str:
    return text_of(app).splitlines()[-1]


async def point(pilot: Pilot[None], words: str, *, click: bool = False) -> None:
    """Move to where ``words`` are in the footer, and click there."""
    app = pilot.app
    assert isinstance(app, PerftuiApp)
    at = (last_row(app).index(words) + 1, 0)
    footer = app.screen.query_one(KeysFooter)
    await (pilot.click(footer, offset=at) if click else pilot.hover(footer, offset=at))


async def test_a_click_presses_the_key(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        await until(pilot, lambda: "? Help" in last_row(app), "the keys")
        await point(pilot, "? Help", click=True)
        await until(pilot, lambda: isinstance(app.screen, HelpDialog), "the help")


@pytest.mark.slow
async def test_the_key_at_the_right_edge_is_that_of_the_palette(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        await until(pilot, lambda: last_row(app).endswith("▏^p palette "), "the palette's key")
        await point(pilot, "palette", click=True)
        await until(pilot, lambda: app.screen.id == "--command-palette", "the palette")


async def test_the_mouse_over_a_key_tells_what_it_does(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        await until(pilot, lambda: "q Quit" in last_row(app), "the keys")
        footer = app.screen.query_one(KeysFooter)
        await point(pilot, "q Quit")
        assert footer.tooltip == "Quit; asks what to do with a running training"
        await point(pilot, "palette")
        assert footer.tooltip == "Open the command palette"
        await pilot.hover("#header")
        assert footer.tooltip is None


async def test_on_a_narrow_screen_help_keeps_its_place(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), size=(70, 24)) as (app, pilot):
        await until(pilot, lambda: last_row(app).endswith("▏ ? Help "), "the key of help")
        row = last_row(app)
        assert "palette" not in row
        assert row.count("?") == 1
        await point(pilot, "? Help", click=True)
        await until(pilot, lambda: isinstance(app.screen, HelpDialog), "the help")


@pytest.mark.parametrize("size", [(70, 24), (104, 40)])
async def test_the_wheel_brings_in_what_does_not_fit(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(write_run(tmp_path), size=size) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: app.current_mode == "timeline", "the timeline")
        await until(pilot, lambda: "q Quit" in last_row(app) or "▏" in last_row(app), "the keys")
        footer = app.screen.query_one(KeysFooter)
        first = last_row(app)
        for _ in range(60):
            footer.post_message(_wheel(MouseScrollDown, footer))
        await pilot.pause()
        moved = last_row(app)
        assert moved != first
        assert moved[-8:] == first[-8:]
        for _ in range(60):
            footer.post_message(_wheel(MouseScrollUp, footer))
        await pilot.pause()
        assert last_row(app) == first


@pytest.mark.slow
async def test_no_key_is_shown_without_its_word(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), size=(80, 24)) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: app.current_mode == "timeline", "the timeline")
        keys = "w In  s Out  n Gap  g Largest  f Fit  m Mark  / Search  q Quit  space Pause"
        for columns in range(60, 100):
            await pilot.resize_terminal(columns, 24)
            await until(pilot, lambda wide=columns: len(last_row(app)) == wide, "the width")
            shown, _, help_key = last_row(app).partition("▏")
            assert help_key == " ? Help "
            assert f"{keys}  c Capture ".startswith(f"{shown.strip()} ")


async def test_it_changes_with_the_width_of_the_terminal(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: last_row(app).rstrip().endswith("? Help"), "help at the edge")
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: last_row(app).rstrip().endswith("palette"), "the palette there")
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: last_row(app).rstrip().endswith("? Help"), "help again")


def _wheel(
    kind: type[MouseScrollDown] | type[MouseScrollUp], footer: KeysFooter
) -> MouseScrollDown | MouseScrollUp:
    return kind(footer, 1, 0, 0, 0, 0, False, False, False)
