"""Fixes tried on real trainings: whether they arrived, and what the comparison makes of it."""

import sys
import time
from pathlib import Path

import pytest

from perftui.experiments.comparison import Verdict, compare
from perftui.experiments.rerun import Arrival, missed, overrides, rerun_launch
from perftui.facts.fact import Facts
from perftui.facts.settings import settings
from perftui.facts.step.steps import step_count
from perftui.fixes.fix import option
from perftui.fixes.optimizer import optimizer_fused
from perftui.recorder.launch import Launch, start
from perftui.run.layout import RunLayout
from perftui.run.manifest import Expected, Override, Status
from perftui.run.reader import RunReader, RunSnapshot

pytestmark = [pytest.mark.subprocess, pytest.mark.usefixtures("start_sooner"), pytest.mark.slow]

OPTIMIZER = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(25)))
optimizer = torch.optim.AdamW(
    model.parameters(),
    lr=1e-3,{more}
)
x = torch.rand(16, 64)
for step in range(60):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {{loss.item():.5f}}", optimizer.param_groups[0]["fused"])
"""
LINE = 7
FUSED = {"fused": True}

SHARDS = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Numbers(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for number in range(first, 32, step):
            time.sleep(0.001)
            yield torch.full((8,), number / 32)


model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(Numbers(), batch_size=16)
for epoch in range(30):
    for features in loader:
        loss = model(features).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def recorded(directory: Path, source: str, *overrides: Override, **launch: object) -> RunSnapshot:
    (directory / "train.py").write_text(source)
    command = (sys.executable, "train.py")
    root = start(Launch(command, directory, directory / "runs", overrides=overrides, **launch))
    until = time.monotonic() + 120
    while not (run := RunReader(root).poll()).manifest.status.is_over:
        assert time.monotonic() < until, "the run never ended"
        time.sleep(0.1)
    assert (run.manifest.status, run.manifest.exit_code) == (Status.EXITED, 0)
    return run


def output(run: RunSnapshot) -> str:
    return RunLayout(run.root).output.read_text()


def test_an_optimizer_is_fused_for_one_run_and_then_in_the_source(tmp_path: Path) -> None:
    source = OPTIMIZER.format(more="")
    before = recorded(tmp_path, source)
    script = str(tmp_path / "train.py")

    offered = option(optimizer_fused, Facts(before))
    assert offered.override == Override("optimizer", FUSED, script, LINE, "optimizer-fused")
    tried = recorded(tmp_path, source, offered.override)
    (applied,) = overrides(Facts(tried))
    assert (applied.arrival, applied.place) == (Arrival.APPLIED, f"train.py:{LINE}")
    assert applied.values == FUSED
    assert _fused(before) == (None, LINE)
    assert _fused(tried) == (True, LINE)
    assert missed(Facts(tried)) == ""
    # The same training: nothing else than the fused step differs.
    assert output(before).split() == ["loss", output(tried).split()[1], "None"]
    assert output(tried).split()[2] == "True"
    assert step_count(Facts(before)) == step_count(Facts(tried)) == 60

    written = rerun_launch(before, offered, is_written=True).expected
    assert written == (Expected("AdamW", FUSED, script, LINE),)
    patched = recorded(tmp_path, offered.patch.after.decode(), expected=written)
    assert missed(Facts(patched)) == ""

    unreached = Override("optimizer", FUSED, script, LINE + 5, "fused")
    found = compare(Facts(before), Facts(recorded(tmp_path, source, unreached)))
    assert (found.verdict, found.reason) == (
        Verdict.INCONCLUSIVE,
        f"fused=True did not reach the training: nothing was created at train.py:{LINE + 5}",
    )


def test_workers_that_make_more_batches_of_the_same_data_are_not_called_faster(
    tmp_path: Path,
) -> None:
    before = recorded(tmp_path, SHARDS)
    workers = Override("DataLoader", {"num_workers": 3, "persistent_workers": True})
    after = recorded(tmp_path, SHARDS, workers)
    assert [step_count(Facts(run)) for run in (before, after)] == [60, 90]
    found = compare(Facts(before), Facts(after))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason == (
        "60 and 90 steps (up to 960 and 1,440 samples), so only step times are compared"
    )


def _fused(run: RunSnapshot) -> tuple[bool | None, int | None]:
    told = settings(Facts(run))
    (optimizer,) = told.optimizers
    return optimizer.fused, optimizer.line
