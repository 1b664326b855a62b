"""A training is diagnosed, and its fix tried, without a screen."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from perftui.experiments.trial.finished import TrialCancelledError, TrialError
from perftui.experiments.trial.runs import Arm
from perftui.experiments.trial.trial import Progress, trial
from perftui.experiments.trial.verdict import Outcome
from perftui.report.report import make_report
from perftui.report.subject import load_subject
from perftui.run.reader import RunReader
from perftui.run.worker_curve import read_worker_curve
from tests.described import described

pytestmark = pytest.mark.subprocess

SCRIPT = """
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
"""
STEPS = 60


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """The run directory, and the JSON of its diagnosis."""
    directory = tmp_path_factory.mktemp("trial")
    (directory / "train.py").write_text(SCRIPT)
    words = [sys.executable, "-m", "perftui_tui", "diagnose", "--json", "--max-steps", str(STEPS)]
    ended = subprocess.run([*words, "train.py"], cwd=directory, capture_output=True, check=True)
    (root,) = (directory / ".perftui" / "runs").iterdir()
    return root, described("report", ended.stdout.decode())


def tried(root: Path, directory: Path, pairs: int, cancelled: threading.Event) -> list[Progress]:
    report = make_report(load_subject(root))
    (option,) = (one for one in report.fixes if one.fix == "loader-workers")
    run = RunReader(root).poll()
    return list(trial(run, option, directory, STEPS, cancelled, pairs))


def test_the_report_is_all_that_is_printed(recorded: tuple[Path, dict[str, object]]) -> None:
    _, report = recorded
    assert str(report["verdict"]).startswith("The training waits")


def test_a_run_is_repeated_and_compared_by_the_commands_that_are_told(
    recorded: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    root, report = recorded
    assert report["next"] == ["perftui", "try", "loader-workers", str(root)]
    perftui = [sys.executable, "-m", "perftui_tui"]
    words = [*perftui, "diagnose", "--json", "--brief", "--max-steps", "40", str(root)]
    # From anywhere: the run knows where it was started.
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, check=True)
    found = described("brief", ended.stdout.decode())
    again = Path(found["path"])
    assert found["compare"] == ["perftui", "compare", str(root), str(again)]
    assert RunReader(again).poll().manifest.parent == root.name
    assert found["findings"][0]["key"] == report["findings"][0]["key"]
    compared = subprocess.run(
        [*perftui, *found["compare"][1:], "--json"], capture_output=True, check=False
    )
    # On a busy machine the same may look faster or slower: what matters is that they are compared.
    assert described("compare", compared.stdout.decode())["changes"] == []
    assert compared.returncode in (0, 3, 4, 5)


def test_a_fix_is_tried_by_pairs_of_runs(
    recorded: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    root, _ = recorded
    *counting, first, second = tried(root, tmp_path, 2, threading.Event())
    # With one core or two there may be nothing to choose among.
    assert all(not one.pairs and one.workers for one in counting)
    curve = read_worker_curve(root)
    assert (curve.points if curve else ()) == second.workers
    assert [len(one.pairs) for one in (first, second)] == [1, 2]
    assert second.verdict.outcome is Outcome.INCONCLUSIVE
    assert second.verdict.headline == "not yet known: 4 more pairs would tell"
    assert any(change.startswith("num_workers 0 -> ") for change in second.changes)
    assert second.noise is not None
    one, other = second.pairs
    assert one.ratio == one.before.step_ns / one.after.step_ns
    for pair in second.pairs:
        before, after = (RunReader(each.root).poll() for each in (pair.before, pair.after))
        assert before.manifest.overrides == ()
        assert [each.fix for each in after.manifest.overrides] == ["loader-workers"]
        assert len(before.ranks[0].steps) == len(after.ranks[0].steps) == STEPS
    # The second pair is turned around.
    assert first.pairs[0].before.root < first.pairs[0].after.root
    assert other.after.root.name < other.before.root.name
    assert pair.before.arm is Arm.BEFORE


def test_a_trial_that_is_cancelled_stops_its_training(
    recorded: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    cancelled = threading.Event()
    threading.Timer(2.0, cancelled.set).start()
    with pytest.raises(TrialCancelledError):
        tried(recorded[0], tmp_path, 2, cancelled)
    assert all(RunReader(run).poll().manifest.status.is_over for run in tmp_path.iterdir())


def test_a_run_that_fails_ends_the_trial(
    recorded: tuple[Path, dict[str, object]], tmp_path: Path
) -> None:
    script = recorded[0].parents[2] / "train.py"
    script.write_text("raise SystemExit(3)\n")
    try:
        run = RunReader(recorded[0]).poll()
        report = make_report(load_subject(recorded[0]))
        (option,) = (one for one in report.fixes if one.fix == "loader-workers")
        with pytest.raises(TrialError, match="ended with exit code 3"):
            list(trial(run, option, tmp_path, STEPS, threading.Event(), 1))
    finally:
        script.write_text(SCRIPT)


COLLECTS = """
import gc
import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(400):
    model(torch.zeros(8, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 8 == 0:
        gc.collect()
"""


def test_a_patch_is_tried_by_running_its_text(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COLLECTS)
    words = [sys.executable, "-m", "perftui_tui", "diagnose", "--json", "--max-steps", str(STEPS)]
    subprocess.run([*words, "train.py"], cwd=tmp_path, capture_output=True, check=True)
    (root,) = (tmp_path / ".perftui" / "runs").iterdir()
    report = make_report(load_subject(root))
    option = report.fixes[0]
    assert (option.fix, option.override, option.is_triable) == ("collect-off", None, True)
    run = RunReader(root).poll()
    (first,) = trial(run, option, tmp_path / "trials", STEPS, threading.Event(), 1)
    (pair,) = first.pairs
    assert first.verdict.outcome is Outcome.INCONCLUSIVE
    assert first.losses.sentence == "the first 20 losses are the same"
    # Each collection looks at all objects of torch, which takes far longer than the step.
    assert pair.ratio > 2
    (override,) = RunReader(pair.after.root).poll().manifest.overrides
    assert (override.target, override.fix) == ("source", "collect-off")
    assert (tmp_path / "train.py").read_text() == COLLECTS
    assert "gc.collect" not in Path(override.arguments["source"]).read_text()
