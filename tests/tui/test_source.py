"""What is read of a run and how often, and a run that is played again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.message import Message

from perftui.diagnosis.model import Diagnosis, Finding, Severity
from perftui.facts.cpu.machine import MachineFacts, has_gpu, machine_use, ranks_here
from perftui.facts.data_loader.loader import LoaderFacts, fetch_cpu, training_loader
from perftui.facts.fact import Fact, Facts
from perftui.facts.ranks.rank_table import rank_table
from perftui.fixes.fix import CallChange, Fix
from perftui.fixes.option import FixOption, Risk
from perftui.run.as_of import as_of, stops_of
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest, Status, read_manifest, write_manifest
from perftui.run.reader import RunReader, RunSnapshot
from perftui_tui.app import PerftuiApp
from perftui_tui.look.rows import plain
from perftui_tui.panes.step_bar import step_bar
from perftui_tui.panes.verdict import findings, verdict
from perftui_tui.reading import source as source
from perftui_tui.reading import view
from perftui_tui.reading.output import OutputSource, OutputTail
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.source import BLAS_THREADS
from perftui_tui.reading.view import Pictures, RunView
from perftui_tui.screens.log import ALL_OUTPUT
from perftui_tui.screens.memory.chart import memory_chart, memory_now
from perftui_tui.screens.overview.dashboard import METERS, draw_meter, headline
from perftui_tui.screens.ranks import rank_headline
from perftui_tui.widgets.header_line import header
from tests.core.run.test_as_of import earlier
from tests.facts_given import facts_with
from tests.tui.driving import opened, press, text_of, until, until_shown
from tests.tui.recorded import ENDED, NOW, START, step_rows, write_run
from tests.tui.traces import even_steps


def test_a_quick_read_is_repeated_every_second_and_a_slow_one_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source, "POLL_SECONDS", 1.0)
    assert source.pause_after(0.002) == 1.0
    monkeypatch.setattr(source, "DUTY", 0.01)
    assert source.pause_after(0.1) == pytest.approx(10.0)
    assert source.pause_after(5.0) == source.LONGEST_POLL_SECONDS


def grow(root: Path, begin: int, end: int) -> None:
    rows = step_rows(end, 118, 0, False)[begin:]
    with RunLayout(root).rank(0).steps.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def failing(work: Callable[..., object], times: int) -> Callable[..., object]:
    """``work``, which fails so many times first, as on a network disk that hangs."""
    left = [times]

    def wrapped(*arguments: object) -> object:
        if left[0]:
            left[0] -= 1
            raise OSError(5, "Input/output error")
        return work(*arguments)

    return wrapped


@pytest.mark.slow
async def test_a_disk_that_fails_for_a_moment_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunReader, "poll", failing(RunReader.poll, source.TRIES - 1))
    root = write_run(tmp_path / "runs", steps=5)
    async with opened(root) as (app, pilot):
        await until_shown(pilot, "step 5 ")
        monkeypatch.setattr(RunReader, "poll", failing(RunReader.poll, source.TRIES - 1))
        grow(root, 5, 60)
        await until_shown(pilot, "step 60 ")
        assert (app.failure, len(app._notifications)) == (None, 0)


async def test_a_run_that_comes_back_is_shown_again(tmp_path: Path) -> None:
    root = write_run(tmp_path / "runs", steps=5)
    manifest = RunLayout(root).manifest
    async with opened(root) as (_, pilot):
        away = manifest.rename(tmp_path / "away")
        await until_shown(pilot, "such")  # of "No such file or directory", wrapped anywhere
        grow(root, 5, 60)
        away.rename(manifest)
        await until_shown(pilot, "step 60 ")


@pytest.mark.slow
async def test_output_that_cannot_be_read_is_said_and_the_rest_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OutputTail, "poll", failing(OutputTail.poll, 25))
    async with opened(write_run(tmp_path / "runs", steps=5)) as (app, pilot):
        await until_shown(pilot, "output cannot be read")
        await until(pilot, lambda: app.output.lines, "the output, once it can be read")


async def test_an_unforeseen_failure_in_the_output_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: OutputTail) -> bool:
        raise ZeroDivisionError("a bug of ours")

    posted: list[Message] = []
    monkeypatch.setattr(OutputTail, "poll", broken)
    thread = OutputSource(tmp_path / "output.log", lambda message: bool(posted.append(message)))
    thread.start()
    thread._thread.join(10)
    assert [type(message).__name__ for message in posted] == ["SourceFailed"]


async def test_output_printed_while_the_picture_was_held_is_shown_after(tmp_path: Path) -> None:
    root = write_run(tmp_path / "runs", output=b"first\r\n")
    async with opened(root) as (app, pilot):
        await press(pilot, "6", until="first")
        await press(pilot, "space", until="paused")
        with RunLayout(root).output.open("ab") as file:
            file.write(b"second\r\n")
        await until(pilot, lambda: "second" in app._newest_output.lines, "the output")
        await pilot.pause()
        assert "second" not in text_of(app)
        await press(pilot, "space", until="second")


async def test_the_end_of_a_run_reaches_a_terminal_that_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PerftuiApp, "_terminal_is_behind", lambda app: app.snapshot is not None)
    root = write_run(tmp_path / "runs", steps=5)
    async with opened(root) as (app, pilot):
        grow(root, 5, 60)
        await until(pilot, lambda: app.newest and app.newest.train_steps == 60)
        assert app.snapshot is not app.newest
        path = RunLayout(root).manifest
        ended = replace(
            read_manifest(path), status=Status.EXITED, exit_code=0, ended_ns=START + 10**11
        )
        write_manifest(path, ended)
        await until(pilot, lambda: app.snapshot and not app.snapshot.phase.is_live, "the end")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_first_window_is_announced_while_it_is_read(tmp_path: Path, is_there: bool) -> None:
    root = write_run(tmp_path / "runs")
    windows = RunLayout(root).rank(0).windows
    windows.mkdir(parents=True, exist_ok=True)
    view = RunView(root, lambda: START, lambda: False)
    assert is_there or not view.read().is_reading
    even_steps().write(windows / "1.pt.trace.json")
    announced = view.read()
    assert (announced.analysis, announced.is_reading, view.unfinished) == (None, True, True)
    after = view.read()
    assert (after.analysis is not None, after.is_reading, view.unfinished) == (True, False, False)
    even_steps().write(windows / "2.pt.trace.json")
    assert view.read().analysis is not after.analysis


def test_a_run_is_shown_before_what_judges_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "JUDGE", "not.loaded")
    received: list[Snapshot] = []

    def post(message: Message) -> bool:
        received.append(message.snapshot)
        # The judged one waits until this one is drawn.
        assert len(received) == 1 or reading.is_drawn.is_set()
        reading.is_drawn.set()
        return True

    reading = source.RunSource(write_run(tmp_path, **ENDED), post, lambda: NOW)
    reading.read()
    first, *others = received
    assert (first.is_judged, {one.is_judged for one in others}) == (False, {True})
    # What needs no judging is the same.
    for name in ("phase", "title", "breakdown", "step_ms", "train_steps", "rank_number"):
        assert getattr(first, name) == getattr(others[-1], name), name
    assert first.diagnosis == Diagnosis(progress="still judging what was recorded")
    assert verdict(first) == ((" JUDGING    ", "accent"), "still judging what was recorded")


def test_steps_go_on_while_a_judgement_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, judge, may_end = write_run(tmp_path, steps=40), RunView.judge, threading.Event()
    received: list[Snapshot] = []
    looks: list[RunSnapshot] = []

    def slow(view: RunView, run: RunSnapshot) -> Snapshot:
        looks.append(run)
        assert len(looks) != 3 or may_end.wait(10)
        return judge(view, run)

    def post(message: Message) -> bool:
        received.append(message.snapshot)
        grow(root, 39 + len(received), 40 + len(received))
        may_end.set() if len(received) == 20 else None
        reading.stop() if len(looks) > 3 else None
        return True

    for name in ("POLL_SECONDS", "PATIENCE_SECONDS"):
        monkeypatch.setattr(source, name, 0.01)
    monkeypatch.setattr(RunView, "judge", slow)
    reading = source.RunSource(root, post, lambda: NOW)
    reading.read()
    assert [one.train_steps for one in received] == [*range(40, 40 + len(received))]
    assert received[10].diagnosis is received[19].diagnosis is not received[-1].diagnosis


@pytest.mark.subprocess
def test_what_is_loaded_for_the_first_look_judges_nothing() -> None:
    code = "import sys, perftui_tui.reading.first_look; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "perftui.run.reader" in loaded
    heavy = ("perftui.diagnosis.symptoms", "perftui.fixes.catalogue", "perftui.analysis.model")
    assert not [one for one in loaded if one.startswith(heavy)]


@pytest.mark.subprocess
@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.parametrize("given", [None, "2"])
def test_numpy_brings_no_threads_and_leaves_the_environment_as_it_was(given: str | None) -> None:
    script = """
