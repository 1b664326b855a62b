"""The log: follow, scroll, search, and never obey what the script prints."""

from pathlib import Path

import pytest

from perftui_tui.widgets.log_view import LogView, highlighted
from tests.tui.driving import opened, press, text_of, until, until_shown
from tests.tui.recorded import ENDED, write_run
from tests.tui.traces import write_trace


@pytest.fixture
def live(tmp_path: Path) -> Path:
    output = b"".join(b"epoch 1 step %d loss 2.41\r\n" % n for n in range(1000))
    return write_run(tmp_path / "runs", output=output + b"\r 50%|#####     |")


@pytest.mark.keys("log.follow", "log.scroll_pages(-1)")
async def test_it_follows_the_newest_line_until_one_scrolls(live: Path) -> None:
    async with opened(live) as (app, pilot):
        await press(pilot, "6", until="step 999 ")
        await until_shown(pilot, "following")
        with (live / "output.log").open("ab") as file:
            file.write(b"\r100%|##########|\r\nthe end\r\n")
        await until_shown(pilot, "the end")
        await press(pilot, "pageup", until="paused")
        held = text_of(app).splitlines()[1:20]
        with (live / "output.log").open("ab") as file:
            file.write(b"\r\nmore\r\n")
        await until(pilot, lambda: app.output.lines[-1] == "more", "the output")
        await pilot.pause()
        assert text_of(app).splitlines()[1:20] == held
        await press(pilot, "f", until="more")


@pytest.mark.slow
async def test_an_empty_log_says_why(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path), replay=True) as (_, pilot):
        await press(pilot, "6", until="a trace has no script output")
    root = write_run(tmp_path / "runs", output=b"")
    async with opened(root) as (app, pilot):
        await press(pilot, "6", until="the script has printed nothing yet")
        await press(pilot, "1", until="the script has printed nothing yet")
        (root / "output.log").write_bytes(b"epoch 1\r\n")
        await until_shown(pilot, "epoch 1")
        assert "printed nothing" not in text_of(app)
    ended = write_run(tmp_path / "ended", output=b"", **ENDED)
    async with opened(ended) as (app, pilot):
        await press(pilot, "6", until="the script has printed nothing ")
        assert "printed nothing yet" not in text_of(app)


@pytest.mark.keys("log.scroll_top")
async def test_the_oldest_line_is_one_key_away_and_a_search_begins_on_screen(live: Path) -> None:
    async with opened(live) as (app, pilot):
        await press(pilot, "6", until="following")
        await pilot.press("home")
        await until(pilot, lambda: "step 0 " in text_of(app), "the first line")
        await press(pilot, "f", until="following")
        await pilot.press("slash", *"step", "enter", "home", "n")
        assert app.screen.query_one(LogView).found == 0


@pytest.mark.slow
@pytest.mark.keys("log.search", "log.find(1)", "log.find(-1)", "log.close_search")
async def test_a_search_goes_on_is_closed_and_its_letters_are_no_commands(live: Path) -> None:
    async with opened(live) as (app, pilot):
        await press(pilot, "6", until="following")
        await press(pilot, "slash", *"STEP 50", "enter", until="step 509 ")
        await pilot.press("N")
        await until(pilot, lambda: app.screen.query_one(LogView).scroll_offset.y == 508, "508")
        await pilot.press("n")
        await until(pilot, lambda: app.screen.query_one(LogView).scroll_offset.y == 509, "509")
        await pilot.press("slash", *"q1cT?")
        assert app.current_mode == "log"
        assert app.is_running
        await press(pilot, "enter", until="no line with")
        await pilot.press("slash", *"ab")
        assert app.screen.has_class("-searching")
        await press(pilot, "escape", "1", screen="overview")


@pytest.mark.slow
async def test_the_search_goes_on_through_the_last_screenful_and_round_the_end(
    tmp_path: Path,
) -> None:
    lines = ["error 0", *["fine"] * 200, "error 1", "fine", "error 2", "fine", "fine"]
    output = "\r\n".join(lines).encode()
    async with opened(write_run(tmp_path / "runs", output=output)) as (app, pilot):
        await press(pilot, "6", until="following")
        await press(pilot, "slash", *"error", "enter", until="found in line 204")
        view = app.screen.query_one(LogView)
        found = [view.found]
        for key in "NNNnnnn":
            await pilot.press(key)
            found.append(view.found)
        assert found == [203, 201, 0, 203, 0, 201, 203, 0]


def test_matches_are_marked_in_any_case() -> None:
    assert highlighted("Loss loss", "LOSS") == (("Loss", "match"), (" ", ""), ("loss", "match"))


async def test_markup_and_control_codes_are_only_text(tmp_path: Path) -> None:
    evil = b"[bold red]not bold[/] \x1b]0;owned\x07[link=x]y[/link] \x9b31m \xe2\x80\xaeabc\r\n"
    async with opened(write_run(tmp_path / "runs", output=evil)) as (app, pilot):
        await press(pilot, "6", until="[bold red]not bold[/]")
        text = text_of(app)
        assert "[link=x]y[/link]" in text
        assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text.replace("\n", ""))
        assert "\u202e" not in text
