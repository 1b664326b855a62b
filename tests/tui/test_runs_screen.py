"""The Runs screen: what is there, opened, named, deleted, found; runs that somebody else made."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from pathlib import Path

import pytest

from perftui.analysis.analyse import without_tables
from perftui.report.recorded import summarise
from perftui.run import origin
from perftui.run.layout import RunLayout
from perftui.run.reader import list_runs
from perftui.trace.formats import load_trace
from perftui_tui.app import PerftuiApp
from perftui_tui.cli import main
from perftui_tui.reading import view as trace_view
from perftui_tui.reading.run_list import RunLister
from perftui_tui.screens.timeline.view import TimelineView
from tests.ran import Capture, Patch, ran
from tests.tui.driving import close, opened, press, text_of, until, until_shown
from tests.tui.recorded import ENDED, NOW, START, write_run
from tests.tui.traces import write_trace

OTHER, LIVE = "20231113-101010-other", "20231112-101010-live"
NAME = "num_workers 0 -> 4"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perftui_tui.screens.runs.REFRESH_SECONDS", 0.2)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs: the one that is opened, another that is over, and one that lives."""
    runs = tmp_path / "runs"
    write_run(runs, **ENDED)
    before = {"started_ns": START - 10**12, "wait_ms": 2, "workers": 4}
    write_run(runs, run_id=OTHER, name=NAME, **before, **ENDED)
    write_run(runs, run_id=LIVE, started_ns=START - 2 * 10**12)
    return runs


@pytest.fixture
def shown(runs: Path) -> Path:
    return runs / "20231114-221320-train"


@pytest.mark.keys("runs.filter")
async def test_the_list_says_how_each_run_went_and_finds_names(shown: Path) -> None:
    async with opened(shown, (160, 40)) as (app, pilot):
        await press(pilot, "9", until="num_workers 0 -> 4  20231113")
        await until(pilot, lambda: "reading" not in text_of(app), "all summaries")
        lines = {line.split()[0]: line for line in text_of(app).splitlines() if "train.py" in line}
        assert "exited 0" in lines["▶"]
        assert "input-in-main-thread 40 %" in lines["▶"]
        assert "310 ms" in lines["▶"]
        assert "● running" in lines[LIVE]
        assert "3 runs" in text_of(app)
        await pilot.press("slash", *"NUM_")
        await until(pilot, lambda: LIVE not in text_of(app), "the live run filtered out")
        assert "1 of 3 runs" in text_of(app)
        await press(pilot, "escape", until=LIVE)


@pytest.mark.keys("runs.table.open")
async def test_enter_opens_a_run_in_place_of_the_one_on_screen(shown: Path, runs: Path) -> None:
    async with opened(shown, replay=True) as (app, pilot):
        await press(pilot, "9", until=NAME)
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.target == runs / OTHER, "the other run")
        await until(pilot, lambda: app.snapshot.source == runs / OTHER, "its picture")
        await until(pilot, lambda: app.current_mode == "overview", "the overview")
        await press(pilot, "9", until=f"▶ {NAME}")


@pytest.mark.slow
async def test_a_run_that_lives_is_watched_and_left_alone(shown: Path, runs: Path) -> None:
    async with opened(shown, replay=True) as (app, pilot):
        await press(pilot, "9", until=LIVE)
        await pilot.press("end", "enter")
        await until(pilot, lambda: app.snapshot.source == runs / LIVE, "the live run")
        await until_shown(pilot, "live")
        await pilot.resize_terminal(100, 30)
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running, "the end of the app")
    assert list(RunLayout(runs / LIVE).control.glob("*")) == []


@pytest.mark.slow
async def test_quitting_asks_about_our_own_training_whatever_is_on_screen(runs: Path) -> None:
    async with opened(runs / LIVE) as (app, pilot):
        await press(pilot, "9", until=NAME)
        await pilot.press("home", "enter")
        await until(pilot, lambda: app.snapshot.source != runs / LIVE, "another run")
        await press(pilot, "q", until="The training is still running")
        await pilot.press("s")
        await pilot.pause()
    kinds = [path.name for path in RunLayout(runs / LIVE).control.glob("*stop*")]
    assert len(kinds) == 1


@pytest.mark.slow
async def test_the_list_may_be_due_while_the_app_ends(shown: Path) -> None:
    async with opened(shown) as (app, pilot):
        await press(pilot, "9", until=NAME)
        screen = app.screen
    assert app.screen_stack == []
    screen._refresh_list()


@pytest.mark.keys("runs.rename", "runs.close_input", "runs.delete")
async def test_a_name_is_typed_and_stays_and_deleting_asks_first(shown: Path, runs: Path) -> None:
    async with opened(shown) as (app, pilot):
        await press(pilot, "9", until=NAME)
        await press(pilot, "n", *"big batch", "enter", until="▶ big batch  train")
        assert list_runs(runs)[0].manifest.name == "big batch"
        await press(pilot, "n", "x", until="enter Submit  escape Close")
        assert "Filter" not in text_of(app)
        await pilot.press("escape")
        await pilot.pause(0.3)
        assert list_runs(runs)[0].manifest.name == "big batch"
        assert app.focused.id == "runs-table"
        await press(pilot, "down", "d", until="Delete this run?")
        await close(pilot, key="n")
        assert (runs / OTHER).is_dir()
        await press(pilot, "d", until="this cannot be undone")
        await pilot.press("y")
        await until(pilot, lambda: not (runs / OTHER).exists(), "the run deleted")
        await until(pilot, lambda: NAME not in text_of(app), "the row gone")


