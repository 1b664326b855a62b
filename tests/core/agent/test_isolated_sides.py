"""A training with one side left out: its loader's work, everything but the loader, its output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.core.agent.conftest import Train

pytestmark = pytest.mark.subprocess

EPOCHS = """
import torch
from torch.utils.data import DataLoader, Dataset

class Counted(Dataset):
    made = 0
    def __len__(self):
        return 48
    def __getitem__(self, index):
        Counted.made += 1
        return torch.full((4,), float(index))

def main():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loader = DataLoader(Counted(), batch_size=4, {arguments})
    other = DataLoader(Counted(), batch_size=48)
    seen = []
    for epoch in range(3):
        for batch in loader:
            seen.append(int(batch[0, 0]))
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    made = Counted.made
    for batch in other:
        pass
    print(len(seen), len(set(seen)), made, Counted.made - made)

main()
"""
LINE = 16


def asked(tmp_path: Path, line: int | None = None, **arguments: Any) -> list[dict[str, Any]]:
    file = str(tmp_path / "train.py") if line else None
    return [{"target": "isolate", "arguments": arguments, "file": file, "line": line}]


def test_the_first_batches_come_again_and_epochs_stay_as_long(train: Train, tmp_path: Path) -> None:
    run = train(EPOCHS.format(arguments=""), overrides=asked(tmp_path, LINE, repeated_batches=4))
    # 36 steps with four batches of four samples; the other loader makes all of its own.
    assert (run.code, run.err, run.out) == (0, "", "36 4 16 48\n")
    assert run.step_kinds.count("train") == 36
    (note,) = run.notes("override")
    assert (note["outcome"], note["line"]) == ("applied", LINE)


@pytest.mark.parametrize("stays", [True, False])
def test_they_do_with_workers(train: Train, tmp_path: Path, stays: bool) -> None:
    arguments = f"num_workers=1, persistent_workers={stays}"
    run = train(
        EPOCHS.format(arguments=arguments), overrides=asked(tmp_path, LINE, repeated_batches=4)
    )
    assert (run.code, run.out) == (0, "36 4 0 48\n")
    assert run.step_kinds.count("train") == 36


def test_a_loader_that_knows_no_length_goes_on(train: Train, tmp_path: Path) -> None:
    source = """
import torch
from torch.utils.data import DataLoader, IterableDataset

class Few(IterableDataset):
    def __iter__(self):
        return iter(torch.zeros(6, 4))

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for batch in DataLoader(Few(), batch_size=1):
    model(batch).sum().backward()
    optimizer.step()
"""
    run = train(source, overrides=asked(tmp_path, repeated_batches=4), options={"max_steps": 20})
    assert (run.code, run.err) == (0, "")
    assert run.step_kinds.count("train") == 20


def test_the_loader_alone_is_timed_and_the_script_ends(train: Train, tmp_path: Path) -> None:
    run = train(EPOCHS.format(arguments=""), overrides=asked(tmp_path, LINE, loader_alone=0.01))
    assert (run.code, run.err, run.out) == (0, "", "")
    assert run.step_kinds == []
    (note,) = run.notes("loader_alone")
    assert note["batches"] >= 20
    assert note["ns"] >= 1e7


def test_a_loader_without_batches_is_reported(train: Train, tmp_path: Path) -> None:
    source = EPOCHS.format(arguments="").replace("return 48", "return 0")
    run = train(source, overrides=asked(tmp_path, LINE, loader_alone=0.01))
    assert run.code == 0
    (note,) = run.notes("loader_alone")
    assert note == {"batches": 0, "ns": 0}


def test_nothing_is_printed_logged_or_saved(train: Train, tmp_path: Path) -> None:
    source = """
import logging, sys
import torch
logging.basicConfig(stream=sys.stdout)
print("printed")
logging.getLogger(__name__).error("logged")
sys.stdout.write("written")
torch.save({}, "saved.pt")
raise RuntimeError("told")
"""
    run = train(source, overrides=asked(tmp_path, output=False))
    assert (run.code, run.out) == (1, "")
    assert "RuntimeError: told" in run.err
    assert not (tmp_path / "saved.pt").exists()


def test_a_side_that_is_not_known_is_refused(train: Train, tmp_path: Path) -> None:
    source = "import torch\ntorch.optim.SGD([torch.zeros(1)], 0.1).step()\nprint(1)\n"
    run = train(source, overrides=asked(tmp_path, gravity=0))
    assert (run.code, run.out) == (0, "1\n")
    notes = run.notes("override")
    assert [note["outcome"] for note in notes] in ([], ["refused"])