import os
from perftui_tui.reading.source import BLAS_THREADS, _import_numpy
_import_numpy()
import numpy
print(len(os.listdir("/proc/self/task")), os.environ.get(BLAS_THREADS))
"""
    environment = {key: value for key, value in os.environ.items() if key != BLAS_THREADS}
    environment |= {BLAS_THREADS: given} if given is not None else {}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    threads, after = done.stdout.split()
    assert (after, given or threads) == (str(given), given or "1")


FINDING = Finding("input-in-main-thread", Severity.CRITICAL, "", fixes=("loader-workers",))
IDLE = MachineFacts(cores=4, installed_cores=4, tree_cores=1.0, machine_cores=1.0)


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    script = tmp_path / "train.py"
    script.write_text("loader = DataLoader(pictures)\n")
    manifest = Manifest("one", ("python", "train.py"), str(tmp_path), 1 << 62, "box")
    loader = LoaderFacts(num_workers=0, dataset="Pictures", file=str(script), line=1)
    run = RunSnapshot(tmp_path, manifest, (), {}, 0)
    return facts_with(
        Facts(run), {training_loader: loader, machine_use: IDLE, fetch_cpu: 1.0, has_gpu: False}
    )


def changed(facts: Facts, given: dict[Fact[Any], Any]) -> Facts:
    known = {fact: value for fact, value in facts.worked_out.items() if isinstance(fact, Fact)}
    return facts_with(facts, {**known, **given})


def workers(lookup: Pictures, facts: Facts) -> FixOption:
    return lookup.options([FINDING], facts)[FINDING.rule][0]


def test_a_machine_that_fills_up_is_warned_of_and_ranks_share_its_cores(facts: Facts) -> None:
    lookup = Pictures(0, lambda: False)
    assert Risk.CORES not in workers(lookup, facts).risks
    busy = replace(IDLE, tree_cores=3.6, machine_cores=3.6)
    assert Risk.CORES in workers(lookup, changed(facts, {machine_use: busy})).risks
    alone = workers(lookup, facts).title
    assert workers(lookup, changed(facts, {ranks_here: 2})).title != alone


@pytest.mark.parametrize(("cores", "again"), [(1.01, 0), (2.5, 1)])
def test_small_changes_are_not_worked_out(
    facts: Facts, monkeypatch: pytest.MonkeyPatch, cores: float, again: int
) -> None:
    lookup = Pictures(0, lambda: False)
    lookup.options([FINDING], facts)
    asked: list[str] = []

    def offered(fix: Fix, change: CallChange, about: Facts) -> FixOption:
        asked.append(fix.id)
        return real(fix, change, about)

    real = view.offered
    monkeypatch.setattr(view, "offered", offered)
    lookup.options([FINDING], changed(facts, {machine_use: replace(IDLE, machine_cores=cores)}))
    assert len(asked) == again


def test_a_script_that_changes_is_read_again(facts: Facts, tmp_path: Path) -> None:
    """Under spawn the script itself decides, not the file of the loader."""
    other = tmp_path / "data.py"
    other.write_text("loader = DataLoader(pictures)\n")
    loader = LoaderFacts(0, dataset="Pictures", file=str(other), line=1, start_method="spawn")
    spawning = changed(facts, {training_loader: loader})
    lookup = Pictures(0, lambda: False)
    assert "__main__" in workers(lookup, spawning).why_not
    (tmp_path / "train.py").write_text('if __name__ == "__main__":\n    main()\n')
    assert "__main__" not in workers(lookup, spawning).why_not


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs", steps=120, gpu=True, workers=2, **ENDED)


def panes(snapshot: Snapshot) -> list[str]:
    """Everything that is drawn of it."""
    drawn = [
        row
        for draw in (headline, step_bar, findings, memory_now, memory_chart)
        for row in draw(snapshot, 120, 14)
    ]
    for read, _ in METERS.values():
        drawn += [*draw_meter(read)(snapshot, 60, 9), *draw_meter(read)(snapshot, 90, 1)]
    return [*map(plain, drawn), *map(plain, rank_headline(snapshot.ask(rank_table), 120))]


@pytest.mark.parametrize("steps", [0, 1, 3, 22, 75, 119])
def test_after_so_many_steps_it_is_what_was_watched_then(
    saved: Path, tmp_path: Path, steps: int
) -> None:
    run = RunReader(saved).poll()
    at = stops_of(run).at_step(steps)
    then = RunView(earlier(saved, at, tmp_path / "then"), lambda: at, lambda: False).read()
    played = Pictures(0, lambda: False).make(as_of(run, at), None, at, as_of=at)
    assert panes(played) == panes(then)
    assert played.train_steps == steps
    assert "step" in plain(header(then, "overview", False, False, 200))


@pytest.mark.slow
@pytest.mark.keys(
    "app.playback", "app.bar.step(1)", "app.bar.step(-1)", "app.bar.step(10)", "app.bar.step(-10)",
    "app.bar.edge(0)", "app.bar.edge(1)", "app.bar.leave",
)  # fmt: skip
async def test_it_steps_through_the_run_and_back_to_its_end(saved: Path) -> None:
    async with opened(saved, replay=True) as (app, pilot):
        final = app.snapshot
        await press(pilot, "P", "end", until="the end")
        await press(pilot, "left", until="step 119 of 119")
        await pilot.press("left")
        await until(pilot, lambda: app.snapshot and app.snapshot.train_steps == 119, "119 steps")
        await pilot.press("shift+left")
        await until(pilot, lambda: app.snapshot and app.snapshot.train_steps == 109, "109 steps")
        assert "step 108 of 119" in text_of(app)
        await pilot.press("right", "shift+right")
        await until(pilot, lambda: app.snapshot and app.snapshot.train_steps == 120, "120 steps")
        await press(pilot, "home", until="before the first step")
        await until_shown(pilot, "STARTING")
        await pilot.press("end")
        await until(pilot, lambda: app.snapshot is final, "the end")
        await pilot.press("left", "escape")
        await until(pilot, lambda: app.snapshot is final and not app.playback.is_on, "the end")
        assert "the end" not in text_of(app)


@pytest.mark.keys("app.bar.play", "app.bar.faster(1)", "app.bar.faster(-1)")
async def test_it_plays_from_the_start_at_a_speed_and_holds(saved: Path) -> None:
    async with opened(saved, replay=True) as (app, pilot):
        for _ in range(2):
            await press(pilot, "P", until="▶ 10x")
            assert app.playback.position.share < 0.5
            await press(pilot, "end", until="P plays again")
        await press(pilot, "home", until="before the first step")
        await press(pilot, "plus", "plus", until="100x")
        await press(pilot, "minus", until="30x")
        await pilot.press("space")
        await until(pilot, lambda: app.playback.position.step > 5, "some steps")
        await pilot.press("space")
        await pilot.pause()
        assert not app.playback.position.playing
        await until(
            pilot,
            lambda: app.snapshot.train_steps == app.playback.position.step,
            "the picture of where it stands",
        )


async def test_a_click_on_the_bar_goes_there(saved: Path) -> None:
    async with opened(saved, replay=True) as (app, pilot):
        await press(pilot, "P", "end", until="the end")
        bar = app.screen.query_one("#playback")
        left = bar._left
        await pilot.click("#playback", offset=(left + bar._cells // 2, 0))
        await until(pilot, lambda: 0.45 < app.playback.position.share < 0.55, "the middle")
        await until(pilot, lambda: app.snapshot.as_of == app.playback.position.at, "its picture")
        await pilot.click("#playback", offset=(bar.size.width - 3, 0))
        assert 0.45 < app.playback.position.share < 0.55
        await until_shown(pilot, "P keys to the screen")
        await press(pilot, "P", until="P keys to the bar")


@pytest.mark.slow
async def test_the_findings_keep_their_frame_on_the_smallest_screen(saved: Path) -> None:
    async with opened(saved, size=(60, 18), replay=True) as (app, pilot):
        await press(pilot, "P", "end", until="the end")
        lines = text_of(app).splitlines()
        assert "Other findings" in "".join(lines[-6:-2])
        assert lines[-3].startswith("╰")
        assert lines[-3].rstrip().endswith("╯")


async def test_the_keys_go_with_the_screens_and_the_log_says_that_it_is_whole(saved: Path) -> None:
    async with opened(saved, replay=True) as (app, pilot):
        await press(pilot, "6", screen="log")
        await press(pilot, "P", "end", until="the end")
        assert ALL_OUTPUT not in text_of(app)
        await press(pilot, "left", until=ALL_OUTPUT)
        await pilot.press("escape")
        await until(pilot, lambda: ALL_OUTPUT not in text_of(app), "the line to go")
        await pilot.press("P", "end", "left")
        await press(pilot, "9", screen="runs")
        await until(pilot, lambda: app.screen.focused and app.screen.focused.id == "playback")
        await pilot.press("P")
        await until(pilot, lambda: app.screen.focused and app.screen.focused.id == "runs-table")


@pytest.mark.parametrize("key", ["c", "q"])
async def test_what_is_played_is_not_taken_for_a_training_that_runs(saved: Path, key: str) -> None:
    async with opened(saved, replay=True) as (app, pilot):
        await pilot.press("P", "end", "left", "left")
        await until(pilot, lambda: app.snapshot and app.snapshot.as_of, "an earlier picture")
        await pilot.press("P", key)
        await pilot.pause()
        if key == "c":
            await until_shown(pilot, "only a running training")
        else:
            await until(pilot, lambda: not app.is_running, "the end of the app")


async def test_a_running_training_is_not_played(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path)) as (app, pilot):
        await press(pilot, "P", until="still going on")
        assert not app.playback.is_on


def test_the_panes_compare_something(saved: Path) -> None:
    run = RunReader(saved).poll()
    stops = stops_of(run)
    at = stops.at_step(40)
    played = Pictures(0, lambda: False).make(as_of(run, at), None, at, as_of=at)
    assert panes(played) != panes(Pictures(0, lambda: False).make(run, None, at))
