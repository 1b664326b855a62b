"""Trials by pairs of runs, tunings and probes in the app: asked for, followed, stopped, kept."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from perftui.experiments.journal import keep_proof, read_proof
from perftui.experiments.trial_runs import NO_PAIRS, Progress, TrialError
from perftui.experiments.trial_verdict import Outcome
from perftui.facts.data_loader.loader import CurvePoint
from perftui.facts.fact import Facts, UnknownError
from perftui.fixes.option import FixOption
from perftui.fixes.workers import with_workers
from perftui.probe.ceilings import Ceiling, Ceilings, rate_of
from perftui.probe.probe import ProbeCancelledError, WorkerError
from perftui.run.control import take_requests
from perftui.run.layout import RunLayout, trials_of
from perftui.run.reader import RunReader, RunSnapshot
from perftui_tui.app import PerftuiApp
from perftui_tui.commands.farewell import achieved
from perftui_tui.look.rows import plain
from perftui_tui.reading.experiment_state import Stage
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import close, opened, press, press_shown, text_of, until, until_shown
from tests.tui.fake_trial import (
    BASE,
    FASTER,
    UNCLEAR,
    FakeTrial,
    PlayedRuns,
    play,
    play_trial,
    progress_of,
)
from tests.tui.recorded import ENDED, MS, SCRIPT, START, write_run
from tests.tui.test_fix_flow import end
from tests.tui.traces import write_trace

LINE = "#experiment-line"


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> FakeTrial:
    made = FakeTrial(*FASTER)
    play_trial(monkeypatch, made)
    return made


async def prove(pilot: Pilot[None]) -> None:
    """Ask for a trial by pairs of the first fix."""
    await press(pilot, "a", until="Run again?")
    await press_shown(pilot, "p", "prove it", until="Trial by pairs")


def rows_of(app: PerftuiApp, part: str) -> list[str]:
    return [plain(line) for line in app.screen.query_one(part, RowView).rows]


def details(app: PerftuiApp) -> str:
    return " ".join(line.strip() for line in rows_of(app, "#finding-details"))


async def until_told(app: PerftuiApp, pilot: Pilot[None], words: str) -> None:
    """Wait for a notification, which is too long for one row of a narrow screen."""
    await until(pilot, lambda: any(words in one.message for one in app._notifications), words)


def stage(app: PerftuiApp) -> Stage | None:
    state = app.trials.pairs.state
    return state.stage if state else None


@pytest.mark.slow
@pytest.mark.keys("diagnosis.prove_fix", "app.trial")
async def test_pairs_come_in_and_end_in_a_lasting_headline(ended: Path, trial: FakeTrial) -> None:
    async with opened(ended, (80, 24)) as (app, pilot):
        await press(pilot, "4", until="confidence")
        await press(pilot, "p", until="Prove it?")
        await press(pilot, "enter", until="Trial by pairs")
        await until_shown(pilot, "pair 1, the run with the fix", "first run does not")
        trial.let(3)
        await until_shown(pilot, "2.10x faster so far: 3 more pairs needed")
        row = re.compile(r"2 +315 ms +150 ms +2\.10x")
        await until(pilot, lambda: row.search(text_of(app)), "the row of the second pair")
        assert "the result soon" in text_of(app)
        await close(pilot, "close this; the trial goes on")
        await press(pilot, "5", until="A trial is running and compares runs")
        # It is followed from any screen.
        for key in "146":
            await press(pilot, key, until="pair 4 of 6   2.10x faster so far")
        for key, why in (("r", "another run would disturb"), ("w", "a changed source would spoil")):
            await pilot.press("4", key)
            await until_told(app, pilot, f"a trial is running, and {why} it: X can stop it")
        assert len(app.screen_stack) == 1
        await press_shown(pilot, "X", "shows it", until="Trial by pairs")
        trial.let(3)
        await until_told(app, pilot, "num_workers 0 -> 4: 2.10x faster (2.00 to 2.20)")
        await until_shown(pilot, "6 pairs in 0:")
        assert "2.10x faster (2.00 to 2.20)" in text_of(app)
        await close(pilot, "close")
        assert not app.screen.query_one(LINE).display
        await pilot.press("4")
        await until(pilot, lambda: "by 6 pairs of runs" in details(app), "the proof")
        await pilot.press("1")
        await until_shown(pilot, "PROVEN      num_workers 0 -> 4   2.10x faster (2.00 to 2.20)")
        assert trial.asked == [(ended, "loader-workers", trials_of(ended), 50)]
    # It is known when the run is opened again.
    async with opened(ended, (120, 60)) as (app, pilot):
        await press(pilot, "4", until="Proof 2.10x faster (2.00 to 2.20)")
        proof = r"Proof 2\.10x faster \(2\.00 to 2\.20\), by 6 pairs of runs, 20\d\d-"
        assert re.search(proof, text_of(app))


@pytest.fixture
def fewer(monkeypatch: pytest.MonkeyPatch, ended: Path) -> FakeTrial:
    """Finds that two workers are best, where four were offered."""
    made = FakeTrial(*FASTER)
    made.tried = with_workers(Facts(RunReader(ended).poll()), 2)
    play_trial(monkeypatch, made)
    return made


@pytest.mark.slow
async def test_the_number_of_workers_that_was_found_is_shown_and_written(
    ended: Path, fewer: FakeTrial, script: Path
) -> None:
    async with opened(ended, (120, 60)) as (app, pilot):
        await press(pilot, "4", until="> num_workers 0 -> 4 ")
        await prove(pilot)
        fewer.let(6)
        await until_shown(pilot, "6 pairs in 0:")
        await close(pilot, "close")
        await until_shown(pilot, "Proof 2.10x faster (2.00 to 2.20)")
        assert "by 6 pairs of runs" in details(app)
        assert "num_workers=2, persistent_workers=True" in details(app)
        await press(pilot, "w", until="Write the fix?")
        await press_shown(pilot, "enter", "write it to the source")
        await until_told(app, pilot, "train.py written")
        assert list(achieved(app)) == [
            ("wrote", f"{script}: num_workers 0 -> 2, 2.10x faster (2.00 to 2.20), proven"),
            ("undo", f"perftui undo {ended}  # restores train.py"),
        ]
    assert "num_workers=2" in script.read_text()


@pytest.mark.slow
async def test_what_another_command_proved_is_shown(ended: Path) -> None:
    async with opened(ended, (120, 60)) as (app, _):
        (option,) = next(iter(app.snapshot.options.values()))[:1]
    progress = progress_of(*UNCLEAR, notes=("the host was busy: stress",))
    keep_proof(option, progress, trials_of(ended), START)
    async with opened(ended, (120, 60)) as (app, pilot):
        await press(pilot, "4", until="Proof 1.05x so far, unclear (0.90 to 1.20)")
        await until_shown(pilot, "the host was busy: stress")


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [0, 2])
async def test_a_trial_stops_with_its_training(ended: Path, trial: FakeTrial, pairs: int) -> None:
    trial.may_stop.clear()
    async with opened(ended, (80, 24)) as (app, pilot):
        await prove(pilot)
        trial.let(pairs)
        said = "more pairs needed" if pairs else "pair 1, the run with the fix"
        await until_shown(pilot, said)
        await close(pilot, "stop the trial and its training", key="s")
        await until_shown(pilot, "stopping the training")
        # A second trial waits until the first has let go of the machine.
        await press(pilot, "a", until="Trial by pairs")
        assert "stop the trial" not in text_of(app)
        trial.may_stop.set()
        await until_shown(pilot, f"stopped after {pairs} pairs")
        assert trial.stopped.is_set()
        assert stage(app) is Stage.STOPPED
        await close(pilot)
        assert not app.screen.query_one(LINE, RowView).display
        await press(pilot, "a", until="Run again?")
    assert read_proof(trials_of(ended), "loader-workers") is None


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (TrialError("a run ended with exit code 1: see there"), "a run ended with exit code 1"),
        (OSError("no"), "no"),
        # Also what nobody expected.
        (KeyError("surprise"), "it ended with an internal error"),
    ],
)
async def test_a_trial_that_fails_says_why(
    ended: Path, trial: FakeTrial, error: Exception, why: str
) -> None:
    trial.error = error
    async with opened(ended, (120, 40)) as (app, pilot):
        await prove(pilot)
        trial.let(1)
        await until_told(app, pilot, f"num_workers 0 -> 4: failed: {why}")
        assert stage(app) is Stage.FAILED
        assert f"failed: {why}" in " ".join(rows_of(app, "#body"))
        await until_shown(pilot, str(error.args[0])[:20])
        assert app.is_running
        assert not app.trials.pairs.is_running


@pytest.mark.slow
async def test_the_end_is_shown_until_somebody_has_looked_and_writes_the_fix(
    ended: Path, trial: FakeTrial, script: Path
) -> None:
    async with opened(ended, (120, 40)) as (app, pilot):
        await prove(pilot)
        assert "write the fix" not in text_of(app)
        await pilot.press("escape")
        trial.let(6)
        await until(pilot, lambda: stage(app) is Stage.DONE, "the end")
        await pilot.press("6")
        line = app.screen.query_one(LINE, RowView)
        await until(pilot, lambda: "2.10x faster (2.00 to 2.20)" in str(line.rows), "the result")
        await pilot.click(LINE)
        await until_shown(pilot, "Trial by pairs")
        await press_shown(pilot, "w", "write the fix", until="Write the fix?")
        await press(pilot, "enter", until="train.py written")
        await until(pilot, lambda: not line.display, "the line gone")
    assert "num_workers=" in script.read_text()


@pytest.mark.slow
async def test_leaving_from_the_trial_asks_as_well(ended: Path, trial: FakeTrial) -> None:
    async with opened(ended, (80, 24)) as (app, pilot):
        await prove(pilot)
        await press(pilot, "ctrl+c", "ctrl+c", until="A trial is still running")
        await pilot.press("s")
        await until(pilot, lambda: app._exit, "the app's end")
    assert trial.stopped.is_set()


async def test_a_trial_outlives_the_app_and_is_shown_again(ended: Path, trial: FakeTrial) -> None:
    async with opened(ended, (80, 24)) as (app, pilot):
        await prove(pilot)
        trial.let(2)
        await until_shown(pilot, "2.05x faster so far")
        await press(pilot, "q", until="leave it running")
        await pilot.press("l")
        await until(pilot, lambda: app._exit, "the app's end")
    assert not trial.stopped.wait(0.5)
    words = f"goes on; perftui attach {ended} shows it, X there stops it"
    assert ("trial", f"num_workers 0 -> 4 {words}") in list(achieved(app))
    async with opened(ended, (80, 24)) as (app, pilot):
        await until_shown(pilot, "trial  num_workers 0 -> 4  pair 3 of 6   2.05x faster so far")
        await press(pilot, "q", until="It does not need this window.")
        await close(pilot, "stay here")
        trial.let(4)
        await until_told(app, pilot, "num_workers 0 -> 4: 2.10x faster (2.00 to 2.20)")


@pytest.mark.slow
async def test_a_running_training_is_stopped_before_its_trial(
    tmp_path: Path, script: Path, trial: FakeTrial
) -> None:
    live = write_run(tmp_path / "runs", script=script, loader_line=4, cwd=str(tmp_path))
    async with opened(live, (120, 40)) as (_, pilot):
        await press(pilot, "a", until="is stopped first")
        await press(pilot, "p", until="waiting for the running training to stop")
        assert trial.asked == []
        end(live)
        await until_shown(pilot, "pair 1, the run with the fix")
        await until(pilot, lambda: trial.asked, "the trial")
    assert [request.kind for request in take_requests(RunLayout(live))] == ["stop"]


async def test_nothing_is_tried_beside_a_training_that_runs(ended: Path, trial: FakeTrial) -> None:
    live = write_run(ended.parent, run_id="20231114-231320-train")
    async with opened(live, (120, 40)) as (app, pilot):
        app.open_run(ended, is_live=False)
        await until(pilot, lambda: app.snapshot and app.snapshot.source == ended)
        app.own = live
        await pilot.press("a")
        await until_told(app, pilot, "two trainings would disturb each other")
        assert len(app.screen_stack) == 1


async def test_a_run_of_too_few_steps_says_why_there_is_no_proof(
    ended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(run: Facts) -> int:
        raise UnknownError("no step is steady yet")

    monkeypatch.setattr("perftui.experiments.trial_runs.steps_of_each", unknown)
    async with opened(ended, (120, 40)) as (app, pilot):
        await press(pilot, "a", until="Run again?")
        await until_shown(pilot, "needs more steps: no step is steady yet")
        assert "prove it:" not in text_of(app)
        await pilot.press("p")
        assert app.trials.pairs.state is None


@pytest.mark.keys("app.trial")
async def test_the_offer_says_first_what_runs_and_how_long(ended: Path) -> None:
    async with opened(ended, (80, 24)) as (app, pilot):
        await pilot.press("X")
        told = "no trial by pairs of runs and no tuning yet: 4 and then a or A"
        await until_told(app, pilot, told)
        await press(pilot, "a", until="Run again?")
        body, choices, below = (rows_of(app, part) for part in ("#body", "#choices", "#below"))
        assert body == ["num_workers 0 -> 4", "/usr/bin/python3 train.py --lr 0.1"]
        one, pairs, _ = choices
        assert one == " enter  one run with it, compared with this one"
        assert re.fullmatch(r" p      prove it: 17 to 41 runs, about \d+ to \d+ min", pairs)
        assert 1 <= sum("Risk" in line for line in below) <= 3
        top = [view.region.y for view in app.screen.query("#body, #choices, #below")]
        assert top == sorted(top)


WRITTEN = SCRIPT.replace("shuffle=True", "shuffle=True, num_workers=4, persistent_workers=True")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, script: Path) -> PlayedRuns:
    return play(monkeypatch, script)


async def begin(pilot: Pilot[None]) -> None:
    """Ask for a tuning from the Diagnosis screen."""
    await press(pilot, "4", until="confidence")
    await press(pilot, "A", until="Tune this training?")
    await press_shown(pilot, "enter", "try the fix found here", until="pair 1 of 6")


def tuning_stage(app: PerftuiApp) -> Stage | None:
    state = app.trials.tuning.state
    return state.stage if state else None


def body(app: PerftuiApp) -> list[str]:
    return [line.strip() for line in rows_of(app, "#body")]


async def test_the_offer_leads_with_the_command_and_has_three_risks(ended: Path) -> None:
    async with opened(ended, (80, 24)) as (app, pilot):
        await press(pilot, "4", until="confidence")
        await press(pilot, "A", until="Tune this training?")
        shown, choices, below = (rows_of(app, part) for part in ("#body", "#choices", "#below"))
        assert "".join(shown).replace(" ", "") == f"perftuitune{ended}"
        tune, budget, _ = choices
        assert re.fullmatch(r" enter  try the fix found here, about \d+ min", tune)
        assert budget == " b      the same, but start no fix after 15 min"
        assert [line[:4] for line in below if line[:4].strip()] == ["Risk", "Undo", "Time"]
        assert "each proven fix is written to your source" in below[0]
        await close(pilot, "not now")
        assert app.trials.tuning.state is None


@pytest.mark.slow
@pytest.mark.keys("diagnosis.tune", "app.trial", "diagnosis.undo_fix")
async def test_the_ladder_grows_and_what_is_proven_is_written(
    ended: Path, played: PlayedRuns, script: Path
) -> None:
    async with opened(ended, (80, 24)) as (app, pilot):
        await begin(pilot)
        assert "1.00x  as it was" in body(app)
        assert "trying num_workers 0 -> 4" in body(app)
        played.let(3)
        await until_shown(pilot, "pair 4 of 6   2.10x faster")
        second = r"2 +315 ms +150 ms +2\.10x"
        await until(pilot, lambda: re.search(second, text_of(app)), "the second pair")
        await close(pilot, "close this; the tuning goes on")
        for key in "14":
            await press(pilot, key, until="tuning  num_workers 0 -> 4  pair 4 of 6   2.10x faster")
        # No trial runs beside it, nor another training.
        await press(pilot, "a", until="close this; the tuning goes on")
        await close(pilot)
        await pilot.press("r")
        refused = "a tuning is running, and another run would disturb it: X can stop it"
        await until_told(app, pilot, refused)
        assert app.trials.pairs.state is None
        played.let(3)
        await until_shown(pilot, "tuning  num_workers 4 -> 8  pair 1 of 6")
        assert script.read_text() == WRITTEN
        await until(pilot, lambda: "by 6 pairs of runs" in details(app), "the proof")
        await press_shown(pilot, "X", "shows it")
        await until_shown(pilot, "2.10x  + num_workers 0 -> 4   2.10x faster (2.00 to 2.20)")
        played.let(6)
        await until_shown(pilot, "- num_workers 4 -> 8   no difference (0.99 to 1.01)")
        await until_shown(pilot, "trying all fixes together")
        played.let(6)
        await until_told(app, pilot, "tuning: 2.30x faster (2.20 to 2.40) with all fixes")
        await until_shown(pilot, "2 tried, 1 kept in 0:")
        assert "2.30x  all fixes together   2.30x faster (2.20 to 2.40)" in body(app)
        assert "written to train.py; u undoes it, the last fix first" in body(app)
        await press_shown(pilot, "u", "undo the last fix, after", until="Undo the fix?")
        await press_shown(pilot, "enter", "undo it")
        await until_told(app, pilot, "train.py restored byte for byte")
    assert script.read_text() == SCRIPT
    proof = read_proof(trials_of(ended), "loader-workers")
    assert (proof.title, proof.outcome) == ("num_workers 0 -> 4", Outcome.FASTER)


@pytest.mark.slow
async def test_the_number_of_workers_that_is_tried_is_named(
    ended: Path, played: PlayedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = (CurvePoint(1, 250 * MS), CurvePoint(2, 190 * MS))

    def with_best_workers(
        _: RunSnapshot, option: FixOption, *__: object
    ) -> Generator[Progress, None, tuple[FixOption, tuple[CurvePoint, ...]]]:
        yield replace(NO_PAIRS, workers=points)
        return replace(option, title="num_workers 0 -> 2"), points

    monkeypatch.setattr("perftui.experiments.trial.with_best_workers", with_best_workers)
    async with opened(ended, (80, 24)) as (app, pilot):
        await begin(pilot)
        await until_shown(pilot, "a step takes 250 ms with 1 worker, 190 ms with 2")
        played.let(1)
        await until_shown(pilot, "now   num_workers 0 -> 2", "pair 2 of 6")
        assert "trying num_workers 0 -> 2" in body(app)


async def test_the_run_recorded_last_is_opened_with_its_proofs(
    ended: Path, played: PlayedRuns, script: Path
) -> None:
    async with opened(ended, (120, 60)) as (app, pilot):
        await begin(pilot)
        played.let(18)
        await press_shown(pilot, "o", "open the run recorded with all kept fixes")
        await until(pilot, lambda: app.snapshot and app.snapshot.source == ended.with_name(BASE))
        await until_shown(pilot, "4 workers do not keep up")
        await until_shown(pilot, "> num_workers 4 -> 8", "Proof no difference (0.99 to 1.01)")
        # What a tuning wrote is taken back from either run.
        await press(pilot, "u", until="Undo the fix?")
        await pilot.press("enter")
        await until_told(app, pilot, "train.py restored byte for byte")
    assert script.read_text() == SCRIPT


@pytest.mark.slow
async def test_what_it_wrote_is_taken_back_before_what_was_written_first(
    ended: Path, played: PlayedRuns, script: Path
) -> None:
    async with opened(ended, (120, 40)) as (app, pilot):
        await begin(pilot)
        played.let(6)
        await until_shown(pilot, "now   num_workers 4 -> 8")
        assert app.source_fixes.written == ()
        await close(pilot)
        await press(pilot, "1", until="WRITTEN     num_workers 0 -> 4   2.10x faster")
        await pilot.press("4", "u")
        refused = "a tuning is running, and a changed source would spoil it: X can stop it"
        await until_told(app, pilot, refused)
        played.let(12)
        await until_told(app, pilot, "tuning: 2.30x faster")
        await press(pilot, "u", until="undo num_workers 0 -> 4")


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [0, 8])
async def test_it_is_stopped_with_its_training_and_what_was_proven_stays(
    ended: Path, played: PlayedRuns, script: Path, pairs: int
) -> None:
    played.may_stop.clear()
    async with opened(ended, (80, 24)) as (app, pilot):
        await begin(pilot)
        played.let(pairs)
        await until_shown(pilot, "pair 3 of 6" if pairs else "pair 1 of 6")
        await close(pilot, "stop the tuning and its training", key="s")
        await until_shown(pilot, "stopping the training")
        # Neither a trial nor another tuning begins meanwhile.
        for key in "aA":
            await press(pilot, key, until="close this; the tuning goes on")
            assert "stop the tuning" not in text_of(app)
            await close(pilot)
        played.may_stop.set()
        said = "stopped: proven fixes stay" if pairs else "stopped: nothing proven so far"
        await until_told(app, pilot, said)
        assert played.stopped.is_set()
        assert tuning_stage(app) is Stage.STOPPED
        await press(pilot, "X", until="A continues from here")
        await close(pilot)
        await pilot.press("A")
        await until_shown(pilot, "continue after the 1 change" if pairs else "try the fix found")
        if pairs:
            await press(pilot, "enter", until="2.10x  + num_workers 0 -> 4")
            await until_shown(pilot, "trying num_workers 4 -> 8")
    assert script.read_text() == (WRITTEN if pairs else SCRIPT)


@pytest.mark.slow
async def test_a_tuning_that_fails_says_why(ended: Path, played: PlayedRuns) -> None:
    played.error = TrialError("a run before the change ended with exit code 1: see there")
    async with opened(ended, (120, 40)) as (app, pilot):
        await begin(pilot)
        played.let(1)
        await until_told(app, pilot, f"tuning: failed: {played.error}")
        assert tuning_stage(app) is Stage.FAILED
        assert f"failed: {played.error}" in " ".join(body(app))


@pytest.mark.keys("app.quit")
@pytest.mark.parametrize("kind", ["trial", pytest.param("tuning", marks=pytest.mark.slow)])
async def test_leaving_asks_and_stops_the_training_first(
    ended: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    fake = request.getfixturevalue({"trial": "trial", "tuning": "played"}[kind])
    fake.may_stop.clear()
    async with opened(ended, (80, 24)) as (app, pilot):
        await (prove if kind == "trial" else begin)(pilot)
        await close(pilot)
        about = {"trial": "num_workers 0 -> 4", "tuning": ended.name}[kind]
        await press(pilot, "q", until=f"A {kind} is still running: {about}")
        so_far = {"trial": "No pair of runs so far", "tuning": "0 tried, 0 kept; proven"}[kind]
        await until_shown(pilot, so_far)
        await close(pilot, "stay here")
        assert app.trials.running.state.stage is Stage.RUNNING
        await pilot.press("q")
        await press_shown(pilot, "s", f"stop the {kind} and quit", until="stopping the training")
        assert not app._exit
        fake.may_stop.set()
        await until(pilot, lambda: app._exit, "the app's end")
    assert fake.stopped.is_set()


@pytest.mark.slow
async def test_a_running_training_is_stopped_before_its_tuning(
    tmp_path: Path, script: Path, played: PlayedRuns
) -> None:
    live = write_run(tmp_path / "runs", script=script, loader_line=4, cwd=str(tmp_path))
    async with opened(live, (120, 40)) as (app, pilot):
        await press(pilot, "4", "A", until="is stopped first")
        await press(pilot, "b", until="waiting for the running training to stop")
        end(live)
        await until_shown(pilot, "pair 1 of 6")
        assert "until no further fix is started" in " ".join(body(app))
    assert played.stopped.wait(10)


@pytest.mark.slow
async def test_without_a_fix_or_a_run_there_is_nothing_to_tune(tmp_path: Path) -> None:
    healthy = write_run(tmp_path / "runs", wait_ms=1, workers=4, **ENDED)
    for target, words in (
        (healthy, "no fix of this run can be tried"),
        (write_trace(tmp_path), "a trace cannot be run again"),
    ):
        async with opened(target, (120, 40)) as (app, pilot):
            await pilot.press("4", "A")
            await until_told(app, pilot, words)
            assert len(app.screen_stack) == 1
            assert not app.screen.query_one(LINE).display


HOST = socket.gethostname()


class FakeProbe:
    """Stands in for ``perftui.probe.probe.probe``, and waits to be let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.error: Exception | None = None
        self.asked: list[tuple[str, Path]] = []

    def __call__(
        self,
        python: str,
        path: Path,
        _: float | None,
        tell: Callable[[str], object],
        cancelled: threading.Event,
    ) -> Ceilings:
        self.asked.append((python, path))
        tell("disk read")
        while not self.go.wait(0.02):
            if cancelled.is_set():
                raise ProbeCancelledError
        if self.error is not None:
            raise self.error
        rate = rate_of(Ceiling.DISK_READ, "B/s", [[2e9]], "one file")
        return Ceilings(HOST, 10**18, (rate,), torch="2.13.0", path=str(path))


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> FakeProbe:
    made = FakeProbe()
    monkeypatch.setattr("perftui.probe.probe.probe", made)
    return made


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    disk = {HOST: {"disk": "sda", "place": str(tmp_path), "file_system": "ext4"}}
    return write_run(tmp_path, host=HOST, profile={"data_disk": disk}, **ENDED)


