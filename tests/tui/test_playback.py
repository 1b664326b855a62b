"""A saved run is played through the same screens, as it was known then."""

from pathlib import Path

import pytest

from perftui.facts.ranks.rank_table import rank_table
from perftui.run.as_of import as_of, stops_of
from perftui.run.reader import RunReader
from perftui_tui.look.rows import plain
from perftui_tui.panes.meters import METERS, draw_meter
from perftui_tui.panes.step_bar import step_bar
from perftui_tui.panes.verdict import findings
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.view import Pictures, RunView
from perftui_tui.screens.log import ALL_OUTPUT
from perftui_tui.screens.memory.chart import memory_chart, memory_now
from perftui_tui.screens.overview.dashboard import headline
from perftui_tui.screens.ranks import rank_headline
from perftui_tui.widgets.header_line import header
from tests.core.run.test_as_of import earlier
from tests.tui.driving import opened, press, text_of, until, until_shown
from tests.tui.recorded import ENDED, write_run


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs", steps=120, gpu=True, workers=2, **ENDED)


def panes(snapshot: Snapshot) -> list[str]:
    """Everything that is drawn of it."""
    drawn = [
        row
        for draw in (headline, step_bar, findings, memory_now, memory_chart)
        for row in draw(snapshot, 120, 14)
    ]
    for read, _ in METERS.values():
        drawn += [*draw_meter(read)(snapshot, 60, 9), *draw_meter(read)(snapshot, 90, 1)]
    return [*map(plain, drawn), *map(plain, rank_headline(snapshot.ask(rank_table), 120))]


@pytest.mark.parametrize("steps", [0, 1, 3, 22, 75, 119])
def test_after_so_many_steps_it_is_what_was_watched_then(
    saved: Path, tmp_path: Path, steps: int
) -> None:
    run = RunReader(saved).poll()
    at = stops_of(run).at_step(steps)
    then = RunView(earlier(saved, at, tmp_path / "then"), lambda: at, lambda: False).read()
    played = Pictures(0, lambda: False).make(as_of(run, at), None, at, as_of=at)
    assert panes(played) == panes(then)
    assert played.train_steps == steps
    assert "step" in plain(header(then, "overview", False, False, 200))


@pytest.mark.slow
@pytest.mark.keys(
    "app.playback", "app.bar.step(1)", "app.bar.step(-1)", "app.bar.step(10)", "app.bar.step(-10)",
    "app.bar.edge(0)", "app.bar.edge(1)", "app.bar.leave",
)  # fmt: skip
async def test_it_steps_through_the_run_and_back_to_its_end(saved: Path) -> None:
    async with opened(saved, replay=True) as (app, pilot):
        final = app.snapshot
        await press(pilot, "P", until="the end")
        await press(pilot, "left", until="step 119 of 119")
        await pilot.press("left")
        await until(pilot, lambda: app.snapshot and app.snapshot.train_steps == 119, "119 steps")
        await pilot.press("shift+left")
        await until(pilot, lambda: app.snapshot and app.snapshot.train_steps == 109, "109 steps")
        assert "step 108 of 119" in text_of(app)
        await pilot.press("right", "shift+right")
        await until(pilot, lambda: app.snapshot and app.snapshot.train_steps == 120, "120 steps")
        await press(pilot, "home", until="before the first step")
        await until_shown(pilot, "STARTING")
        await pilot.press("end")
        await until(pilot, lambda: app.snapshot is final, "the end")
        await pilot.press("left", "escape")
        await until(pilot, lambda: app.snapshot is final and not app.playback.is_on, "the end")
        assert "the end" not in text_of(app)


@pytest.mark.keys("app.bar.play", "app.bar.faster(1)", "app.bar.faster(-1)")
async def test_it_plays_at_a_speed_and_holds(saved: Path) -> None:
    async with opened(saved, replay=True) as (app, pilot):
        await press(pilot, "P", "home", until="before the first step")
        await press(pilot, "plus", "plus", until="100x")
        await press(pilot, "minus", until="30x")
        await pilot.press("space")
        await until(pilot, lambda: app.playback.position.step > 5, "some steps")
        await pilot.press("space")
        await pilot.pause()
        assert not app.playback.position.playing
        await until(
            pilot,
            lambda: app.snapshot.train_steps == app.playback.position.step,
            "the picture of where it stands",
        )


async def test_a_click_on_the_bar_goes_there(saved: Path) -> None:
    async with opened(saved, replay=True) as (app, pilot):
        await press(pilot, "P", until="the end")
        bar = app.screen.query_one("#playback")
        left = bar._left
        await pilot.click("#playback", offset=(left + bar._cells // 2, 0))
        await until(pilot, lambda: 0.45 < app.playback.position.share < 0.55, "the middle")
        await until(pilot, lambda: app.snapshot.as_of == app.playback.position.at, "its picture")
        await pilot.click("#playback", offset=(bar.size.width - 3, 0))
        assert 0.45 < app.playback.position.share < 0.55
        await until_shown(pilot, "P keys to the screen")
        await press(pilot, "P", until="P keys to the bar")


@pytest.mark.slow
async def test_the_findings_keep_their_frame_on_the_smallest_screen(saved: Path) -> None:
    async with opened(saved, size=(60, 18), replay=True) as (app, pilot):
        await press(pilot, "P", until="the end")
        lines = text_of(app).splitlines()
        assert "Findings" in "".join(lines[-6:-2])
        assert lines[-3].startswith("╰")
        assert lines[-3].rstrip().endswith("╯")


async def test_the_keys_go_with_the_screens_and_the_log_says_that_it_is_whole(saved: Path) -> None:
    async with opened(saved, replay=True) as (app, pilot):
        await press(pilot, "6", screen="log")
        await press(pilot, "P", until="the end")
        assert ALL_OUTPUT not in text_of(app)
        await press(pilot, "left", until=ALL_OUTPUT)
        await pilot.press("escape")
        await until(pilot, lambda: ALL_OUTPUT not in text_of(app), "the line to go")
        await pilot.press("P", "left")
        await press(pilot, "9", screen="runs")
        await until(pilot, lambda: app.screen.focused and app.screen.focused.id == "playback")
        await pilot.press("P")
        await until(pilot, lambda: app.screen.focused and app.screen.focused.id == "runs-table")


@pytest.mark.parametrize("key", ["c", "q"])
async def test_what_is_played_is_not_taken_for_a_training_that_runs(saved: Path, key: str) -> None:
    async with opened(saved, replay=True) as (app, pilot):
        await pilot.press("P", "left", "left")
        await until(pilot, lambda: app.snapshot and app.snapshot.as_of, "an earlier picture")
        await pilot.press("P", key)
        await pilot.pause()
        if key == "c":
            await until_shown(pilot, "only a running training")
        else:
            await until(pilot, lambda: not app.is_running, "the end of the app")


async def test_a_running_training_is_not_played(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        await press(pilot, "P", until="still going on")
        assert not app.playback.is_on


def test_the_panes_compare_something(saved: Path) -> None:
    run = RunReader(saved).poll()
    stops = stops_of(run)
    at = stops.at_step(40)
    played = Pictures(0, lambda: False).make(as_of(run, at), None, at, as_of=at)
    whole = Pictures(0, lambda: False).make(run, None, at)
    assert panes(played) != panes(whole)
