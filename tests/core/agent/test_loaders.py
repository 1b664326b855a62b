"""What is noted of data loaders: where their data lies, and each of them once."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perftui.agent.dataloader import loaders as datasets


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({"size": 3, "root": "/mnt/data/train"}, {"path": "/mnt/data/train"}),
        ({"files": [Path("/mnt/data two/a")]}, {"path": "/mnt/data two/a"}),
        ({"samples": [("/mnt/database/a", 1)]}, {"path": "/mnt/database/a"}),
        ({"dataset": SimpleNamespace(where="/mnt/data")}, {"path": "/mnt/data"}),
        ({"urls": ["s3://bucket/a"]}, {"path": "s3://bucket/a", "filesystem": "s3"}),
    ],
)
def test_the_place_of_the_data_is_named(attributes: dict[str, Any], found: dict[str, str]) -> None:
    assert datasets.source_of(SimpleNamespace(**attributes)) == found


def test_a_relative_path_counts_by_the_name_of_its_attribute(tmp_path: Path) -> None:
    assert datasets.source_of(SimpleNamespace(name="train", split="a b")) == {}
    found = datasets.source_of(SimpleNamespace(data_dir="train"))
    assert found["path"] == str(Path.cwd() / "train")


def test_an_odd_dataset_tells_nothing() -> None:
    odd: list[Any] = []
    odd.append(odd)
    assert datasets.source_of(SimpleNamespace(files=odd)) == {}
    assert datasets.source_of(3) == {}


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
