"""What is said in a corner goes after its time, and never stops the app."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.notifications import Notify
from textual.widgets._toast import Toast

from perftui_tui.widgets.notification import LEAST, Notice
from tests.tui.driving import opened, until
from tests.tui.recorded import write_run


class Missed(Notice):
    """One whose time ran out between the look whether it had and its drawing."""

    @property
    def has_expired(self) -> bool:
        return False


def test_one_whose_time_is_over_asks_for_no_timer_in_the_past() -> None:
    over = Notice("said", timeout=2, raised_at=0.0)
    assert (over.has_expired, over.time_left) == (True, LEAST)
    assert Toast(over)._timeout == LEAST


async def test_one_that_is_drawn_too_late_goes_and_the_app_goes_on(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        late = Missed("said", timeout=2, raised_at=0.0)
        app._on_notify(Notify(late))
        assert late in app._notifications
        await until(pilot, lambda: late not in app._notifications, "its end")
        await pilot.press("2")
        assert app.current_mode == "timeline"


@pytest.mark.slow
async def test_what_the_app_says_is_said_so(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        app.notify("said", severity="warning", timeout=3, title="of", markup=False)
        await until(pilot, lambda: len(app._notifications) == 1, "it")
        (said,) = app._notifications
        assert isinstance(said, Notice)
        assert not said.has_expired
        shown = (said.message, said.severity, said.timeout, said.title, said.markup)
        assert shown == ("said", "warning", 3, "of", False)
