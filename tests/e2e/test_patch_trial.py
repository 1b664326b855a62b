"""A fix that is a change of the source alone is tried by running its text."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from perftui.experiments.trial import trial
from perftui.experiments.verdict import Outcome
from perftui.report.report import make_report
from perftui.report.subject import load_subject
from perftui.run.reader import RunReader
from tests.described import described

pytestmark = [pytest.mark.subprocess, pytest.mark.slow]

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
    if step % 8 == 0:
        gc.collect()
"""
STEPS = 60


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
