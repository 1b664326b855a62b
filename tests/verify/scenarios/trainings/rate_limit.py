"""Planted: the loop rests for 40 ms after each step, a leftover of a rate limit.

rule: python-bound
"""

import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def throttle(started: float, pause: float = 0.04) -> None:
    while time.perf_counter() - started < pause:
        time.sleep(pause / 4)  # planted


for _ in range(200):
    batch = torch.randn(128, 512)
    loss = (model(batch).squeeze(1) - batch.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    throttle(time.perf_counter())
