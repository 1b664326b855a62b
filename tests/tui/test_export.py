"""What a screen hands out: text, tables, pictures, notices; and the way back."""

from __future__ import annotations

import asyncio
import os
import shlex
import threading
from contextlib import nullcontext
from pathlib import Path
from threading import Event

import pytest
from textual.notifications import Notify
from textual.widgets._toast import Toast

from perftui_tui.actions.host import LEAST, Notice, NoticeLine
from perftui_tui.app import PerftuiApp
from perftui_tui.widgets.keys_footer import KeysFooter
from tests.core.trace import nsys_exports as nsys
from tests.ran import ran
from tests.tui.driving import PATIENCE, opened, press, settled, text_of, until, until_shown
from tests.tui.recorded import NOW, write_run
from tests.tui.test_ranks_screen import write_run_of_ranks
from tests.tui.traces import write_trace


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files are saved, and no tmux of the person who runs the tests."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("TMUX", raising=False)
    return folder


@pytest.mark.keys("overview.copy", "memory.copy", "log.copy", "compare.copy")
async def test_the_text_of_a_screen_is_copied(tmp_path: Path) -> None:
    root = write_run(tmp_path, output=b"epoch 1 loss 2.41\r\n")
    screens = {"1": "num_workers", "5": "Nothing to compare", "6": "loss 2.41", "7": "GPU memory"}
    async with opened(root) as (app, pilot):
        await until(pilot, lambda: app.output.lines, "the output")
        for digit, words in screens.items():
            await press(pilot, digit, until=words)
            await pilot.press("y")
            await until(pilot, lambda words=words: words in app.clipboard, "the copy")
            assert "perftui  1 Overview" not in app.clipboard


@pytest.mark.keys(
    "ranks.table.screen.copy", "ranks.table.screen.save_table", "runs.table.screen.copy",
    "runs.table.screen.save_table",
)  # fmt: skip
async def test_a_rank_and_a_run_are_copied_and_their_tables_saved(tmp_path: Path) -> None:
    root = write_run_of_ranks(tmp_path / "runs", 5, 7, 65)
    async with opened(root) as (app, pilot):
        await press(pilot, "8", until="rank")
        await until(pilot, lambda: app.screen.focused is not None, "the table")
        await press(pilot, "home", "y", until="the row copied to the clipboard")
        assert "p95: " in app.clipboard
        await press(pilot, "s", until="ranks.csv")
        await press(pilot, "9", screen="runs", until="1 run")
        await pilot.press("y")
        await until(pilot, lambda: "train" in app.clipboard, "the row")
        await pilot.press("s")
        # The path may be wrapped anywhere where it is said.
        await until(pilot, (root / "tables" / "runs.csv").exists, "the table")
    lines = {path.name: len(path.read_text().splitlines()) for path in (root / "tables").iterdir()}
    assert lines == {"ranks.csv": 4, "runs.csv": 2}


async def test_the_keys_are_not_kept_waiting_by_a_slow_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = Event()

    def slow(*_: object) -> Path:
        assert goes_on.wait(PATIENCE)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("perftui_tui.tables.rows.save_new", slow)
    async with opened(write_run_of_ranks(tmp_path, 5, 7)) as (app, pilot):
        await pilot.press("8")
        await until(pilot, lambda: app.screen.focused is not None, "the table")
        await press(pilot, "s", "9", screen="runs")
        goes_on.set()
        await until_shown(pilot, "cannot save in")


@pytest.mark.keys("app.picture")
async def test_a_picture_is_saved_and_its_place_or_why_not_is_said(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    async with opened(write_run(tmp_path / "runs"), (200, 50)) as (app, pilot):
        await press(pilot, "S", until="perftui-overview.svg")
        await press(pilot, "S", until="perftui-overview-2.svg")
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert "Screenshot" not in titles
        monkeypatch.setattr("perftui_tui.tables.rows.save_new", full)
        await press(pilot, "S", until="the screenshot cannot be saved")
    picture = (elsewhere / "perftui-overview.svg").read_text()
    assert picture.startswith("<svg")
    assert "Overview" in picture


@pytest.mark.keys("app.return")
async def test_backspace_leads_back_the_way_that_was_taken(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path), (160, 40), replay=True) as (app, pilot):
        await until_shown(pilot, "GPU idle")
        assert "Back" not in text_of(app).splitlines()[-1]
        await press(pilot, "t", screen="timeline", until="Overview > Timeline")
        await press(pilot, "backspace", screen="overview")
        assert app.trail == ()


@pytest.mark.slow
async def test_the_way_has_more_than_one_stage_and_may_begin_anew(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), (160, 40)) as (app, pilot):
        await press(pilot, "enter", screen="diagnosis", until="backspace Back")
        app.go_to_place(0, 10)
        await until_shown(pilot, "Overview > Diagnosis > Timeline")
        await press(pilot, "backspace", screen="diagnosis", until="Overview > Diagnosis")
        await press(pilot, "backspace", screen="overview")
        await pilot.press("enter")
        await until(pilot, lambda: app.trail == ("overview",), "the way")
        await press(pilot, "6", screen="log")
        await pilot.press("backspace")
        await pilot.pause(0.2)
        assert app.current_mode == "log"


