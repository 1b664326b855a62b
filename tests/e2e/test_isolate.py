"""A training is run with one side left out after the other."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from perftui.experiments import isolate
from perftui.experiments.isolate import Side
from perftui.experiments.trial_runs import run_at
from perftui.report.trial import isolation_object, isolation_text
from tests.described import described
from tests.docs.alike import masked
from tests.docs.documents import ROOT

pytestmark = [pytest.mark.subprocess, pytest.mark.slow]

SCRIPT = """
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 800
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.zeros(8)

if __name__ == "__main__":
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(40):
        for batch in DataLoader(Slow(), batch_size=8):
            loss = model(batch).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            open("log.txt", "a").write("a line\\n")
"""


def said(line: str) -> str:
    """A line of the output without its figures and what these come to."""
    return masked(line.partition("; ")[0]).replace("N runs", "N run")


def shown() -> list[str]:
    """What the documents show of the output."""
    text = (ROOT / "docs" / "experiments.md").read_text()
    _, _, block = text.partition("\nperftui isolate")
    return [said(line) for line in block.partition("```")[0].splitlines()[1:]]


def test_each_side_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = [sys.executable, "-m", "perftui_tui", "diagnose", "--json", "--max-steps", "60"]
    ended = subprocess.run([*words, "train.py"], cwd=tmp_path, capture_output=True, check=True)
    root = Path(json.loads(ended.stdout)["path"])
    log = (tmp_path / "log.txt").read_bytes()
    monkeypatch.setattr(isolate, "ROUNDS", 1)
    monkeypatch.setattr(isolate, "SECONDS", 0.5)
    run = run_at(root)
    *_, found = isolate.isolate(run, tmp_path / "trials", threading.Event())
    sides = {one.experiment.side: one for one in found.sides}
    assert all(not one.problem for one in found.sides)
    whole, without = found.step_ns, sides[Side.INPUT].step_ns
    alone, worker = sides[Side.TRAINING].step_ns, sides[Side.WORKER].step_ns
    assert whole is not None
    assert without is not None
    # Eight samples of 2 ms: nothing else takes as long, however busy the machine.
    assert whole > 16e6 > without
    assert min(alone or 0, worker or 0) > 16e6
    assert "from a faster data loader" in isolation_text(found)
    assert [said(line) for line in isolation_text(found).splitlines()] == shown()
    assert described("isolate", isolation_object(found, run))["step_ns"] == whole
    # What these runs wrote was given back.
    assert (tmp_path / "log.txt").read_bytes() == log
