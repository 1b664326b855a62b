"""Colours can be read, and told apart: on every ground, and with every common colour vision."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from textual.color import Color
from textual.theme import Theme

from perftui_tui.app import PerftuiApp
from perftui_tui.keys.all_keys import SCREENS
from perftui_tui.look.themes import THEMES, AsciiFilter
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import close, opened, text_of, until, until_shown
from tests.tui.recorded import write_run
from tests.tui.traces import write_trace

COLOURED = [theme for theme in THEMES if not theme.ansi]
READABLE = 4.5
"""Of WCAG, for text (level AA)."""

HIGH = 7.0
"""Of WCAG, level AAA."""

TEXTS = ("good", "dim", "caution", "bad", "chart")
BUDGET = ("input-wait", "loader-start", "forward", "backward", "optimizer", "profiler", "other")
"""Parts of a step, in the order in which they stand side by side."""

# Viénot, Brettel and Mollon 1999: linear light as seen without one kind of cone.
DEUTERANOPIA = ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0))
PROTANOPIA = ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0))


def linear(colour: Color) -> list[float]:
    return [
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4
        for one in colour.normalized
    ]


def luminance(colour: Color) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted(luminance(Color.parse(name)) for name in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(light: list[float]) -> tuple[float, float, float]:
    """CIE L*a*b*, D65."""
    red, green, blue = (max(0.0, one) for one in light)
    xyz = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
    )
    x, y, z = (one ** (1 / 3) if one > 0.008856 else 7.787 * one + 16 / 116 for one in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def seen(colour: str, matrix: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    light = linear(Color.parse(colour))
    return lab([sum(a * b for a, b in zip(line, light, strict=True)) for line in matrix])


@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
def test_words_can_be_read_on_every_ground(theme: Theme) -> None:
    least = HIGH if theme.name == "perftui-contrast" else READABLE
    for ground in (theme.background, theme.surface, theme.panel):
        assert contrast(theme.foreground or "", ground) >= HIGH
        for name in TEXTS:
            found = contrast(theme.variables[name], ground)
            assert found >= least, (name, ground, found)


@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
def test_names_of_parts_can_be_read_in_the_bar(theme: Theme) -> None:
    for part in BUDGET:
        found = contrast(theme.variables["part-text"], theme.variables[f"part-{part}"])
        assert found >= READABLE, (part, found)


@pytest.mark.parametrize("matrix", [DEUTERANOPIA, PROTANOPIA], ids=["deutan", "protan"])
@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
def test_neighbours_in_the_bar_differ_without_red_and_green(
    theme: Theme, matrix: tuple[tuple[float, ...], ...]
) -> None:
    for one, other in pairwise(BUDGET):
        pair = [seen(theme.variables[f"part-{part}"], matrix) for part in (one, other)]
        distance = sum((a - b) ** 2 for a, b in zip(*pair, strict=True)) ** 0.5
        assert distance >= 10, (one, other, distance)


@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
@pytest.mark.parametrize("matrix", [DEUTERANOPIA, PROTANOPIA], ids=["deutan", "protan"])
def test_good_and_bad_differ_without_red_and_green(
    theme: Theme, matrix: tuple[tuple[float, ...], ...]
) -> None:
    good, bad = (seen(theme.variables[name], matrix) for name in ("good", "bad"))
    assert sum((a - b) ** 2 for a, b in zip(good, bad, strict=True)) ** 0.5 >= 20


@pytest.mark.slow
async def test_every_theme_of_the_palette_can_be_chosen(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path, gpu=True)) as (app, pilot):
        for name in app.available_themes:
            app.theme = name
            await pilot.pause()
        await until_shown(pilot, "Findings")


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
    odd: dict[str, dict[str, str]] = {}
    async with opened(target, SIZES[0], replay=kind == "trace") as (app, pilot):
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
                await close(pilot)
    assert {name: found for name, found in odd.items() if found} == {}


@pytest.mark.slow
@pytest.mark.parametrize("keys", [("a",), ("q",), ("P",), ("C",), ("ctrl+p",)])
async def test_what_lies_over_a_screen_is_ascii(tmp_path: Path, keys: tuple[str, ...]) -> None:
    async with opened(write_run(tmp_path, gpu=True, workers=2)) as (app, pilot):
        await pilot.press(*keys)
        await pilot.pause(0.5)
        assert odd_characters(app) == {}


@given(st.text(max_size=40))
def test_what_is_drawn_with_ascii_is_as_wide_as_it_was(text: str) -> None:
    (drawn,) = AsciiFilter().apply([Segment(text)], Color(0, 0, 0))
    assert drawn.text.isascii()
    assert drawn.cell_length == Segment(text).cell_length
