"""From a finding to the fix: tried by override, written, undone, compared, and run again."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual.pilot import Pilot

from perftui.diagnosis.model import Diagnosis, Finding, Severity
from perftui.facts.place import Place
from perftui.fixes.apply_and_undo import apply_patch, patch_store
from perftui.fixes.option import FixOption, Patch
from perftui.recorder.launch import Launch
from perftui.run.control import take_requests
from perftui.run.layout import RunLayout
from perftui.run.manifest import Override, Status, read_manifest, write_manifest
from perftui_tui.actions.source_fixes import SourceFixes
from perftui_tui.app import PerftuiApp
from perftui_tui.dialogs.experiment import NOT_MEASURED
from perftui_tui.look.rows import CONTINUED, plain, width
from perftui_tui.reading.experiment_state import warnings_of
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import close, opened, press, settled, text_of, until, until_shown
from tests.tui.fake_trial import FASTER, FakeTrial, play_trial
from tests.tui.recorded import ENDED, NOW, SCRIPT, START, write_run, write_script

DETAILS = "#finding-details"


@asynccontextmanager
async def diagnosed(
    run: Path, size: tuple[int, int]
) -> AsyncIterator[tuple[PerftuiApp, Pilot[None]]]:
    """The Diagnosis screen of a run."""
    async with opened(run, size) as (app, pilot):
        await press(pilot, "4", screen="diagnosis", until="confidence")
        yield app, pilot


@pytest.mark.keys("diagnosis.write_fix", "diagnosis.undo_fix")
async def test_writing_shows_evidence_and_the_diff_and_undo_restores_every_byte(
    ended: Path, script: Path
) -> None:
    async with diagnosed(ended, (120, 60)) as (app, pilot):
        text = text_of(app)
        assert "limit 5 %" in text
        assert "up to 1.66x faster" in text
        assert "num_workers 0 -> " in text
        assert "a tries it  p proves it  w writes it" in text
        await press(pilot, "w", until="Write the fix?")
        assert "-    return DataLoader(pictures, batch_size=128, shuffle=True)" in text_of(app)
        assert NOT_MEASURED in text_of(app)
        await close(pilot)
        assert script.read_text() == SCRIPT
        await press(pilot, "w", until="Write the fix?")
        await press(pilot, "enter", until="train.py written")
        assert "num_workers=" in script.read_text()
        await press(pilot, "u", until="restored byte for byte")
        assert script.read_text() == SCRIPT


@pytest.mark.keys("diagnosis.scroll_details(1)")
async def test_what_was_not_judged_is_listed_with_its_reason(tmp_path: Path) -> None:
    async with diagnosed(write_run(tmp_path / "runs", gpu=True), (120, 60)) as (app, pilot):
        await press(pilot, "pagedown", "pagedown", until="Not judged, and why")
        assert "sync-bound" in text_of(app)


@pytest.mark.slow
@pytest.mark.keys("overview.undo_fix", "overview.rerun")
async def test_a_written_fix_is_said_first_and_not_offered_again(ended: Path, script: Path) -> None:
    """A run that is over is not read again, so its options are those of the source before."""
    async with diagnosed(ended, (120, 60)) as (app, pilot):
        await press(pilot, "w", "w", until="Write the fix?")
        await press(pilot, "enter", until="written to the source: u undoes it, r runs it")
        fixed = script.read_bytes()
        await press(pilot, "w", until="written already: u undoes it")
        assert "Write the fix?" not in text_of(app)
        assert script.read_bytes() == fixed
        await pilot.press("1")
        keys = "enter shows it  r runs it  u undoes it"
        await until_shown(pilot, f"WRITTEN     num_workers 0 -> 4   up to 1.66x faster  {keys}")
        assert "u Undo  r Run again" in footer(app)
        await press(pilot, "r", until="With train.py as written")
        await close(pilot)
        await press(pilot, "u", until="DO THIS     num_workers 0 -> 4")
        assert "u Undo" not in footer(app)


async def test_what_perftui_does_not_write_is_said_with_its_place(
    ended: Path, script: Path
) -> None:
    (kept := RunLayout(ended).sources).mkdir()
    shutil.copy(script, kept)
    async with diagnosed(ended, (160, 60)) as (app, pilot):
        app.snapshot = replace(app.snapshot, options={})
        await press(pilot, "w", until="! by hand at train.py:4: make batches in worker processes")
        await press(pilot, "p", until="save your edit, then r runs it again and compares")
        script.write_text("x = 1\n")
        await press(pilot, "p", until="you edited train.py: r runs it again and compares")
        await press(pilot, "5", "w", until="4 shows what to write, and where")


@pytest.mark.slow
async def test_a_fix_written_during_a_run_can_still_be_undone(tmp_path: Path, script: Path) -> None:
    """The next picture finds a source that is no longer what runs, and has no patch for it."""
    live = write_run(tmp_path / "runs", script=script, loader_line=4)
    async with diagnosed(live, (120, 60)) as (app, pilot):
        await press(pilot, "w", until="Write the fix?")
        await press(pilot, "enter", until="train.py written")
        read = app.newest
        await until(pilot, lambda: app.snapshot is not read, "another picture")
        await until(pilot, lambda: app.screen.query_one(DETAILS, RowView).rows)
        text = text_of(app)
        assert "written to the source: u undoes it" in text
        assert "edited since" not in text
        assert "w writes it" not in text


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80, 200])
async def test_words_in_dialogs_are_broken_once(ended: Path, columns: int) -> None:
    async with diagnosed(ended, (columns, 40)) as (app, pilot):
        for key, title, part, rows in (
            ("question_mark", "Help: diagnosis", "#body", slice(0, 6)),
            ("a", "Run again?", "#below", slice(None)),
        ):
            await press(pilot, key, until=title)
            prose = [plain(line) for line in app.screen.query_one(part, RowView).rows[rows]]
            assert len(prose) > 1
            assert not any(CONTINUED in line for line in prose)
            await pilot.press("escape")


def ranked(snapshot: Snapshot, *rules: str) -> Snapshot:
    """``snapshot`` with findings of ``rules`` in that order, each with two fixes of its own."""
    found = tuple(Finding(rule, Severity.WARNING, f"{rule} is slow", steps=50) for rule in rules)
    fixes = {rule: tuple(_fix(f"{rule}-{at}") for at in (1, 2)) for rule in rules}
    return replace(snapshot, diagnosis=Diagnosis(found, steady_steps=50), options=fixes)


def _fix(name: str) -> FixOption:
    return FixOption(name, f"fix {name}", "", override=Override("DataLoader", {}, None, 1, name))


@pytest.mark.slow
@pytest.mark.keys("diagnosis.select(1)", "diagnosis.choose_fix(1)", "diagnosis.try_fix")
async def test_a_selected_finding_and_fix_stay_selected_when_the_order_changes(ended: Path) -> None:
    async with diagnosed(ended, (120, 60)) as (app, pilot):
        before = app.snapshot
        app.snapshot = ranked(before, "one", "two", "three")
        await press(pilot, "down", "right", until="2/3  two")
        app.snapshot = ranked(before, "three", "one", "two")
        await until_shown(pilot, "3/3  two")
        await press(pilot, "a", until="Run again?")
        assert "fix two-2" in text_of(app)
        await pilot.press("escape")
        app.snapshot = ranked(before, "three", "one")
        await until_shown(pilot, "1/2  three")
        # Keys that can do nothing for the selected finding are not named.
        both = ranked(before, "one", "two")
        app.snapshot = replace(both, options={"two": both.options["two"]})
        await press(pilot, "up", until="1/2  one")
        assert not any(key in footer(app) for key in ("a Try", "p Prove", "t Timeline"))
        await press(pilot, "down", until="a Try  p Prove")


@pytest.mark.slow
@pytest.mark.keys("diagnosis.select(1)", "diagnosis.select(-1)")
async def test_the_list_follows_the_selected_finding(ended: Path) -> None:
    async with diagnosed(ended, (80, 24)) as (app, pilot):
        app.snapshot = ranked(app.snapshot, *(f"rule-{number}" for number in range(12)))
        await until_shown(pilot, "1/12  rule-0")
        assert "rule-11 is slow" not in text_of(app)
        await press(pilot, *["down"] * 11, until="12/12  rule-11")
        listed = app.screen.query_one("#finding-list", RowView)
        await until(pilot, lambda: listed.scroll_offset.y > 0, "the list to scroll")
        marked = [line for line in text_of(app).splitlines() if line.startswith("│>")]
        assert len(marked) == 1
        assert "rule-11 is slow" in marked[0]
        await pilot.press(*["up"] * 11)
        await until(pilot, lambda: listed.scroll_offset.y == 0, "the list at its top")


LONG_SCRIPT = """\
from torch.utils.data import DataLoader

