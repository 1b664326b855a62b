"""Trials by real runs, without a screen: stopped, failed, of a patch, of a switch, of one side."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from statistics import median

import pytest

from perftui.experiments import isolate
from perftui.experiments.isolate import Side
from perftui.experiments.trial import BlockPlan, block_pairs, trial
from perftui.experiments.trial_runs import (
    Progress,
    TrialCancelledError,
    TrialError,
    TrialSetup,
    run_at,
)
from perftui.experiments.trial_verdict import Agreement, Outcome
from perftui.fixes.option import FixOption
from perftui.report.report import make_report
from perftui.report.subject import load_subject
from perftui.report.trial import isolation_object, isolation_text
from perftui.run.manifest import Override
from perftui.run.reader import RunReader, RunSnapshot
from tests.described import described
from tests.docs.alike import masked
from tests.docs.documents import ROOT
from tests.tui.recorded import ENDED, write_run, write_script

pytestmark = pytest.mark.subprocess

LOADING = """
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 2000
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.zeros(8)

if __name__ == "__main__":
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(40):
        for batch in DataLoader(Slow(), batch_size=8):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            open("log.txt", "a").write("a line\\n")
"""
STEPS = 60


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A run of ``LOADING`` that waits for its loader, as the recorder writes it."""
    script = write_script(tmp_path, LOADING)
    line = next(at for at, line in enumerate(LOADING.splitlines(), 1) if "in DataLoader(" in line)
    return write_run(
        tmp_path / ".perftui" / "runs",
        script=script,
        loader_line=line,
        command=(sys.executable, "train.py"),
        cwd=str(tmp_path),
        **ENDED,
    )


def tried(root: Path, directory: Path, cancelled: threading.Event) -> list[Progress]:
    report = make_report(load_subject(root))
    (option,) = (one for one in report.fixes if one.fix == "loader-workers")
    return list(trial(RunReader(root).poll(), option, TrialSetup(directory, STEPS, cancelled), 1))


@pytest.mark.usefixtures("start_sooner")
@pytest.mark.slow
def test_a_trial_that_is_cancelled_stops_its_training(recorded: Path, tmp_path: Path) -> None:
    cancelled, trials = threading.Event(), tmp_path / "trials"
    threading.Timer(2.0, cancelled.set).start()
    with pytest.raises(TrialCancelledError):
        tried(recorded, trials, cancelled)
    (stopped,) = (RunReader(run).poll() for run in trials.iterdir())
    assert stopped.manifest.status.is_over


@pytest.mark.usefixtures("start_sooner")
@pytest.mark.slow
def test_a_run_that_fails_ends_the_trial(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(TrialError, match="ended with exit code 3"):
        tried(recorded, tmp_path / "trials", threading.Event())


def said(line: str) -> str:
    """A line of the output without its figures and what these come to."""
    return masked(line.partition("; ")[0]).replace("N runs", "N run")


def shown() -> list[str]:
    """What the documents show of the output."""
    text = (ROOT / "docs" / "experiments.md").read_text()
    _, _, block = text.partition("\nperftui isolate")
    return [said(line) for line in block.partition("```")[0].splitlines()[1:]]


@pytest.mark.slow
def test_each_side_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(LOADING)
    words = [sys.executable, "-m", "perftui_tui", "diagnose", "--json", "--max-steps", "60"]
    ended = subprocess.run([*words, "train.py"], cwd=tmp_path, capture_output=True, check=True)
    root = Path(json.loads(ended.stdout)["path"])
    log = (tmp_path / "log.txt").read_bytes()
    monkeypatch.setattr(isolate, "ROUNDS", 1)
    monkeypatch.setattr(isolate, "SECONDS", 0.5)
    run = run_at(root)
    *_, found = isolate.isolate(run, tmp_path / "trials", threading.Event())
    sides = {one.side: one for one in found.sides}
    assert all(not one.problem for one in found.sides)
    whole, without = found.step_ns, sides[Side.INPUT].step_ns
    alone, worker = sides[Side.TRAINING].step_ns, sides[Side.WORKER].step_ns
    # Eight samples of 2 ms: nothing else takes as long, however busy the machine.
    assert whole > 16e6 > without
    assert min(alone or 0, worker or 0) > 16e6
    assert "from a faster data loader" in isolation_text(found)
    assert [said(line) for line in isolation_text(found).splitlines()] == shown()
    assert described("isolate", isolation_object(found, run))["step_ns"] == whole
    # What these runs wrote was given back.
    assert (tmp_path / "log.txt").read_bytes() == log


SWITCHING = """
import torch
torch.manual_seed(0)
torch.autograd.set_detect_anomaly(True)
model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(30)))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(1000):
    model(torch.rand(4, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained to its end")
"""
OFF = FixOption(
    "anomaly-off",
    "anomaly detection off",
    "",
    override=Override("switch", {"anomaly": False}, fix="anomaly-off"),
)


def recorded_switch(at: Path) -> RunSnapshot:
    script = at / "train.py"
    script.write_text(SWITCHING)
    command, runs = (sys.executable, "train.py"), at / ".perftui" / "runs"
    root = write_run(runs, script=script, command=command, cwd=str(at), **ENDED)
    return RunReader(root).poll()


@pytest.mark.usefixtures("start_sooner")
def test_two_runs_that_flip_tell_what_a_switch_gains(tmp_path: Path) -> None:
    run, trials = recorded_switch(tmp_path), tmp_path / "trials"
    plan = BlockPlan(pairs=3, steps=9, settling=4)
    made = list(block_pairs(run, OFF, plan, TrialSetup(trials, 86, threading.Event()), 6))
    # With the first pair of the second run, where it is plain by then.
    assert [len(one.pairs) for one in made] in ([1, 2, 3, 4], [1, 2, 3, 4, 5, 6])
    last = made[-1]
    assert last.block_steps == 9
    assert last.losses.agreement is Agreement.SAME
    # Detection takes several times the step; a pair alone may be anything on a busy machine.
    assert median(pair.ratio for pair in last.pairs) > 1.3
    assert len({pair.before.root for pair in last.pairs}) == 2


COLLECTS = """
import gc
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(400):
    print(step)
    model(torch.zeros(8, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 2 == 0:
        gc.collect()
"""


@pytest.mark.slow
def test_a_patch_is_tried_by_running_its_text(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COLLECTS)
    words = [sys.executable, "-m", "perftui_tui", "diagnose", "--json", "--max-steps", str(STEPS)]
    ended = subprocess.run([*words, "train.py"], cwd=tmp_path, capture_output=True, check=True)
    # The report is all that is printed.
    assert described("report", ended.stdout.decode())["fixes"][0]["fix"] == "collect-off"
    (root,) = (tmp_path / ".perftui" / "runs").iterdir()
    report = make_report(load_subject(root))
    option = report.fixes[0]
    assert (option.fix, option.override, option.is_triable) == ("collect-off", None, True)
    run = RunReader(root).poll()
    setup = TrialSetup(tmp_path / "trials", STEPS, threading.Event())
    (first,) = trial(run, option, setup, 1)
    (pair,) = first.pairs
    assert first.verdict.outcome is Outcome.INCONCLUSIVE
    assert first.losses.sentence == "the first 20 losses are the same"
    # Each collection looks at all objects of torch, which takes far longer than the step.
    assert pair.ratio > 2
    (override,) = RunReader(pair.after.root).poll().manifest.overrides
    assert (override.target, override.fix) == ("source", "collect-off")
    assert (tmp_path / "train.py").read_text() == COLLECTS
    assert "gc.collect" not in Path(override.arguments["source"]).read_text()
