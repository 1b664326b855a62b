"""Planted: model and optimizer are saved every 20 steps, and the training waits.

rule: slow-steps, checkpoint
"""

import tempfile
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
folder = Path(tempfile.mkdtemp())
model = nn.Sequential(
    nn.EmbeddingBag(60_000, 128, sparse=True), nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 16)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def save(step: int) -> None:
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, folder / f"step-{step % 2}.pt")  # planted


for step in range(1, 1601):
    words = torch.randint(0, 60_000, (32, 64))
    loss = nn.functional.cross_entropy(model(words), torch.randint(0, 16, (32,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        save(step)
