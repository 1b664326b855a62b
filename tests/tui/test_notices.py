"""What is said in a corner goes after its time, and never stops the app."""

from pathlib import Path

import pytest
from textual.notifications import Notify
from textual.widgets._toast import Toast

from perftui_tui.actions.host import LEAST, Notice, NoticeLine
from perftui_tui.screens.run_screen import RunScreen
from perftui_tui.screens.timeline.view import TimelineView
from perftui_tui.widgets.keys_footer import KeysFooter
from tests.tui.driving import opened, press, settled, text_of, until, until_shown
from tests.tui.recorded import write_run
from tests.tui.traces import write_trace


class Missed(Notice):
    """One whose time ran out between the look whether it had and its drawing."""

    @property
    def has_expired(self) -> bool:
        return False


def test_one_whose_time_is_over_asks_for_no_timer_in_the_past() -> None:
    over = Notice("said", timeout=2, raised_at=0.0)
    assert (over.has_expired, over.time_left) == (True, LEAST)
    assert Toast(over)._timeout == LEAST


async def test_what_is_said_goes_also_where_it_is_drawn_too_late(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        late = Missed("said", timeout=2, raised_at=0.0)
        app._on_notify(Notify(late))
        assert late in app._notifications
        await until(pilot, lambda: late not in app._notifications, "its end")
        await pilot.press("2")
        assert app.current_mode == "timeline"
        app.notify("said", severity="warning", timeout=3, title="of", markup=False)
        await until(pilot, lambda: len(app._notifications) == 1, "it")
        (said,) = app._notifications
        assert isinstance(said, Notice)
        assert not said.has_expired
        shown = (said.message, said.severity, said.timeout, said.title, said.markup)
        assert shown == ("said", "warning", 3, "of", False)


LONG = "the recorder has ended: " + "no space is left on the device that holds the run " * 3


def rows(app):
    return text_of(app).split("\n")


@pytest.mark.slow
@pytest.mark.parametrize("screen", ["1", "2", "3", "6"])
async def test_a_message_takes_the_row_of_the_keys_and_covers_nothing(
    tmp_path: Path, screen: str
) -> None:
    async with opened(write_trace(tmp_path), (80, 24)) as (app, pilot):
        await pilot.press(screen)
        before = (await settled(pilot)).split("\n")
        app.notify("said", timeout=30)
        await until_shown(pilot, "said")
        await pilot.pause()
        assert rows(app)[:-1] == before[:-1]
        # As many keys as fit stand behind it.
        assert rows(app)[-1].split()[:2] == ["said", before[-1].split()[0]]
        app.clear_notifications()
        await until(pilot, lambda: rows(app) == before, "the keys again")


@pytest.mark.keys("app.close_notice")
async def test_an_error_is_whole_and_stays_until_it_is_closed(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), (80, 24)) as (app, pilot):
        await settled(pilot)
        app.notify(LONG, severity="error", timeout=0.1, markup=False)
        app.notify("of less weight", timeout=30)
        await until_shown(pilot, "x closes")
        shown = " ".join(" ".join(rows(app)[-3:]).split())
        assert f"!! {LONG.strip()} x closes" in shown
        await press(pilot, "x", until="of less weight")
        assert "no space" not in text_of(app)
        await pilot.press("x")
        await until(pilot, lambda: "of less weight" not in text_of(app), "its end")
        assert not app.screen.query_one(NoticeLine).display
        assert app.screen.query_one(KeysFooter).display


async def test_a_message_goes_to_other_screens_and_a_click_closes_it(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), (80, 24)) as (app, pilot):
        app.notify("said", severity="warning", timeout=30)
        await until_shown(pilot, "! said")
        await pilot.click(KeysFooter, offset=(3, 0))
        await until(pilot, lambda: "said" not in text_of(app), "its end")
        app.notify(LONG, timeout=30)
        await until_shown(pilot, "the recorder has ended")
        await pilot.click(NoticeLine)
        await until(pilot, lambda: "the recorder" not in text_of(app), "its end")
        app.notify("said", timeout=30)
        await until_shown(pilot, "said")
        await pilot.press("6")
        await until(pilot, lambda: rows(app)[-1].startswith(" said "), "it on the other screen")
        app.clear_notifications()
        await until(pilot, lambda: "said" not in text_of(app), "its end")
        await press(pilot, "1", screen="overview")
        await until(pilot, lambda: "said" not in text_of(app), "no message")
        assert app.screen.query_one(KeysFooter).display
        await pilot.press("question_mark")
        await settled(pilot)
        app.notify("said", timeout=30)
        await until(pilot, lambda: rows(app)[-1].strip() == "said", "it below the help")


@pytest.mark.slow
async def test_keys_behind_a_message_are_clicked_where_they_stand(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), (120, 24)) as (app, pilot):
        await settled(pilot)
        app.notify("said so", timeout=30)
        await until_shown(pilot, "said so")
        await pilot.click(KeysFooter, offset=(rows(app)[-1].index("? Help"), 0))
        await until(pilot, lambda: not isinstance(app.screen, RunScreen), "the help")


@pytest.mark.slow
async def test_one_row_changes_no_size_above_and_says_what_a_search_found(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path), (80, 24)) as (app, pilot):
        await pilot.press("2")
        await settled(pilot)
        view, sizes = app.screen.query_one(TimelineView), []
        app.screen.screen_layout_refresh_signal.subscribe(view, lambda _: sizes.append(view.size))
        app.notify(LONG[:70], timeout=30)
        await until_shown(pilot, LONG[:70])
        app.clear_notifications()
        await until(pilot, lambda: LONG[:70] not in text_of(app), "its end")
        assert len(sizes) >= 2
        assert set(sizes) == {view.size}
        await press(pilot, "slash", *"nowhere", "enter", until="0 events match 'nowhere'")
        assert rows(app)[-1].startswith(" 0 events match 'nowhere'  ")
        assert rows(app)[-1].rstrip().endswith("? Help")
        # Keys go where they went.
        focused = app.focused
        await pilot.press("w")
        assert app.focused is focused is not None
        assert not isinstance(focused, NoticeLine)


async def test_a_low_screen_without_a_row_of_keys_gives_one_meanwhile(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), (40, 8)) as (app, pilot):
        before = (await settled(pilot)).split("\n")
        assert "Help" not in before[-1]
        app.notify("said", timeout=30)
        await until(pilot, lambda: rows(app)[-1].strip() == "said", "it")
        app.clear_notifications()
        await until(pilot, lambda: rows(app) == before, "what was there")
        app.notify("said", timeout=0.2)
        await until(pilot, lambda: not app._notifications, "its end")
        await until(pilot, lambda: "said" not in text_of(app), "its end on the screen")