WRITE = 'head -c 3145728 /dev/zero > "$out"\n'


@pytest.fixture
def goes_on(tmp_path: Path) -> Path:
    """The ``nsys`` on PATH writes 3 MiB and then waits until this exists."""
    return tmp_path / "goes on"


@pytest.fixture
def report(tmp_path: Path, goes_on: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = nsys.write(tmp_path / "made.sqlite", nsys.small())
    program = tmp_path / "nsys"
    program.write_text(
        "#!/bin/sh\n"
        'for word in "$@"; do case "$word" in --output=*) out="${word#--output=}";; esac; done\n'
        f"{WRITE}echo $$ > {shlex.quote(str(tmp_path / 'pid'))}\n"
        f"while ! test -e {shlex.quote(str(goes_on))}; do sleep 0.05; done\n"
        f'cp {shlex.quote(str(made))} "$out"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    report = tmp_path / "train.nsys-rep"
    report.write_bytes(b"what nsys wrote")
    return report


@pytest.mark.slow
async def test_the_header_says_for_how_long_and_how_much(report: Path, goes_on: Path) -> None:
    app = PerftuiApp(report, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "nsys exports train.nsys-rep 0:0", "3.00 MiB")
        goes_on.touch()
        await until(pilot, lambda: app.snapshot is not None, "a snapshot")


async def test_leaving_ends_the_program(report: Path, tmp_path: Path) -> None:
    app = PerftuiApp(report, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "3.00 MiB")
        pid = int((tmp_path / "pid").read_text())
        await pilot.press("q")
    for _ in range(200):
        if not Path(f"/proc/{pid}").exists():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("nsys goes on")


def test_the_report_says_it_on_stderr(
    report: Path,
    goes_on: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr("perftui_tui.commands.target.waiting", lambda _: nullcontext(told.append))
    # What it has written is looked at once, which on a busy machine is when it has begun.
    program = tmp_path / "nsys"
    program.write_text(program.read_text().replace(WRITE, ""))
    threading.Timer(0.5, goes_on.touch).start()
    printed = ran(capsys, "report", str(report))
    assert "nsys exports train.nsys-rep 0:00 0 B" in told
    assert "train.nsys-rep" in printed.out


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
async def test_a_message_stands_above_the_keys(tmp_path: Path, screen: str) -> None:
    async with opened(write_trace(tmp_path), (80, 24)) as (app, pilot):
        await pilot.press(screen)
        before = (await settled(pilot)).split("\n")
        app.notify("said", timeout=30)
        await until(pilot, lambda: rows(app)[-2].strip() == "said", "it")
        assert rows(app)[-1] == before[-1]
        app.clear_notifications()
        await until(pilot, lambda: rows(app) == before, "what was there")


@pytest.mark.keys("app.close_notice")
async def test_an_error_is_whole_and_stays_until_it_is_closed(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), (80, 24)) as (app, pilot):
        await settled(pilot)
        app.notify(LONG, severity="error", timeout=0.1, markup=False)
        app.notify("of less weight", timeout=30)
        await until_shown(pilot, "x closes")
        shown = " ".join(" ".join(rows(app)[-4:-1]).split())
        assert f"!! {LONG.strip()} x closes" in shown
        await press(pilot, "x", until="of less weight")
        assert "no space" not in text_of(app)
        await pilot.press("escape")
        await until(pilot, lambda: "of less weight" not in text_of(app), "its end")
        assert not app.screen.query_one(NoticeLine).display
        assert app.screen.query_one(KeysFooter).display


async def test_a_message_goes_with_its_screen_and_a_click_closes_it(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), (80, 24)) as (app, pilot):
        app.notify("said", severity="warning", timeout=30)
        await until_shown(pilot, "! said")
        await pilot.click(NoticeLine)
        await until(pilot, lambda: "said" not in text_of(app), "its end")
        app.notify("of less weight", timeout=30)
        app.notify("failed", severity="error")
        await until_shown(pilot, "!! failed")
        await press(pilot, "6", screen="log")
        await until(pilot, lambda: "!! failed" in rows(app)[-2], "it on the other screen")
        await pilot.press("x", "1")
        await until(pilot, lambda: not app._notifications, "no message")
        assert app.screen.query_one(KeysFooter).display
        app.notify("said", severity="warning", timeout=30)
        await until_shown(pilot, "said")
        await pilot.press("question_mark")
        # A dialog has keys of its own: none of them closes the message.
        await until(pilot, lambda: rows(app)[-1].strip() == "! said", "it below the help")
        assert text_of(app).count("said") == 1


@pytest.mark.slow
async def test_what_a_search_found_stands_above_the_keys(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path), (80, 24)) as (app, pilot):
        await pilot.press("2")
        await press(pilot, "slash", *"nowhere", "enter", until="0 events match 'nowhere'")
        assert rows(app)[-2].strip() == "0 events match 'nowhere'"
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