def loader(pictures):
    return DataLoader(pictures, batch_size=128, shuffle=True, drop_last=True, timeout=0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (60, 18), (120, 40)])
async def test_all_that_is_to_be_written_can_be_read(
    ended: Path, script: Path, size: tuple[int, int]
) -> None:
    write_script(script.parent, LONG_SCRIPT)
    async with opened(ended, size) as (app, pilot):
        await press(pilot, "4", screen="diagnosis")
        await press(pilot, "w", until="Write the fix?")
        body = app.screen.query_one("#body", RowView)
        text = "".join(plain(line).removeprefix(CONTINUED) for line in body.rows)
        assert "drop_last=True, timeout=0, num_workers=" in text
        assert all(width(line) <= body.scrollable_content_region.width for line in body.rows)


async def test_an_edit_made_meanwhile_is_never_lost(ended: Path, script: Path) -> None:
    async with diagnosed(ended, (120, 60)) as (app, pilot):
        await press(pilot, "w", until="Write the fix?")
        script.write_text(SCRIPT + "# mine\n")
        await press(pilot, "enter", until="has changed since")
        assert script.read_text() == SCRIPT + "# mine\n"
        await pilot.press("w")
        await settled(pilot)
        assert "Write the fix?" not in text_of(app)


@pytest.mark.slow
async def test_a_fix_of_an_earlier_session_can_be_undone(ended: Path, script: Path) -> None:
    async with diagnosed(ended, (120, 60)) as (_, pilot):
        await press(pilot, "w", until="Write the fix?")
        await press(pilot, "enter", until="train.py written")
    async with opened(ended, (120, 60)) as (_, pilot):
        await press(pilot, "4", screen="diagnosis")
        await press(pilot, "u", until="Undo the fix?")
        assert script.read_text() != SCRIPT
        await press(pilot, "enter", until="restored byte for byte")
    assert script.read_text() == SCRIPT


