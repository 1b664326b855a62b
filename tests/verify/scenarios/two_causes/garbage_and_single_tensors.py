"""Planted: garbage is collected in every step, and Adam updates one tensor at a time.

fixes: collect-off, optimizer-fused
"""

import gc

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
vocabulary = [[f"word {number}", [number]] for number in range(60_000)]
layers: list[nn.Module] = []
for _ in range(80):
    layers += [nn.Linear(32, 32), nn.Tanh()]
model = nn.Sequential(*layers, nn.Linear(32, 4))
# fixed: optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(3000):
    inputs = torch.randn(16, 32)
    loss = model(inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    # fixed:
    gc.collect()
