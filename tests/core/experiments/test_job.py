"""A trial outlives whoever began it, and is taken up where its process was ended."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from perftui.experiments import job
from perftui.experiments.trial_verdict import Stage
from perftui.fixes.option import FixOption
from perftui.report.trial import offers
from perftui.run.layout import TRIAL_FILE, trials_of
from perftui.run.reader import RunReader, RunSnapshot
from tests.tui.fake_trial import FASTER, FakeTrial, play_trial
from tests.tui.recorded import ENDED, write_run, write_script

STEPS = 50


@pytest.fixture
def run(tmp_path: Path) -> RunSnapshot:
    script = write_script(tmp_path)
    root = write_run(
        tmp_path / ".perftui" / "runs",
        script=script,
        loader_line=4,
        cwd=str(tmp_path),
        command=("python", "train.py"),
        **ENDED,
    )
    return RunReader(root).poll()


@pytest.fixture
def option(run: RunSnapshot) -> FixOption:
    return next(one for one in offers(run.root) if one.fix == "loader-workers")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTrial:
    return play_trial(monkeypatch, FakeTrial(*FASTER))


def ended(root: Path, *, stopped: bool = False) -> job.Job:
    cancelled = threading.Event()
    if stopped:
        cancelled.set()
    *_, last = job.follow(root, cancelled, threading.Event())
    return last


def test_it_is_followed_by_whoever_looks(
    run: RunSnapshot, option: FixOption, fake: FakeTrial
) -> None:
    job.begin(run, option, STEPS)
    with pytest.raises(job.TrialError, match="a trial of num_workers 0 -> "):
        job.begin(run, option, STEPS)
    fake.let(len(FASTER))
    last = ended(run.root)
    assert (last.stage, last.problem, len(last.made)) == (Stage.DONE, "", 12)
    assert last.progress.verdict.headline == "2.10x faster (2.00 to 2.20)"
    assert job.read_job(run.root) == last


def test_pairs_of_the_same_command_and_source_count_again(
    run: RunSnapshot, option: FixOption, fake: FakeTrial
) -> None:
    job.begin(run, option, STEPS)
    fake.let(2)
    for one in job.follow(run.root, threading.Event(), threading.Event()):
        if len(one.progress.pairs) == 2:
            break
    assert ended(run.root, stopped=True).stage is Stage.STOPPED
    assert job.begin(run, option, STEPS).earlier == 2
    ended(run.root, stopped=True)
    assert job.begin(run, option, STEPS + 1).earlier == 0
    ended(run.root, stopped=True)


def test_a_source_that_changed_begins_anew(
    run: RunSnapshot, option: FixOption, fake: FakeTrial
) -> None:
    job.begin(run, option, STEPS)
    fake.let(1)
    for one in job.follow(run.root, threading.Event(), threading.Event()):
        if one.progress.pairs:
            break
    ended(run.root, stopped=True)
    Path(run.manifest.cwd, "model.py").write_text("WIDTH = 8\n")
    assert job.begin(run, option, STEPS).earlier == 0
    ended(run.root, stopped=True)


def test_a_process_that_is_gone_ends_it(
    run: RunSnapshot, option: FixOption, fake: FakeTrial
) -> None:
    job.begin(run, option, STEPS)
    last = ended(run.root, stopped=True)
    job._write(trials_of(run.root), replace(last, stage=Stage.RUNNING, pid=2**22 + 1))
    found = job.read_job(run.root)
    assert found is not None
    assert found.stage is Stage.STOPPED
    (trials_of(run.root) / TRIAL_FILE).write_text("{")
    assert job.read_job(run.root) is None
