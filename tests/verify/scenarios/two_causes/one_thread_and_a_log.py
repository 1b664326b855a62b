"""Planted: torch may use one thread only, and all weights are written to a log in every step.

fixes: threads, less-often
"""

import json
import tempfile
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
# fixed:
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(1024, 1536), nn.ReLU(), nn.Linear(1536, 1024), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
path = Path(tempfile.mkdtemp()) / "weights.jsonl"


def write_weights(step: int) -> None:
    chosen = {name: value.flatten()[:4000].tolist() for name, value in model.state_dict().items()}
    with path.open("a") as file:
        file.write(json.dumps({"step": step, **chosen}) + "\n")


for step in range(2000):
    inputs, labels = torch.randn(256, 1024), torch.randint(0, 10, (256,))
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    # fixed: if step % 10 == 0: write_weights(step)
    write_weights(step)
