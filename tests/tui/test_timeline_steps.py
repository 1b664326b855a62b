"""The timeline of a run in which no window has been profiled yet."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from perftui.run.reader import RunReader
from perftui_tui.screens.timeline.other_traces import LEAST_REST, Pace
from perftui_tui.screens.timeline.view import TimelineView
from tests.tui.driving import opened, press, text_of, until, until_shown
from tests.tui.recorded import ENDED, step_rows, write_run
from tests.tui.test_ranks_screen import write_ranks


@pytest.mark.slow
async def test_steps_and_phases_before_any_window(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path, steps=30)) as (app, pilot):
        await press(pilot, "2", until="no window has been profiled yet")
        await until_shown(pilot, "phases")
        text = text_of(app)
        assert "30 steps, median" in text
        assert "follow once the whole trace is read" not in text
        assert "the order of the phases within a step is not recorded" in " ".join(text.split())
        await pilot.press("right_parenthesis", "right_parenthesis")
        view = app.screen.query_one(TimelineView)
        await until(pilot, lambda: view.state and view.state.selected, "a step")
        assert view.state.selected is not None
        kept = view.state.selected
        assert view.state.trace.name_of(kept.row) == f"step {view.state.analysis.steps[1].index}"
        await until_shown(pilot, "data loader wait")
        await pilot.pause(0.5)
        assert view.state.selected is kept


async def test_the_steps_of_all_ranks_before_any_window(tmp_path: Path) -> None:
    async with opened(write_ranks(tmp_path, 5, 65, 4, steps=30)) as (app, pilot):
        await press(pilot, "2", until="no window has been profiled yet")
        labels = [line[:16].strip(" ▶") for line in text_of(app).splitlines()]
        assert [label for label in labels if label.endswith(" steps")] == [
            f"rank {rank} steps" for rank in range(3)
        ]


async def test_before_the_first_step_it_says_what_to_press(tmp_path: Path) -> None:
    root = write_run(tmp_path, steps=0, torch_version=None)
    async with opened(root) as (_, pilot):
        await press(pilot, "2", until="press c to record a window of steps now")


@pytest.mark.slow
async def test_of_a_run_that_is_over_no_window_can_be_recorded(tmp_path: Path) -> None:
    for steps in (0, 30):
        root = write_run(tmp_path / str(steps), steps=steps, **ENDED)
        async with opened(root, replay=True) as (app, pilot):
            await press(pilot, "2", until="no window was profiled in this run")
            assert "press c" not in text_of(app)
            assert "c records" not in text_of(app)


async def test_new_steps_come_by_themselves_and_move_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftui_tui.screens.timeline.other_traces.LEAST_REST", 0.05)
    root = write_run(tmp_path, steps=30)
    async with opened(root) as (app, pilot):
        await press(pilot, "2", until="30 steps, median")
        view = app.screen.query_one(TimelineView)
        await pilot.press("right_parenthesis", "m")
        await until(pilot, lambda: view.state and view.state.selected, "a step")
        before = view.state
        rows = step_rows(60, 118, 0, False)[30:]
        with (root / "rank-0" / "steps.jsonl").open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        await until(pilot, lambda: view.state and len(view.state.analysis.steps) == 60, "60 steps")
        after = view.state
        assert after.trace.name_of(after.selected.row) == before.trace.name_of(before.selected.row)
        assert (after.view.start, after.view.end) == (before.view.start, before.view.end)
        assert after.view.last > before.view.last
        assert after.marks == before.marks
        await press(pilot, "escape", "escape", until="60 steps, median")


def test_steps_are_laid_out_one_after_the_other_and_the_last_counts(tmp_path: Path) -> None:
    few, more, most = (
        RunReader(write_run(tmp_path / str(steps), steps=steps)).poll() for steps in (1, 2, 3)
    )
    started: list[object] = []
    rests: list[tuple[float, Callable[[], None]]] = []
    pace = Pace(started.append, lambda seconds, rested: rests.append((seconds, rested)))
    pace.want(few)
    pace.want(few)
    pace.want(more)
    pace.want(most)
    assert started == [few]
    pace.done(1.5)
    assert started == [few]
    (seconds, rested), *_ = rests
    assert seconds == 15.0
    rested()
    assert started == [few, most]
    pace.done(0.01)
    assert rests[-1][0] == LEAST_REST
    rests[-1][1]()
    pace.want(most)
    assert started == [few, most]
    pace.forget()
    pace.want(most)
    assert started == [few, most, most]
