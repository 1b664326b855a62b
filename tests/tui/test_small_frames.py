"""Frames stay small, ASCII terminals get ASCII, and colours can be read and told apart."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from textual.color import Color
from textual.theme import Theme

from perftui.run.layout import RunLayout
from perftui_tui.app import PerftuiApp
from perftui_tui.commands.table import OPTIONS
from perftui_tui.keys.all_keys import SCREENS
from perftui_tui.look.themes import THEMES, AsciiFilter
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import close, opened, press, settled, text_of, until, until_shown
from tests.tui.recorded import ENDED, gpu_window, write_full_machine, write_run
from tests.tui.test_memory_screen import three_lines
from tests.tui.test_ranks_screen import write_run_of_ranks
from tests.tui.traces import write_trace


@pytest.mark.slow
async def test_an_equal_picture_paints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted: list[str] = []
    async with opened(write_run(tmp_path)) as (app, pilot):
        await pilot.pause(0.5)
        strip_of = RowView.strip_of

        def count(view: RowView, line: object) -> object:
            painted.append(view.id or type(view).__name__)
            return strip_of(view, line)

        monkeypatch.setattr(RowView, "strip_of", count)
        first = app.snapshot
        await until(pilot, lambda: app.snapshot is not first, "a second picture")
        await pilot.pause(0.5)
    assert painted == []


async def test_a_changed_row_is_painted_alone() -> None:
    from textual.app import App, ComposeResult

    class Rows(App[None]):
        def __init__(self) -> None:
            super().__init__()
            self.register_theme(THEMES[0])
            self.theme = THEMES[0].name

        def compose(self) -> ComposeResult:
            yield RowView()

    async with Rows().run_test() as pilot:
        view = pilot.app.query_one(RowView)
        view.rows = [(("one", ""),), (("two", ""),), (("three", ""),)]
        await pilot.pause()
        regions: list[object] = []
        refresh = view.refresh

        def record(*areas: object, **options: object) -> object:
            regions.extend(areas)
            return refresh(*areas, **options)

        view.refresh = record
        view.rows = [(("one", ""),), (("2", ""),), (("three", ""),)]
        assert [(region.y, region.height) for region in regions] == [(1, 1)]


def test_every_theme_can_be_asked_for_by_its_name() -> None:
    # The command line names them itself: a headless run does not wait for Textual.
    assert [f"perftui-{name}" for name in OPTIONS["theme"].words] == [
        theme.name for theme in THEMES
    ]


SIZE = (200, 50)


def largest_blank(rows: list[str]) -> int:
    """Cells of the largest rectangle of blanks in ``rows`` of one length."""
    largest = 0
    depths = [0] * len(rows[0])
    for line in rows:
        depths = [depth + 1 if cell == " " else 0 for depth, cell in zip(depths, line, strict=True)]
        open_at: list[tuple[int, int]] = []
        for column, depth in enumerate([*depths, 0]):
            begin = column
            while open_at and open_at[-1][1] >= depth:
                begin, height = open_at.pop()
                largest = max(largest, height * (column - begin))
            open_at.append((begin, depth))
    return largest


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.text(" x", min_size=n, max_size=n), min_size=1, max_size=6)
    )
)
def test_the_largest_rectangle_is_that_of_a_search_of_all(rows: list[str]) -> None:
    width, height = len(rows[0]), len(rows)
    sizes = [
        (right - left) * (bottom - top)
        for top in range(height)
        for bottom in range(top + 1, height + 1)
        for left in range(width)
        for right in range(left + 1, width + 1)
        if all(not line[left:right].strip() for line in rows[top:bottom])
    ]
    assert largest_blank(rows) == max(sizes, default=0)


def slow_loader(runs: Path) -> Path:
    return write_run(runs, **ENDED)


def before_and_after(runs: Path) -> Path:
    first = write_run(runs)
    changed = {"parent": first.name, "name": "num_workers 0 -> 4", "wait_ms": 3, "workers": 4}
    return write_run(runs, run_id="20231114-231320-train", **changed)


def with_a_snapshot(runs: Path) -> Path:
    root = write_run(runs, gpu=True, workers=2, **ENDED)
    memory = RunLayout(root).rank(0).memory
    memory.mkdir()
    (memory / "peak.pickle").write_bytes(three_lines())
    return root


def full_machine(runs: Path) -> Path:
    return write_full_machine(runs, cards=4, window=gpu_window())


def eight_gpus(runs: Path) -> Path:
    return write_full_machine(runs, cards=8, window=gpu_window())


def with_ranks(count: int) -> Callable[[Path], Path]:
    return lambda runs: write_run_of_ranks(runs, *(60 + rank for rank in range(count)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "key", "screen"),
    [
        (full_machine, "1", "overview"),
        (eight_gpus, "1", "overview"),
        (slow_loader, "1", "overview"),
        (slow_loader, "4", "diagnosis"),
        (before_and_after, "5", "compare"),
        (with_a_snapshot, "7", "memory"),
        (full_machine, "7", "memory"),
        (slow_loader, "7", "memory"),
        *((with_ranks(count), "8", "ranks") for count in (2, 4, 8)),
        (before_and_after, "9", "runs"),
    ],
)
async def test_no_more_than_a_third_is_empty(
    tmp_path: Path, write: Callable[[Path], Path], key: str, screen: str
) -> None:
    async with opened(write(tmp_path), SIZE) as (_, pilot):
        await press(pilot, key, screen=screen)
        shown = (await settled(pilot)).splitlines()
        part = largest_blank([line.ljust(SIZE[0]) for line in shown]) / (SIZE[0] * SIZE[1])
        assert part <= 1 / 3, "\n".join(shown)


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
        await until_shown(pilot, "Other findings")


@pytest.fixture
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


@pytest.mark.usefixtures("ascii_only")
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


@pytest.mark.usefixtures("ascii_only")
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
