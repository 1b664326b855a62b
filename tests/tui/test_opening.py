"""What the app opens: growing runs, damaged runs, traces, kept ones, and files that are none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from perftui.analysis import open_trace as opening
from perftui.analysis.open_trace import open_trace
from perftui.run.manifest import Status
from perftui.trace.recordings import choose_rank
from perftui_tui.app import PerftuiApp
from perftui_tui.keys.all_keys import SCREENS
from perftui_tui.reading.source import LoadProgressed
from perftui_tui.screens.timeline.view import TimelineView
from tests.tui.driving import (
    NotShownError,
    opened,
    press,
    press_shown,
    says,
    settled,
    text_of,
    until,
    until_shown,
)
from tests.tui.recorded import COSTLY_LINE, GPU_SCRIPT, NOW, START, write_gpu_run, write_run
from tests.tui.traces import write_trace


@pytest.mark.slow
async def test_a_trace_shows_breakdown_timeline_and_kernels(trace: Path) -> None:
    async with opened(trace, replay=True) as (app, pilot):
        await until_shown(pilot, "rank0.pt.trace.json")
        assert "gpu compute" in text_of(app)
        assert "3 steps in the trace" in text_of(app)
        await press(pilot, "3", until="aten::mm")
        await press(pilot, "k", until="gemm")
        await press(pilot, "2", until="stream 7")
        await press(pilot, "3", "k", until="aten::mm")
        await press(pilot, "t", screen="timeline", until="aten::mm")


async def test_a_failure_beside_the_timeline_is_said_and_ends_nothing(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr("perftui_tui.screens.timeline.view.timeline_tracks", broken)
    async with opened(trace, replay=True) as (app, pilot):
        await press(pilot, "2", until="a bug of ours")
        await press(pilot, "1", until="GPU idle")
        assert app.crash is None


async def test_what_cannot_work_on_a_trace_is_not_offered_and_says_so(trace: Path) -> None:
    async with opened(trace, replay=True) as (app, pilot):
        await press(pilot, "4", screen="diagnosis", until="Timeline")
        footer = text_of(app).splitlines()[-1]
        assert "Quit" in footer
        for label in ("Try", "Write", "Undo", "Run again", "Capture", "Pause"):
            assert label not in footer
        assert "w write" not in text_of(app)
        await press(pilot, "a", until="a trace cannot be run again")
        app.post_message(LoadProgressed(trace, 0.42))
        await until_shown(pilot, "reading rank0.pt.trace.json 42 %")


@pytest.mark.parametrize("content", ["", "not json", '{"a": 1}', '{"traceEvents": []}'])
async def test_what_is_no_trace_ends_the_app_with_words_and_code_2(
    tmp_path: Path, content: str
) -> None:
    path = tmp_path / "odd.json"
    path.write_text(content)
    app = PerftuiApp(path, replay=True, clock=lambda: NOW)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.failure is not None, "the failure")
    assert app.return_code == 2
    assert app.failure
    assert "odd.json" in app.failure


@pytest.mark.slow
async def test_a_run_cut_off_at_any_byte_opens(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "whole", steps=30)
    for cut in (0, 1, 300, 2000, 5000):
        root = tmp_path / f"cut-{cut}" / whole.name
        shutil.copytree(whole, root)
        for journal in root.rglob("*.jsonl"):
            journal.write_bytes(journal.read_bytes()[:cut])
        async with opened(root) as (app, _):
            assert text_of(app).splitlines()[1].strip()


async def test_a_script_that_failed_at_once_is_not_lost(tmp_path: Path) -> None:
    root = write_run(
        tmp_path / "runs",
        steps=0,
        torch_version=None,
        output=b"SyntaxError: invalid syntax\r\n",
        status=Status.EXITED,
        exit_code=1,
        ended_ns=START + 10**9,
    )
    async with opened(root) as (_, pilot):
        await until_shown(pilot, "exit code 1 before it used torch", "SyntaxError: invalid syntax")
        await until_shown(pilot, "failed (exit 1)")


async def test_every_meaning_has_a_word(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path, gpu=True, workers=2)) as (_, pilot):
        for word in ("BOTTLENECK", "LOW", "HIGH", "OK", "live"):
            await until_shown(pilot, word)


async def test_the_palette_opens_the_other_ranks_of_a_directory(tmp_path: Path) -> None:
    first = write_trace(tmp_path)
    second = first.rename(tmp_path / "rank1.pt.trace.json")
    write_trace(tmp_path, steps=5)
    choice = choose_rank(tmp_path)
    app = PerftuiApp(choice.path, replay=True, clock=lambda: NOW)
    app.notes, app.ranks = choice.notes, choice.ranks
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until_shown(pilot, "5 steps in the trace", "2 ranks; this is rank 0")
        commands = {each.title: each for each in app.get_system_commands(app.screen)}
        commands["Open rank 1"].callback()
        await until(pilot, lambda: app.snapshot and app.snapshot.source == second, "rank 1")
        await until_shown(pilot, "3 steps in the trace")
        assert app.failure is None


WALK = ("n", "g", "w", "f", "full_stop", "right_square_bracket", "0")


async def screens_of(path: Path) -> list[str]:
    """Every screen of the app as text, the timeline after a walk through it."""
    shown = []
    async with opened(path, (140, 45)) as (app, pilot):
        for digit, screen in enumerate(SCREENS, 1):
            await press(pilot, str(digit), screen=screen)
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


@pytest.mark.slow
async def test_every_screen_is_the_same_of_a_trace_that_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_trace(tmp_path, steps=6)
    read = await screens_of(path)
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(opening, "FEWEST_ROWS", 1)
    open_trace(path, later=lambda work: work())
    monkeypatch.setattr("perftui.trace.formats.load_trace", None)
    assert not open_trace(path).trace.start.flags.writeable
    assert await screens_of(path) == read


# Every key is pressed through ``press_shown``: the screen must show it then, with what it does.

SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids="{0[0]}x{0[1]}".format)


@pytest.mark.slow
@SIZES
async def test_from_the_first_screen_to_the_mended_source(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    root, script = write_gpu_run(tmp_path)
    async with opened(root, size, replay=True) as (app, pilot):
        await until(pilot, lambda: app.snapshot and app.snapshot.analysis, "the window")
        await until_shown(pilot, "BOTTLENECK")

        # The largest gap, and its cause.
        await press_shown(pilot, "t", "Gap", until="GPU 0 idle 210 ms: data loader wait")
        assert "meanwhile enumerate(DataLoader)" in text_of(app)
        largest = max(app.snapshot.analysis.gaps, key=lambda gap: gap.duration)
        assert largest.duration == 209_950_000

        # The costliest operator, and the line that calls it.
        await press_shown(pilot, "3", "Ops", until="aten::conv2d")
        rows = [line for line in text_of(app).splitlines() if line.startswith("aten::")]
        assert "own GPU ▼" in text_of(app)
        assert rows[0].split()[0] == "aten::conv2d"
        await press_shown(pilot, "enter", "Open", until="called from functions at")
        assert f"train.py:{COSTLY_LINE} train" in text_of(app)
        await press_shown(pilot, "backspace", "Back")
        await until(pilot, lambda: "aten::sum" in text_of(app), "the table again")

        # The fix: first what it would change, then the change.
        await press_shown(pilot, "4", "Diag", until="confidence")
        await press_shown(pilot, "w", "Write", until="Write the fix?")
        assert "-    loader = DataLoader(pictures, batch_size=128, shuffle=True)" in text_of(app)
        assert script.read_text() == GPU_SCRIPT
        await press_shown(pilot, "enter", "write it to the source", until="train.py written")
        assert "num_workers=4" in script.read_text()

        # And back again.
        await press_shown(pilot, "u", "undoes it")
        await until(pilot, lambda: script.read_text() == GPU_SCRIPT, "the source as it was")


@SIZES
async def test_the_first_screen_tells_how_to_go_on(tmp_path: Path, size: tuple[int, int]) -> None:
    """What to do, why, and where the rest stands: nothing of it has to be known."""
    root, _ = write_gpu_run(tmp_path)
    async with opened(root, size, replay=True) as (app, pilot):
        await until_shown(pilot, "BOTTLENECK")
        for key, words in (("a", "try it"), ("enter", "why"), ("t", "Gap"), ("?", "Help")):
            await until(pilot, lambda k=key, w=words: says(text_of(app), k, w), f"{key} {words}")
        await press_shown(pilot, "enter", "why")
        await until(pilot, lambda: app.current_mode == "diagnosis", "the diagnosis")
        for key, words in (("a", "Try"), ("w", "Write"), ("e", "Evidence"), ("?", "Help")):
            await until(pilot, lambda k=key, w=words: says(text_of(app), k, w), f"{key} {words}")


@pytest.mark.slow
@SIZES
async def test_help_is_named_on_every_screen_and_names_keys_beyond_the_footer(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    root, _ = write_gpu_run(tmp_path)
    async with opened(root, size, replay=True) as (app, pilot):
        await until(pilot, lambda: app.snapshot and app.snapshot.analysis, "the window")
        await press_shown(pilot, "2", "Time")
        await until(pilot, lambda: app.current_mode == "timeline", "the timeline")
        await press_shown(pilot, "?", "Help", until="Help: timeline")
        seen = ""
        for _ in range(40):
            seen += text_of(app)
            if says(seen, "g", "The largest gap"):
                break
            assert "up and down scroll" in text_of(app)
            await pilot.press("down", "down", "down")
            await pilot.pause(0.05)
        assert says(seen, "g", "The largest gap")
        await press_shown(pilot, "escape", "close")
        await press_shown(pilot, "g", "Largest", until="idle 210 ms: data loader wait")
        for digit, screen in enumerate(SCREENS, 1):
            await press(pilot, str(digit), screen=screen)
            await until(pilot, lambda: says(text_of(app), "?", "Help"), f"help on {screen}")


@pytest.mark.slow
async def test_a_key_that_the_screen_does_not_name_is_refused(tmp_path: Path) -> None:
    root, _ = write_gpu_run(tmp_path)
    async with opened(root, replay=True) as (_app, pilot):
        await until_shown(pilot, "BOTTLENECK")
        with pytest.raises(NotShownError):
            await press_shown(pilot, "z", "Zoom")
