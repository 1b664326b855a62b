"""A fix is tried without a screen: stopped, failed, and by the text of a patch."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from perftui.experiments.trial import trial
from perftui.experiments.trial_runs import Progress, TrialCancelledError, TrialError
from perftui.report.report import make_report
from perftui.report.subject import load_subject
from perftui.run.reader import RunReader
from tests.tui.recorded import ENDED, START, write_run

pytestmark = [pytest.mark.subprocess, pytest.mark.usefixtures("start_sooner"), pytest.mark.slow]

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


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A run of ``SCRIPT`` that waits for its loader, as the recorder writes it."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    os.utime(script, ns=(START - 10**9, START - 10**9))
    line = next(at for at, line in enumerate(SCRIPT.splitlines(), 1) if "in DataLoader(" in line)
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
    return list(trial(RunReader(root).poll(), option, directory, STEPS, cancelled, 1))


def test_a_trial_that_is_cancelled_stops_its_training(recorded: Path, tmp_path: Path) -> None:
    cancelled, trials = threading.Event(), tmp_path / "trials"
    threading.Timer(2.0, cancelled.set).start()
    with pytest.raises(TrialCancelledError):
        tried(recorded, trials, cancelled)
    (stopped,) = (RunReader(run).poll() for run in trials.iterdir())
    assert stopped.manifest.status.is_over


def test_a_run_that_fails_ends_the_trial(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(TrialError, match="ended with exit code 3"):
        tried(recorded, tmp_path / "trials", threading.Event())
