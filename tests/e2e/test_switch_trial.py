"""A switch of torch is tried by real runs that flip it."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from statistics import median

import pytest

from perftui.experiments.trial import BlockPlan, block_pairs
from perftui.experiments.verdict import Agreement
from perftui.fixes.model import FixOption
from perftui.run.manifest import Override
from perftui.run.reader import RunReader, RunSnapshot
from tests.tui.recorded import ENDED, write_run

pytestmark = [pytest.mark.subprocess, pytest.mark.usefixtures("start_sooner")]

SCRIPT = """
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
STEPS = 86


def recorded(at: Path) -> RunSnapshot:
    script = at / "train.py"
    script.write_text(SCRIPT)
    command, runs = (sys.executable, "train.py"), at / ".perftui" / "runs"
    root = write_run(runs, script=script, command=command, cwd=str(at), **ENDED)
    return RunReader(root).poll()


def test_two_runs_that_flip_tell_what_a_switch_gains(tmp_path: Path) -> None:
    run, trials = recorded(tmp_path), tmp_path / "trials"
    plan = BlockPlan(pairs=3, steps=9, settling=4)
    made = list(block_pairs(run, OFF, plan, trials, STEPS, threading.Event(), 6))
    assert [len(one.pairs) for one in made] == [1, 2, 3, 4, 5, 6]
    last = made[-1]
    assert last.block_steps == 9
    assert last.losses.agreement is Agreement.SAME
    # Detection takes several times the step; a pair alone may be anything on a busy machine.
    assert median(pair.ratio for pair in last.pairs) > 1.3
    assert len({pair.before.root for pair in last.pairs}) == 2