async def test_what_is_in_use_is_not_deleted(shown: Path, runs: Path) -> None:
    async with opened(shown) as (app, pilot):
        await press(pilot, "9", until=LIVE)
        for key, words in (("home", "is on screen"), ("end", "still going on")):
            await press(pilot, key, "d", until=words)
            assert len(app.screen_stack) == 1
    assert len(list_runs(runs)) == 3


async def test_a_damaged_run_is_listed_and_not_opened(shown: Path, runs: Path) -> None:
    damaged = runs / "20231110-000000-bad"
    damaged.mkdir()
    (damaged / "run.json").write_text("{")
    async with opened(shown, (160, 40)) as (app, pilot):
        await press(pilot, "9", until="damaged")
        await press(pilot, "end", "enter", until="this run cannot be opened")
        assert app.target == shown


async def test_no_runs_say_how_to_record_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(write_trace(tmp_path), replay=True) as (_, pilot):
        await press(pilot, "9", until="perftui train.py records one")


def test_the_command_lists_names_too(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    head, *lines = ran(capsys, "runs", str(runs)).out.splitlines()
    assert head.split() == ["run", "state", "started", "step", "verdict", "script"]
    assert [NAME in line for line in lines] == [False, True, False]
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "started" not in ran(capsys, "runs", str(runs)).out


def test_a_run_is_judged_again_only_where_it_may_say_something_new(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []

    def count(root: Path) -> object:
        judged.append(root.name)
        return summarise(root)

    monkeypatch.setattr("perftui.report.recorded.summarise", count)
    monkeypatch.setattr("perftui_tui.reading.run_list.LIVE_SECONDS", 1e9)
    lister, told, stopped = RunLister(), [], threading.Event()
    for _ in range(2):
        lister.read(runs, told.append, stopped)
    assert len(judged) == 3
    assert all(one.summary for one in told[-1].runs)
    (runs / OTHER / "findings.json").write_text("{}")
    lister.read(runs, told.append, stopped)
    assert judged[3:] == [OTHER]
    # Of one that has just ended more is known soon.
    ended = write_run(runs, run_id="20231116-101010-new", **{**ENDED, "ended_ns": time.time_ns()})
    assert summarise(ended).verdict == "still judging"


def test_a_training_that_runs_is_left_most_of_the_machine(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    stopped = threading.Event()
    monkeypatch.setattr(stopped, "wait", waits.append)
    RunLister().read(runs, lambda _: None, stopped)
    assert waits == []
    RunLister().read(runs, lambda _: None, stopped, sparing=True)
    assert len(waits) == 3
    assert min(waits) > 0


@pytest.mark.slow
async def test_the_selected_run_is_shown_in_short_where_there_is_room(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shown = write_run(runs)
    write_run(runs, run_id="20231113-101010-other", wait_ms=5, **ENDED)
    async with opened(shown, (120, 40)) as (app, pilot):
        await press(pilot, "9", until="▏data loader wait")
        assert "BOTTLENECK  The training spends 123 ms" in text_of(app)
        await press(pilot, "down", until="Mean step: 197 ms")
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "Mean step" not in text_of(app), "no preview")


async def test_few_runs_leave_their_room_to_the_preview(tmp_path: Path) -> None:
    shown = write_run(tmp_path / "runs", gpu=True)
    async with opened(shown, (200, 50)) as (app, pilot):
        await press(pilot, "9", until="training 8.48 GiB")
        lines = [line.strip("│ ") for line in text_of(app).splitlines()]
        for meter in ("GPU 0 ", "Loader ", "CPU ", "Memory ", "Disk "):
            assert [line for line in lines if line.startswith(meter)], meter
        assert text_of(app).splitlines()[7].startswith("╭─ ")


async def test_reading_says_how_far_it_is_and_the_tracks_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, view_trace = write_trace(tmp_path, steps=6), trace_view.view_trace
    further, read, goes_on = threading.Event(), threading.Event(), threading.Event()

    def held(path, now, progress, cancelled, preview, facts_of):
        progress(0.25)
        further.wait(30)
        progress(0.75)
        read.wait(30)
        preview(without_tables(load_trace(path)))
        progress(1.0)
        goes_on.wait(30)
        return view_trace(path, now, progress, cancelled, facts_of=facts_of)

    monkeypatch.setattr(trace_view, "view_trace", held)
    app = PerftuiApp(path, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "NEXT")
        assert f"reading {path.name} 25 %  {'━' * 10}{'─' * 30}" in text_of(app)
        assert "2 shows the tracks read so far" in text_of(app)
        assert "Data loader" not in text_of(app)
        further.set()
        await until_shown(pilot, f"reading {path.name} 75 %  {'━' * 30}{'─' * 10}")
        read.set()
        await until_shown(pilot, "analysing rank0")
        await press(pilot, "3", until="reading")
        assert "press c" not in text_of(app)
        await press(pilot, "2", until="stream 7")
        await pilot.press("w", "w")
        view = app.screen.query_one(TimelineView).state.view
        assert view.span < view.last - view.first
        assert app.snapshot is None
        goes_on.set()
        await until(pilot, lambda: app.snapshot is not None)
        # They keep their place.
        timeline = app.screen.query_one(TimelineView)
        await until(pilot, lambda: timeline.state.analysis is app.snapshot.analysis)
        assert timeline.state.view == view
        assert app.preview is None
        await press(pilot, "1", until="gpu compute")
        assert "READING" not in text_of(app)


ESCAPES = "\x1b]52;c;ZXZpbA==\x07\x9b2J\u202ename\r\n"


@pytest.fixture
def is_careful(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.delenv("PERFTUI_TRUST_RUNS")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(origin, "_trusted", set())


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "mine" / "train.py"
    path.parent.mkdir()
    path.write_text(
        "from torch.utils.data import DataLoader\n\n\ndef loader(pictures):\n"
        "    return DataLoader(pictures, batch_size=128, shuffle=True)\n"
    )
    os.utime(path, ns=(START - 10**9, START - 10**9))
    return path


def foreign(tmp_path: Path, script: Path) -> tuple[Path, Path]:
    """A run that would make a file, and that file."""
    made = tmp_path / "made"
    command = ("/usr/bin/touch", str(made), str(script))
    runs = tmp_path / "theirs" / ".perftui" / "runs"
    root = write_run(
        runs, script=script, loader_line=5, command=command, cwd=str(tmp_path), **ENDED
    )
    return root, made


@pytest.mark.parametrize(
    "words",
    [["try"], ["try", "loader-workers"], ["tune"], ["isolate"], ["diagnose"], ["apply"]],
    ids=" ".join,
)
@pytest.mark.usefixtures("is_careful")
def test_commands_run_nothing_of_a_foreign_run(
    words: list[str], tmp_path: Path, script: Path, capsys: Capture
) -> None:
    root, made = foreign(tmp_path, script)
    before = script.read_bytes()
    assert main([*words, str(root)]) in (1, 2)
    told = capsys.readouterr().err
    assert f"was not recorded by you on this machine. It asks to run, in {tmp_path}:" in told
    assert f"/usr/bin/touch {made}" in told
    assert "--trust" in told
    assert not made.exists()
    assert script.read_bytes() == before


@pytest.mark.usefixtures("is_careful")
@pytest.mark.subprocess
def test_a_foreign_run_is_run_when_it_is_trusted(tmp_path: Path, script: Path) -> None:
    root, made = foreign(tmp_path, script)
    main(["diagnose", "--trust", str(root)])
    assert made.exists()


@pytest.mark.usefixtures("is_careful")
def test_a_record_in_a_repository_undoes_nothing(
    tmp_path: Path, script: Path, capsys: Capture
) -> None:
    root, _ = foreign(tmp_path, script)
    target, store = tmp_path / "profile", root.parent.parent / "patches"
    target.write_text("mine")
    store.mkdir()
    record = {
        "patch_id": "1-a",
        "path": str(target),
        "title": "a",
        "before_sha256": hashlib.sha256(b"theirs").hexdigest(),
        "after_sha256": hashlib.sha256(b"mine").hexdigest(),
        "mode": 0o4755,
        "modified_ns": 0,
    }
    (store / "1-a.json").write_text(json.dumps(record))
    (store / "1-a.original").write_text("theirs")
    assert f"Undoing it would write {target}" in ran(capsys, "undo", str(root), code=1).err
    assert target.read_text() == "mine"


@pytest.mark.usefixtures("is_careful")
def test_a_foreign_run_is_shown(tmp_path: Path, script: Path, capsys: Capture) -> None:
    root, made = foreign(tmp_path, script)
    assert "input-in-main-thread" in ran(capsys, "report", "--brief", str(root)).out
    assert not made.exists()


@pytest.mark.parametrize(
    "form",
    [[], ["--brief"], ["--json"], ["--markdown"], ["--redact"]],
    ids=lambda form: "".join(form),
)
@pytest.mark.usefixtures("is_careful")
def test_no_form_of_a_report_holds_an_escape_sequence(
    form: list[str], tmp_path: Path, capsys: Capture
) -> None:
    root = write_run(
        tmp_path / "runs",
        host=ESCAPES,
        command=("python", f"{ESCAPES}.py"),
        notes=(ESCAPES,),
        message=ESCAPES,
        name=ESCAPES,
        script=Path(f"/x/{ESCAPES}.py"),
        **ENDED,
    )
    assert main(["report", *form, str(root)]) == 0
    printed = ran(capsys, "runs", str(root.parent))
    unsafe = {*"\x1b\x07\x9b\u202e\r"} & {*printed.out, *printed.err}
    assert unsafe == set()
