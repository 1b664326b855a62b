"""Loaders that are made anew, epoch after epoch, leave as much as one that is kept."""

from __future__ import annotations

import json
from typing import Any

SCRIPT = """
import gc, sys
import torch
from torch.utils.data import DataLoader, TensorDataset

net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = TensorDataset(torch.randn(8, 4))

def epoch(loader, trains):
    for (x,) in loader:
        with torch.set_grad_enabled(trains):
            loss = net(x).sum()
        if trains:
            loss.backward()
            optimizer.step()

def loader_of(size):
    return DataLoader(data, batch_size=size)

for _ in range(20):
    epoch(loader_of(4), True)
    epoch(loader_of(2), False)
    gc.collect()
# Two alike at the same time are two, and one of another size is another.
both = [loader_of(4), loader_of(4)]
for loader in (*both, loader_of(8)):
    epoch(loader, True)
"""


def test_a_loader_that_is_made_anew_is_the_one_it_was(train: Any) -> None:
    run = train(SCRIPT)

    assert run.code == 0, run.err
    notes = run.notes("loader")
    sizes = [(note["id"], note["batch_size"]) for note in notes if "batch_size" in note]
    roles = [(note["id"], note["role"]) for note in notes if "role" in note]
    assert sizes == [(1, 4), (2, 2), (3, 4), (4, 8)]
    assert roles == [(1, "train"), (2, "eval"), (3, "train"), (4, "train")]
    assert len(json.dumps(notes)) < 10_000