@pytest.mark.keys("app.probe")
async def test_it_is_measured_where_the_data_lies_and_kept(
    measured: Path, probe: FakeProbe, tmp_path: Path
) -> None:
    async with opened(measured, (100, 30)) as (app, pilot):
        await press(pilot, "B", until="Measure this machine?")
        assert "perftui probe --path" in text_of(app)
        await press_shown(pilot, "enter", "measure, about 12 s")
        await until_shown(pilot, "measuring what this machine can do, disk read done")
        await close(pilot, "close this; measuring goes on")
        await until_shown(pilot, "probe  measuring what")
        await pilot.press("X")
        probe.go.set()
        await until_told(app, pilot, "probe: measured 1 peak rate of this machine")
        await until_shown(pilot, "2.0 GB/s")
    (asked,) = probe.asked
    assert asked[1] == tmp_path


@pytest.mark.slow
async def test_a_probe_stops_fails_or_ends_with_the_app(measured: Path, probe: FakeProbe) -> None:
    async with opened(measured, (100, 30)) as (app, pilot):
        await press(pilot, "B", until="Measure this machine?")
        await pilot.press("enter")
        await close(pilot, "stop measuring", key="s")
        await until_told(app, pilot, "probe: stopped: nothing is kept")
        state = app.trials.probing.state
        assert (state.stage, state.found) == (Stage.STOPPED, None)
        # A failure has its reason.
        probe.error = WorkerError("No module named torch")
        probe.go.set()
        await press(pilot, "B", until="Measure this machine?")
        await pilot.press("enter")
        await until_told(app, pilot, "probe: failed: No module named torch")
        await close(pilot)
        probe.go.clear()
        await press(pilot, "B", until="Measure this machine?")
        await pilot.press("enter")
        await close(pilot, "close this")
        await press(pilot, "q", until="A probe is still running")
        assert "quitting stops it." in text_of(app)
        await press_shown(pilot, "s", "stop the probe and quit")
        await until(pilot, lambda: not app.is_running, "the end")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"host": HOST, "status": "running"}, "the training is still running"),
        ({"host": "elsewhere", **ENDED}, "this run is of elsewhere"),
    ],
)
async def test_it_is_refused_where_it_would_be_wrong(
    tmp_path: Path, probe: FakeProbe, changes: dict[str, object], why: str
) -> None:
    async with opened(write_run(tmp_path, **changes), (100, 30)) as (app, pilot):
        await pilot.press("B")
        await until_told(app, pilot, why)
    assert not probe.asked
