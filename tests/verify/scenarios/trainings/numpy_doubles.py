"""Planted: features come from NumPy in float64, so the model was made float64 too.

rule: float64
"""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
made = np.random.default_rng(0)
features, targets = made.normal(size=(4096, 256)), made.normal(size=(4096, 1))
model = nn.Sequential(
    nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)
).double()  # planted
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(80):
    at = step * 256 % 4096
    batch = torch.from_numpy(features[at : at + 256])  # planted
    loss = nn.functional.mse_loss(model(batch), torch.from_numpy(targets[at : at + 256]))  # planted
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
