"""Planted: the script keeps itself to one core, as it did on a machine that it shared.

rule: cpu-affinity
"""

import os

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # planted

import torch  # noqa: E402
from torch import nn  # noqa: E402

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
features = torch.randn(4096, 512)
labels = torch.randint(0, 10, (4096,))
for epoch in range(4):
    for at in range(0, 4096, 128):
        loss = nn.functional.cross_entropy(model(features[at : at + 128]), labels[at : at + 128])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
