"""Running again: one start at a time, none that nobody would see, in a terminal of our size."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from perftui.recorder.launch import Launch
from perftui.run.control import take_requests
from perftui.run.layout import RunLayout
from perftui.run.manifest import read_manifest, write_manifest
from tests.tui.driving import opened, press, press_shown, text_of, until, until_shown
from tests.tui.recorded import ENDED, write_run

NEXT = "20231114-231320-train"


@pytest.fixture
def live(tmp_path: Path, script: Path) -> Path:
    return write_run(tmp_path / "runs", script=script, loader_line=4, cwd=str(tmp_path))


class Recorder:
    """Stands in for the start of a recorder; each start waits until ``may_start`` is set."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.may_start = threading.Event()
        self.may_start.set()
        self.steps = 200
        self.changes: dict[str, object] = {}

    def start(self, launch: Launch) -> Path:
        self.launches.append(launch)
        assert self.may_start.wait(30)
        return write_run(
            launch.runs,
            run_id=NEXT,
            steps=self.steps,
            wait_ms=0,
            workers=4,
            parent=launch.parent,
            name=launch.name,
            **self.changes,
        )


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr("perftui.recorder.launch.start", made.start)
    return made


async def try_fix(pilot: Pilot[None]) -> None:
    await press_shown(pilot, "a", "try it", until="Run again?")
    await pilot.press("enter")


def end(root: Path) -> None:
    """The training at ``root`` ends."""
    path = RunLayout(root).manifest
    write_manifest(path, replace(read_manifest(path), **ENDED))


def stops(root: Path) -> int:
    return sum(request.kind == "stop" for request in take_requests(RunLayout(root)))


async def settled(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    await until(pilot, condition)
    await pilot.pause(0.2)


@pytest.mark.slow
async def test_a_second_start_is_refused_while_the_first_waits(
    live: Path, recorder: Recorder
) -> None:
    async with opened(live) as (app, pilot):
        await try_fix(pilot)
        await until(pilot, lambda: app.trials.is_starting)
        await press(pilot, "a", until="is already starting")
        assert len(app.screen_stack) == 1
        end(live)
        await settled(pilot, lambda: app.target.name == NEXT)
    assert len(recorder.launches) == 1
    assert stops(live) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("key", "stopping"), [("l", False), ("s", True)])
async def test_leaving_while_the_old_training_stops_starts_no_new_one(
    live: Path, recorder: Recorder, key: str, stopping: bool
) -> None:
    async with opened(live) as (app, pilot):
        await try_fix(pilot)
        await until(pilot, lambda: list(RunLayout(live).control.glob("*-stop.json")))
        await press(pilot, "q", until="Quit perftui?")
        await pilot.press(key)
        await until(pilot, lambda: not app.is_running or app._exit)
    for _ in range(100):
        if not app.trials.is_starting:
            break
        threading.Event().wait(0.05)
    end(live)
    assert not app.trials.is_starting
    assert recorder.launches == []
    assert app.is_stopping is stopping
    assert stops(live) == 1


@pytest.mark.slow
async def test_a_run_that_had_to_be_started_is_the_one_that_is_reported(
    ended: Path, recorder: Recorder
) -> None:
    recorder.may_start.clear()
    async with opened(ended) as (app, pilot):
        await try_fix(pilot)
        await until(pilot, lambda: recorder.launches)
        await pilot.press("q")
        await until(pilot, lambda: app._exit)
    recorder.may_start.set()
    for _ in range(100):
        if not app.trials.is_starting:
            break
        threading.Event().wait(0.05)
    assert app.target.name == NEXT


@pytest.mark.slow
async def test_nothing_is_started_from_the_old_picture(ended: Path, recorder: Recorder) -> None:
    async with opened(ended) as (app, pilot):
        await try_fix(pilot)
        await until(pilot, lambda: app.target.name == NEXT)
        if app.snapshot is not None and app.snapshot.source == ended:
            app.trials.run_again()
            await until_shown(pilot, "not shown anything yet")
        await settled(pilot, lambda: app.snapshot and app.snapshot.source == app.target)
    assert len(recorder.launches) == 1


