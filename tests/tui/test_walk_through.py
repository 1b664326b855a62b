"""A person who never saw the app finds what is wrong and mends it, by what the screen says alone.

Every key is pressed through ``press_shown``: the screen must show it then, with what it does.
"""

from pathlib import Path

import pytest

from perftui_tui.keys.all_keys import SCREENS
from tests.tui.driving import (
    NotShownError,
    opened,
    press,
    press_shown,
    says,
    text_of,
    until,
    until_shown,
)
from tests.tui.recorded import COSTLY_LINE, GPU_SCRIPT, write_gpu_run

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
        for key, words in (("a", "Try"), ("w", "Write"), ("t", "Timeline"), ("?", "Help")):
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
            await press_shown(pilot, "w", "Write")
