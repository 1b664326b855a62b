"""Planted: every gradient is checked for NaN and clipped by its own norm, one after the other.

rule: per-parameter-loop
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.inner = nn.BatchNorm1d(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.inner(self.norm(x)))


model = nn.Sequential(nn.Linear(20, 96), *(Block(96) for _ in range(48)), nn.Linear(96, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
features = torch.randn(16 * 200, 20)
loader = DataLoader(TensorDataset(features, features.sum(1, keepdim=True)), batch_size=16)
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = nn.functional.smooth_l1_loss(model(inputs), targets)
    loss.backward()
    for parameter in model.parameters():  # planted
        gradient = parameter.grad
        if torch.isnan(gradient).any() or torch.isinf(gradient).any():  # planted
            gradient.zero_()
        norm = gradient.norm()  # planted
        gradient.mul_(torch.clamp(1.0 / (norm + 1e-6), max=1.0))  # planted
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