@pytest.mark.slow
async def test_the_new_run_is_shown_though_the_picture_was_held(
    live: Path, recorder: Recorder
) -> None:
    async with opened(live) as (app, pilot):
        await try_fix(pilot)
        await until(pilot, lambda: app.trials.is_starting)
        await pilot.press("space")
        end(live)
        await until(pilot, lambda: app.current_mode == "compare", "the comparison")
        await until_shown(pilot, "FASTER")
        assert "paused" not in text_of(app)


@pytest.mark.slow
async def test_the_comparison_waits_until_a_question_is_answered(
    live: Path, recorder: Recorder
) -> None:
    async with opened(live) as (app, pilot):
        await try_fix(pilot)
        await until(pilot, lambda: app.trials.is_starting)
        await press(pilot, "question_mark", until="Everywhere")
        recorder.changes = ENDED
        end(live)
        await settled(pilot, lambda: app.snapshot and app.snapshot.source.name == NEXT)
        assert app.current_mode == "overview"
        await press(pilot, "escape", screen="compare", until="FASTER")


@pytest.mark.keys("compare.rerun")
async def test_a_start_that_fails_leaves_the_chosen_baseline(
    ended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(launch: Launch) -> Path:
        raise OSError("the disk is full")

    monkeypatch.setattr("perftui.recorder.launch.start", start)
    chosen = write_run(ended.parent, run_id="20231114-201320-train", wait_ms=300, **ENDED)
    async with opened(ended) as (app, pilot):
        await press(pilot, "5", until="Nothing to compare with yet")
        await press(pilot, "b", until=chosen.name)
        await press(pilot, "1", until="FASTER")
        await press(pilot, "r", until="Run again?")
        await press(pilot, "enter", until="the disk is full")
        assert app.baseline.snapshot.source == chosen
        assert not app.trials.is_starting


@pytest.mark.slow
@pytest.mark.keys("diagnosis.rerun", "compare.undo_fix")
async def test_a_source_that_was_restored_is_not_run_as_written(
    ended: Path, recorder: Recorder
) -> None:
    recorder.changes = ENDED
    async with opened(ended, (120, 60)) as (_, pilot):
        await press(pilot, "4", screen="diagnosis", until="confidence")
        await press(pilot, "w", until="Write the fix?")
        await press(pilot, "enter", until="train.py written")
        await press(pilot, "r", until="With train.py as written")
        await press(pilot, "enter", screen="compare")
        await press(pilot, "u", until="restored byte for byte")
        await press(pilot, "r", until="With the source as it is now")
        await pilot.press("enter")
        await until(pilot, lambda: len(recorder.launches) == 2)
    assert recorder.launches[0].name is not None
    assert recorder.launches[1].name is None


def resizes(root: Path) -> list[dict[str, int]]:
    return [one.data for one in take_requests(RunLayout(root)) if one.kind == "resize"]


async def test_a_new_run_has_a_terminal_of_our_size_and_learns_of_changes(
    ended: Path, recorder: Recorder
) -> None:
    recorder.may_start.clear()
    async with opened(ended, (120, 40)) as (app, pilot):
        await try_fix(pilot)
        await until(pilot, lambda: recorder.launches)
        assert (recorder.launches[0].columns, recorder.launches[0].rows) == (120, 40)
        await pilot.resize_terminal(90, 30)
        recorder.may_start.set()
        await settled(pilot, lambda: app.snapshot and app.snapshot.source.name == NEXT)
        assert resizes(app.target) == [{"rows": 30, "columns": 90}]
        await pilot.resize_terminal(100, 35)
        await settled(pilot, lambda: any(RunLayout(app.target).control.glob("*-resize.json")))
        assert resizes(app.target) == [{"rows": 35, "columns": 100}]


async def test_a_run_that_is_only_looked_at_keeps_its_size(live: Path) -> None:
    async with opened(live, (120, 40), replay=True) as (_, pilot):
        await pilot.pause(0.3)
    assert resizes(live) == []