@pytest.mark.keys("overview.try_fix", "overview.prove_fix", "overview.write_fix")
async def test_the_overview_tries_the_first_fix_of_any_finding(ended: Path) -> None:
    async with opened(ended, (80, 24)) as (app, pilot):
        both = ranked(app.snapshot, "busy-host", "slow-part")
        app.snapshot = replace(both, options={"slow-part": both.options["slow-part"]})
        await press(pilot, "a", until="Run again?")
        assert "fix slow-part-1   for slow-part" in text_of(app)
        await press(pilot, "escape", "p", until="Prove it?")
        await press(pilot, "escape", "w", until="shows what to write, and where")
        app.snapshot = replace(both, options={})
        await press(pilot, "a", until="no finding has a fix to try")
        app.snapshot = replace(both, options={}, is_reading=True)
        await press(pilot, "a", until="a fix to try yet: still judging what was recorded")


@pytest.mark.slow
@pytest.mark.keys("overview.try_fix", "compare.swap")
async def test_a_trial_is_asked_started_and_compared(
    ended: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches: list[Launch] = []

    def start(launch: Launch) -> Path:
        launches.append(launch)
        return write_run(
            launch.runs,
            run_id="20231114-231320-train",
            wait_ms=0,
            workers=4,
            script=script,
            loader_line=4,
            parent=launch.parent,
            name=launch.name,
            overrides=launch.overrides,
        )

    monkeypatch.setattr("perftui.recorder.launch.start", start)
    async with opened(ended) as (app, pilot):
        await press(pilot, "a", until="Run again?")
        assert "/usr/bin/python3 train.py --lr 0.1" in text_of(app)
        await press(pilot, "enter", screen="compare", until="x faster")
        text = text_of(app)
        assert "BEFORE" in text
        assert "in force: num_workers 0 -> 4" in text
        assert "w Write" in footer(app)
        await press(pilot, "end", until="one run each: no confidence interval")
        await press(pilot, "home", "s", until="x slower")
    assert launches[0].command == ("/usr/bin/python3", "train.py", "--lr", "0.1")
    assert launches[0].overrides[0].arguments["num_workers"] >= 1
    assert launches[0].parent == ended.name


async def test_a_trial_that_cannot_start_says_why(
    ended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(launch: Launch) -> Path:
        raise OSError("the disk is full")

    monkeypatch.setattr("perftui.recorder.launch.start", start)
    async with opened(ended) as (app, pilot):
        await press(pilot, "a", until="Run again?")
        await press(pilot, "y", until="the disk is full")
        assert app.is_running


async def test_a_running_training_is_stopped_before_it_is_started_again(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = write_run(tmp_path / "runs", script=script, loader_line=4)
    monkeypatch.setattr("perftui.experiments.trial_runs.STOP_SECONDS", 0.3)
    async with opened(live) as (app, pilot):
        # Steady steps are counted before they are judged.
        assert len(warnings_of(replace(app.snapshot, diagnosis=Diagnosis()))) == 1
        await press(pilot, "a", until="is stopped first")
        await press(pilot, "enter", until="did not stop")
    assert [request.kind for request in take_requests(RunLayout(live))] == ["stop"]


@pytest.mark.keys("compare.baseline")
async def test_a_baseline_can_be_chosen(ended: Path) -> None:
    write_run(ended.parent, run_id="20231114-201320-train", wait_ms=300, **ENDED)
    async with opened(ended, (200, 50)) as (app, pilot):
        await press(pilot, "5", until="Nothing to compare with yet")
        await press(pilot, "b", until="20231114-201320-train")
        await press(pilot, "1", until="x faster")
        assert app.current_mode == "compare"
        figures = app.screen.query_one("#figures", RowView)
        assert all(width(line) <= figures.content_size.width for line in figures.rows)


def footer(app: PerftuiApp) -> str:
    return text_of(app).splitlines()[-1]


@pytest.mark.slow
async def test_keys_for_fixes_are_offered_where_there_is_a_fix(tmp_path: Path, ended: Path) -> None:
    failed = write_run(
        tmp_path / "failed", steps=0, status=Status.EXITED, exit_code=1, ended_ns=START + 10**9
    )
    for run, offered in ((ended, True), (failed, False)):
        async with opened(run) as (app, pilot):
            await until_shown(pilot, "Quit")
            assert ("Try fix" in footer(app)) is offered
            await press(pilot, "4", screen="diagnosis", until="r Run again")
            assert "u Undo" not in footer(app)
            assert ("a Try" in footer(app)) is offered
            assert ("w Write" in footer(app)) is offered
            assert ("w write" in text_of(app)) is offered
            await press(pilot, "5", until="Nothing to compare")
            assert "Write" not in footer(app)


async def test_the_run_that_is_repeated_is_the_baseline_of_its_own_accord(ended: Path) -> None:
    """Also where the comparison is opened before anything has been read."""
    child = write_run(
        ended.parent, run_id="20231114-231320-train", wait_ms=0, workers=4, parent=ended.name
    )
    app = PerftuiApp(child, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        app.switch_mode("compare")
        await until_shown(pilot, "x faster")


@pytest.mark.slow
async def test_a_baseline_that_is_gone_is_said_once(ended: Path) -> None:
    child = write_run(ended.parent, run_id="20231114-231320-train", parent="20230101-000000-gone")
    async with opened(child) as (app, pilot):
        await press(pilot, "5", until="20230101-000000-gone")
        await pilot.pause(0.5)
        assert len(app._notifications) == 1


async def test_on_a_small_screen_the_fix_comes_first_and_details_have_the_room(ended: Path) -> None:
    async with diagnosed(ended, (80, 24)) as (app, pilot):
        assert "> num_workers 0 -> 4" in text_of(app)
        rows = [plain(line).split() for line in app.screen.query_one(DETAILS, RowView).rows]
        heads = [words[0] for words in rows if words and words[0] in ("Cost", "Do", "Write", "▸")]
        assert heads == ["Cost", "Do", "Write", "▸"]
        listed, detailed = (
            app.screen.query_one(name, RowView) for name in ("#finding-list", DETAILS)
        )
        needed = len(listed.rows)
        assert 0 < needed < 6
        assert listed.content_size.height == needed
        assert listed.outer_size.height + detailed.outer_size.height == 24 - 2
        await pilot.resize_terminal(200, 50)
        await until(pilot, lambda: listed.region.right <= detailed.region.x, "side by side")
        assert listed.region.y == detailed.region.y


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
    await press(pilot, "a", until="Run again?")
    await pilot.press("enter")


def end(root: Path) -> None:
    """The training at ``root`` ends."""
    path = RunLayout(root).manifest
    write_manifest(path, replace(read_manifest(path), **ENDED))


def stops(root: Path) -> int:
    return sum(request.kind == "stop" for request in take_requests(RunLayout(root)))


async def settled_run(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    await until(pilot, condition)
    await pilot.pause(0.2)


@pytest.mark.slow
async def test_a_second_start_is_refused_while_one_waits(live: Path, recorder: Recorder) -> None:
    async with opened(live) as (app, pilot):
        await try_fix(pilot)
        await until(pilot, lambda: app.trials.is_starting)
        await press(pilot, "a", until="is already starting")
        assert len(app.screen_stack) == 1
        end(live)
        await settled_run(pilot, lambda: app.target.name == NEXT)
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
        await settled_run(pilot, lambda: app.snapshot and app.snapshot.source == app.target)
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
        await until_shown(pilot, "x faster")
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
        await settled_run(pilot, lambda: app.snapshot and app.snapshot.source.name == NEXT)
        assert app.current_mode == "overview"
        await press(pilot, "escape", screen="compare", until="x faster")


@pytest.mark.keys("compare.prove_fix")
async def test_what_was_tried_once_is_proven_from_the_comparison(
    ended: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the run without the fix, though the one with it is on screen."""
    made = FakeTrial(*FASTER)
    play_trial(monkeypatch, made)
    recorder.changes = ENDED
    async with opened(ended) as (app, pilot):
        await try_fix(pilot)
        await until(pilot, lambda: app.current_mode == "compare", "the comparison")
        await until_shown(pilot, "the new run has steps enough")
        await press(pilot, "p", until="Prove it?")
        assert re.search(r"prove it: \d+ to \d+ runs", text_of(app)), text_of(app)
        await press(pilot, "enter", until="Trial by pairs")
        made.let(len(FASTER))
        await until_shown(pilot, "6 pairs in 0:")
        await close(pilot, "close")
        await until_shown(pilot, "2.10x faster (2.00 to 2.20) by pairs of runs")
    assert [asked[:2] for asked in made.asked] == [(ended, "loader-workers")]


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
        await press(pilot, "1", until="x faster")
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
        await until_shown(pilot, "File exists")
        await press(pilot, "x", "p", until="are the same in both runs")
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
        await settled_run(pilot, lambda: app.snapshot and app.snapshot.source.name == NEXT)
        assert resizes(app.target) == [{"rows": 30, "columns": 90}]
        await pilot.resize_terminal(100, 35)
        await settled_run(pilot, lambda: any(RunLayout(app.target).control.glob("*-resize.json")))
        assert resizes(app.target) == [{"rows": 35, "columns": 100}]


async def test_a_run_that_is_only_looked_at_keeps_its_size(live: Path) -> None:
    async with opened(live, (120, 40), replay=True) as (_, pilot):
        await pilot.pause(0.3)
    assert resizes(live) == []


def test_a_line_that_perftui_wrote_before_the_run_is_said_to_be_its_own(
    ended: Path, script: Path
) -> None:
    path, before = script.resolve(), script.read_bytes()
    old = before.splitlines()[3]
    patch = Patch(path, before, before.replace(old, old + b"  # changed"))
    applied = apply_patch(patch, patch_store(ended), "a fix", "fix")
    place = Place(file=str(path), line=4)
    run = SimpleNamespace(root=ended, manifest=SimpleNamespace(started_ns=applied.applied_ns + 1))
    fixes = SourceFixes(SimpleNamespace())
    found = replace(Finding("r", Severity.INFO, "It is slow."), place=place)
    assert fixes.wrote(run, found) == "perftui wrote this line (a fix): this is what is left there"
    assert fixes.wrote(run, replace(found, place=replace(place, line=3))) == ""
    run.manifest.started_ns = applied.applied_ns - 1
    assert fixes.wrote(run, found) == ""
