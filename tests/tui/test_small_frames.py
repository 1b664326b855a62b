"""Frames stay small: what did not change is not painted, and ASCII terminals get ASCII."""

from pathlib import Path

import pytest

from perftui_tui.app import PerftuiApp
from perftui_tui.commands.table import OPTIONS
from perftui_tui.keys.table import SCREENS
from perftui_tui.look.themes import THEMES
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import opened, text_of, until
from tests.tui.recorded import NOW, write_run


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
            return strip_of(view, line)  # type: ignore[arg-type]

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
            return refresh(*areas, **options)  # type: ignore[arg-type]

        view.refresh = record  # type: ignore[method-assign, assignment]
        view.rows = [(("one", ""),), (("2", ""),), (("three", ""),)]
        assert [(region.y, region.height) for region in regions] == [(1, 1)]  # type: ignore[attr-defined]


def test_every_theme_can_be_asked_for_by_its_name() -> None:
    # The command line names them itself: a headless run does not wait for Textual.
    assert [f"perftui-{name}" for name in OPTIONS["theme"].words] == [
        theme.name for theme in THEMES
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "screen", ["overview", "diagnosis", "log", "compare", "memory", "ranks", "runs"]
)
async def test_ascii_means_ascii(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, screen: str
) -> None:
    assert screen in SCREENS
    monkeypatch.setattr(RowView, "ascii_only", True)
    app = PerftuiApp(write_run(tmp_path, gpu=True), clock=lambda: NOW)
    # Wide enough for every note of a meter, the temperature too.
    async with app.run_test(size=(300, 60)) as pilot:
        await until(pilot, lambda: app.snapshot is not None, "a snapshot")
        app.action_show(screen)
        await until(pilot, lambda: app.current_mode == screen, screen)
        await pilot.pause(0.3)
        odd = {character for character in text_of(app) if ord(character) > 126}
    assert odd == set()
