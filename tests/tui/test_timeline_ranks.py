"""All ranks of a directory in one timeline, and the steps of a run that goes on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from perftui.run.reader import RunReader
from perftui.trace.recordings import choose_rank
from perftui_tui.app import PerftuiApp
from perftui_tui.screens.timeline.other_traces import LEAST_REST, rest_after
from perftui_tui.screens.timeline.view import TimelineView
from perftui_tui.screens.timeline.widget import Pace
from tests.traces.builder import TraceBuilder, ms, us
from tests.tui.driving import opened, press, text_of, until, until_shown
from tests.tui.recorded import ENDED, NOW, step_rows, write_run
from tests.tui.test_ranks_screen import write_run_of_ranks

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
ORIGIN_US = 1_700_000_000_000_000


def write_rank(folder: Path, rank: int, off_us: int = 0, late_us: int = 0) -> None:
    """A step of 10 ms with an all-reduce, by a clock that is ``off_us`` behind the others'; it
    begins ``late_us`` later, and then has no all-reduce."""
    story, device = TraceBuilder().numbered(3), {"device": rank}
    story.step().kernel("gemm", ms(2), starts=us(400 + 100 * rank), **device).pause(us(100))
    if late_us:
        story.call("cudaLaunchKernel", us(20), correlation=5)
    else:
        begin = us(4_000 + 200 * rank)
        story.launch(REDUCE, us(4_600) - begin, call=us(20), starts=begin, **device)
    story.at(0).phase("input_wait", ms(2)).forward(ms(2)).pause(ms(1)).backward(ms(5)).end()
    told = {"rank": rank, "world_size": 3, "backend": "nccl"}
    base = ORIGIN_US * 1000 + us(late_us - off_us)
    path = folder / f"rank{rank}.pt.trace.json"
    story.write(path, distributedInfo=told, baseTimeNanoseconds=base)


@asynccontextmanager
async def opened_ranks(folder: Path) -> AsyncIterator[tuple[PerftuiApp, Pilot[None]]]:
    """The timeline on the first of the ranks in ``folder``."""
    chosen = choose_rank(folder)
    app = PerftuiApp(chosen.path, clock=lambda: NOW)
    app.ranks = chosen.ranks
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.snapshot is not None, "a snapshot")
        await press(pilot, "2", until="GPU 0 stream 7")
        yield app, pilot


@asynccontextmanager
async def two_ranks(
    folder: Path, late_us: int = 0
) -> AsyncIterator[tuple[PerftuiApp, Pilot[None]]]:
    """Both in one timeline; rank 1 begins ``late_us`` later."""
    for rank in range(2):
        write_rank(folder, rank, late_us=late_us * rank)
    async with opened_ranks(folder) as (app, pilot):
        await press(pilot, "r", until="2 ranks on one clock")
        yield app, pilot


def lines_of(app: PerftuiApp, words: str) -> list[str]:
    return [line.strip() for line in text_of(app).splitlines() if words in line]


@pytest.mark.keys("timeline.search.all_ranks")
async def test_ranks_side_by_side_and_one_alone_again(tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank)
    async with opened_ranks(tmp_path) as (app, pilot):
        await press(pilot, "r", until="3 ranks on one clock")
        for rank in range(3):
            assert lines_of(app, f"rank {rank} GPU {rank} stream 7")
        confirmed = "agrees with the collectives  accurate to 600 µs or better  1 collectives"
        assert confirmed.split("  ")[0] in lines_of(app, "rank 1:")[0]
        # A gap tells what its own rank did meanwhile.
        await press(pilot, "g", until="rank 0 GPU 0 idle 5.40 ms")
        await until_shown(pilot, "meanwhile on the CPU")
        (line,) = (line for line in lines_of(app, "perftui::backward") if "  5.00 ms" in line)
        assert line.split() == ["5.00", "ms", "5.00", "ms", "1", "perftui::backward"]
        await pilot.press("r")
        await until(pilot, lambda: not lines_of(app, "rank 1 GPU 1"), "one rank")
        assert lines_of(app, "GPU 0 stream 7")


@pytest.mark.slow
async def test_a_clock_that_is_off_is_shifted_and_said_to_be(tmp_path: Path) -> None:
    write_rank(tmp_path, 0)
    write_rank(tmp_path, 1, off_us=5_000_000)
    async with opened_ranks(tmp_path) as (app, pilot):
        await pilot.press("r")
        await until_shown(
            pilot, "shifted so that its collectives coincide with those of the others"
        )
        view = app.screen.query_one(TimelineView)
        trace = view.state.trace
        reduces = [row for row in range(len(trace)) if trace.name_of(row) == REDUCE]
        starts = [int(trace.start[row]) for row in reduces]
        assert abs(starts[1] - starts[0]) < 1_000_000


@pytest.mark.slow
async def test_a_rank_that_cannot_be_read_is_said_to_be_left_out(tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank)
    async with opened_ranks(tmp_path) as (app, pilot):
        (tmp_path / "rank2.pt.trace.json").write_text("{")
        await press(pilot, "r", until="rank 2 cannot be read")
        assert lines_of(app, "2 ranks on one clock")


async def test_one_rank_says_how_to_see_several(tmp_path: Path) -> None:
    write_rank(tmp_path, 0)
    async with opened_ranks(tmp_path) as (_, pilot):
        await press(pilot, "r", until="only one rank here: perftui DIR")


@pytest.mark.slow
async def test_a_place_from_another_screen_is_of_the_one_rank(tmp_path: Path) -> None:
    async with two_ranks(tmp_path) as (app, pilot):
        app.action_show("overview")
        app.go_to_place(0, 1_000_000, 0)
        await until(pilot, lambda: not lines_of(app, "rank 1 GPU 1"), "one rank")
        view = app.screen.query_one(TimelineView)
        await until(pilot, lambda: view.state and view.state.selected, "the place")
        assert view.state.selected.row == 0


def row_of(app: PerftuiApp, label: str, below: str = "") -> str:
    """What the track of that name draws: the first one below the track ``below``."""
    lines = [line[1:] for line in text_of(app).splitlines()]
    begin = next(at for at, line in enumerate(lines) if line.startswith(below))
    return next(line for line in lines[begin:] if line.startswith(label))[23:]


async def test_each_rank_shows_its_steps_and_phases_at_their_times(tmp_path: Path) -> None:
    """Rank 1 begins half a step later: so do its step and its phases, on one clock."""
    async with two_ranks(tmp_path, late_us=5_000) as (app, pilot):
        tracks = [line[1:24].strip() for line in text_of(app).splitlines() if "rank " in line[:8]]
        assert tracks[:6] == [
            f"rank {rank} {what}" for rank in range(2)
            for what in ("steps", f"GPU {rank} stream 7", "main thread")
        ]  # fmt: skip
        columns = 120 - 24
        for rank, begin in ((0, 0), (1, columns // 3)):
            steps = row_of(app, f"rank {rank} steps")
            phases = row_of(app, "  phases", f"rank {rank} steps")
            assert "step 3 10.0 ms" in steps
            assert "forward" in phases
            assert "backward" in phases
            # A step of 10 ms in a view of 15 ms.
            assert abs(_begin(steps) - begin) <= 1
            assert abs(_begin(phases) - begin) <= 1
            assert abs(phases.index("forward") - (begin + columns * 2 // 15)) <= 2
            assert abs(phases.index("backward") - (begin + columns * 5 // 15)) <= 2
        await press(pilot, "slash", *"input_wait", "enter", until="data loader wait")
        state = app.screen.query_one(TimelineView).state
        await until(pilot, lambda: state.selected, "the phase")
        await until_shown(pilot, "training phase  rank 0 steps and phases")
        assert (state.selected.start, state.selected.end) == (0, 2_000_000)


def _begin(cells: str) -> int:
    return len(cells) - len(cells.lstrip())


@pytest.mark.slow
async def test_keys_go_through_the_steps_of_the_rank_whose_track_is_selected(
    tmp_path: Path,
) -> None:
    async with two_ranks(tmp_path, late_us=5_000) as (app, pilot):
        state = app.screen.query_one(TimelineView).state
        for rank in range(2):
            state.whole()
            state.selected = None
            state.track = next(
                track for track in state.tracks
                if track.kind == "thread" and state.trace.tracks[track.track].rank == rank
            )  # fmt: skip
            await pilot.press("right_parenthesis")
            await until_shown(pilot, f"training step  rank {rank} steps and phases")
            assert state.selected.track.label == f"rank {rank} steps"
            assert state.selected.start == 5_000_000 * rank
        assert "10.0 ms  rank 1  1 step" not in text_of(app)
        await press(pilot, "escape", until="10.0 ms  rank 1  1 step")


async def test_phases_are_told_apart_without_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with two_ranks(tmp_path) as (app, _):
        phases = row_of(app, "  phases", "rank 1 steps")
        for word in ("data loader wait", "forward", "backward"):
            phases = phases.replace(word, "")
        assert set(phases) <= set("DdFfBb [")
        assert {"D", "F", "B"} <= set(phases)


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
    async with opened(write_run_of_ranks(tmp_path, 5, 65, 4, steps=30)) as (app, pilot):
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
            await press(pilot, "2", until="no window was profiled:")
            assert "press c" not in text_of(app)
            if steps:
                # Nor at an earlier time of it.
                await press(pilot, "P", "end", "left", "left", until=f"{steps - 1} steps, median")
                await until_shown(pilot, "no window was profiled:")
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


def test_steps_are_laid_out_where_one_came_and_never_take_more_than_a_tenth(tmp_path: Path) -> None:
    few, more = (RunReader(write_run(tmp_path / str(n), steps=n)).poll() for n in (1, 2))
    view, asked = TimelineView(), []
    view._pace = Pace(asked.append, lambda _, rested: rested())
    for run in (few, few, more, more):
        view.show_steps(run)
        view._pace.done(0.0)
    assert asked == [few, more]
    view.show(None)
    view.show_steps(more)
    assert asked == [few, more, more]
    assert rest_after(1.5) == 15.0
    assert rest_after(0.01) == LEAST_REST
