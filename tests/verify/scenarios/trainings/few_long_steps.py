"""Planted: two steps of LBFGS with hundreds of calls each, whose closure counts in Python.

rule: python-bound, largest-part
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.LBFGS(
    model.parameters(), max_iter=150, tolerance_change=0, tolerance_grad=0
)
points = torch.randn(512, 16)
values = points.square().sum(1, keepdim=True)


def penalty() -> float:
    total = 0.0
    for weight in model.parameters():
        for number in weight.detach().flatten().tolist() * 240:  # planted
            total += abs(number)  # planted
    return total


def closure() -> torch.Tensor:
    optimizer.zero_grad()
    loss = (model(points) - values).square().mean() + 1e-9 * penalty()
    loss.backward()
    return loss


for _ in range(2):
    optimizer.step(closure)
