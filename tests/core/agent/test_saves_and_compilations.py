"""Notes of what is saved and compiled while a training goes on."""

from __future__ import annotations

import json

import pytest

from perftui.agent.hooks.call_site import CallSite
from perftui.agent.recording.side_notes import LEAST_NS, Saves
from tests.core.agent.conftest import Run, Train

SAVING = """
import io, pickle, sys
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(800, 800), nn.Linear(800, 800))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def keep(step):
    torch.save({"step": step, "model": model.state_dict()}, f"checkpoint-{step}.pt")

for step in range(8):
    loss = model(torch.rand(4, 800)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 3:
        keep(step)
    small = io.BytesIO()
    torch.save(step, small)
try:
    torch.save(model, "missing/directory/model.pt")
except Exception as error:
    print(type(error).__name__)
print(pickle.loads(pickle.dumps(torch.save)) is torch.save, torch.save.__name__)
print(f"{loss.item():.6f}", torch.load("checkpoint-7.pt")["step"], torch.rand(1).item())
"""

COMPILING = """
import torch
from torch import nn
torch.manual_seed(0)

def activate(x):
    return x.sin() + 1

model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
activation = torch.compile(activate, backend="eager", dynamic=False)
for step in range(6):
    loss = activation(model(torch.rand(step // 2 + 1, 8))).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"{loss.item():.6f}", torch.rand(1).item())
"""


def rows(run: Run, kind: str) -> list[dict[str, object]]:
    lines = [line for path in run.spool.notes_files() for line in path.read_text().splitlines()]
    return [note for line in lines if (note := json.loads(line))["kind"] == kind]


@pytest.mark.slow
@pytest.mark.subprocess
def test_saving_is_noted_with_its_line_and_changes_nothing(train: Train) -> None:
    plain, run = train(SAVING, agent=False), train(SAVING, options={"profile": False})
    assert (run.code, run.out, run.err) == (plain.code, plain.out, plain.err)
    assert run.code == 0
    assert run.notes("error") == []
    noted = rows(run, "save")
    line = SAVING.splitlines().index(
        '    torch.save({"step": step, "model": model.state_dict()}, f"checkpoint-{step}.pt")'
    )
    of_checkpoint = [note for note in noted if note["data"]["line"] == line + 1]
    assert of_checkpoint
    assert sum(note["data"]["count"] for note in of_checkpoint) <= 2
    assert all(note["duration"] >= LEAST_NS for note in noted)
    assert all(note["data"]["trains"] for note in noted)
    assert {note["data"]["function"] for note in of_checkpoint} == {"keep"}


@pytest.mark.slow
@pytest.mark.subprocess
def test_compilations_are_noted_with_their_reason_and_change_nothing(train: Train) -> None:
    plain = train(COMPILING, agent=False)
    run = train(COMPILING, options={"profile": False})
    assert (run.code, run.out, run.err) == (plain.code, plain.out, plain.err)
    assert run.code == 0
    assert run.notes("error") == []
    noted = [note for note in rows(run, "compile") if note["data"]["function"] == "activate"]
    assert len(noted) == 3
    line = COMPILING.splitlines().index("def activate(x):") + 1
    assert {note["data"]["line"] for note in noted} == {line}
    assert noted[0]["data"]["reason"] is None
    assert "size mismatch" in str(noted[1]["data"]["reason"])
    assert all(note["duration"] > 0 for note in noted)
    starts = [note["data"]["start"] for note in noted]
    assert starts == sorted(starts)


def test_small_saves_share_notes_and_none_is_lost_but_the_last() -> None:
    saves, site = Saves(), CallSite("train.py", 3, 3, "main")
    noted = [note for _ in range(100_000) if (note := saves.add(site, LEAST_NS // 4))]
    assert noted[0][0] == LEAST_NS
    assert noted[0][1]["count"] == 4
    assert len(noted) < 1500
    together = sum(duration for duration, _ in noted)
    assert together >= 0.99 * 100_000 * (LEAST_NS // 4)
