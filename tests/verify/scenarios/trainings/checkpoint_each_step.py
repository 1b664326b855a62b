"""Planted: the newest weights are written with pickle after every step.

rule: checkpoint
"""

import pickle
import tempfile
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
newest = Path(tempfile.mkdtemp()) / "newest.pkl"
model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(100):
    batch = torch.randn(32, 1024)
    loss = (model(batch) - batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with newest.open("wb") as file:
        weights = {name: value.numpy() for name, value in model.state_dict().items()}
        pickle.dump({"step": step, "weights": weights}, file)  # planted
