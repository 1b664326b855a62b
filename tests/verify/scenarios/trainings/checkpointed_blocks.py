"""Planted: activation checkpointing on every block of a model that fits in memory with ease.

rule: backward-recompute
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 512)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)) for _ in range(4)
        )
        self.head = nn.Linear(512, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)  # planted
        return self.head(x)


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(60):
    loss = nn.functional.cross_entropy(model(torch.randn(256, 64)), torch.randint(0, 10, (256,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
