"""Which runs a trial makes, in which order, as whoever follows it hears of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perftui.experiments import trial as trials
from perftui.experiments.rerun import repeat_launch
from perftui.experiments.trial_runs import Arm, NextRun, Progress, Purpose, TrialRun
from perftui.facts.fact import Facts
from perftui.fixes.workers import with_workers
from perftui.run.reader import RunReader, RunSnapshot
from perftui.run.worker_curve import read_worker_curve
from tests.tui.recorded import ENDED, SCRIPT, write_run

MS = 1_000_000


@pytest.fixture
def run(tmp_path: Path) -> RunSnapshot:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    return RunReader(write_run(tmp_path, script=script, loader_line=4, **ENDED)).poll()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Steps in ms by the name of a launch: no run is made."""
    times: dict[str, int] = {}

    def measured(arm: Arm, launch: object, _: threading.Event) -> TrialRun:
        name = getattr(launch, "name", None) or ""
        return TrialRun(arm, Path("run"), times.get(name, 100) * MS)

    monkeypatch.setattr(trials, "measured", measured)
    return times


def made(
    run: RunSnapshot, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NextRun | Progress]:
    """What a trial of more workers says, in order."""
    monkeypatch.setattr(trials, "facts_of", lambda _: Facts(run))
    monkeypatch.setattr(trials, "counts_to_try", lambda _: (1, 2, 4, 8))
    option = with_workers(Facts(run), 4)
    assert option is not None
    heard: list[NextRun | Progress] = []
    trying = trials.trial(run, option, directory, 50, threading.Event(), 1, heard.append)
    for progress in trying:
        heard.append(progress)
        yield from heard
        heard.clear()


def test_numbers_of_workers_come_first_then_the_warm_up_then_pairs(
    run: RunSnapshot, steps: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.update({"num_workers 0 -> 1": 60, "num_workers 0 -> 2": 40, "num_workers 0 -> 4": 41})
    heard = list(made(run, tmp_path / "trials", monkeypatch))
    runs = [one for one in heard if isinstance(one, NextRun)]
    assert runs == [
        NextRun(Purpose.WORKERS, workers=1, further=3),
        NextRun(Purpose.WORKERS, workers=2, further=2),
        NextRun(Purpose.WORKERS, workers=4, further=1),
        NextRun(Purpose.WARM_UP),
        NextRun(Purpose.PAIR, 1, Arm.BEFORE),
        NextRun(Purpose.PAIR, 1, Arm.AFTER),
    ]
    said = [one for one in heard if isinstance(one, Progress)]
    # Which number is tried is known before the first pair.
    titles = [one.option.title if one.option else None for one in said]
    assert titles == [None, None, None, "num_workers 0 -> 2", "num_workers 0 -> 2"]
    assert [len(one.pairs) for one in said] == [0, 0, 0, 0, 1]
    curve = read_worker_curve(run.root)
    assert curve is not None
    assert curve.best == 2


def test_of_another_launch_the_pairs_turn_around(
    run: RunSnapshot, steps: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del steps
    monkeypatch.setattr(trials, "_progress", lambda *_: replace(trials.NO_PAIRS))
    heard: list[NextRun] = []
    launch = repeat_launch(run)
    list(trials.paired_runs(launch, launch, tmp_path, 50, threading.Event(), 2, began=heard.append))
    assert [one.arm for one in heard[1:]] == [Arm.BEFORE, Arm.AFTER, Arm.AFTER, Arm.BEFORE]
    assert [one.pair for one in heard[1:]] == [1, 1, 2, 2]
