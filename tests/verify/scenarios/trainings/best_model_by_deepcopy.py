"""Planted: the whole model is copied with copy.deepcopy after every step.

rule: python-bound, per-parameter-loop
"""

import copy

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(
    *[nn.Sequential(nn.Linear(96, 96), nn.LayerNorm(96), nn.GELU()) for _ in range(60)]
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
best, best_loss = None, float("inf")
for _ in range(150):
    batch = torch.randn(16, 96)
    loss = (model(batch) - batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    candidate = copy.deepcopy(model)  # planted
    if loss.item() < best_loss:
        best, best_loss = candidate, loss.item()
